"""Power measurements of smart plugs, in the shape of the DEBS 2014 challenge, used in core-vldb2022, section 5.

A plug is off, or on for some minutes at a level of its own that drifts. Each one reports about every 2.4 seconds, which
makes 40 events a second: 400 in the window of 10 seconds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.pattern import Pattern, Step
from bench.workloads.files import read

HOUSES = 4
HOUSEHOLDS = 3  # of a house
PLUGS = 8  # of a household
PERIOD = 2400  # milliseconds between two reports of a plug
EVENTS_PER_SECOND = 1000 * HOUSES * HOUSEHOLDS * PLUGS // PERIOD
COLUMNS = {
    "type": pa.string(),
    "plug_id": pa.int64(),
    "household_id": pa.int64(),
    "house_id": pa.int64(),
    "value": pa.float64(),
}


def events(count: int, seed: int = 0) -> pa.Table:
    """`count` events: type (LOAD), plug_id, household_id, house_id, value (watts) and time (milliseconds).

    As in the challenge, plugs are numbered within their household and households within their house.
    """
    random = np.random.default_rng(seed)
    plugs = HOUSES * HOUSEHOLDS * PLUGS
    rounds = count // plugs + 2
    values = _values(rounds, plugs, random)
    phases = random.permutation(plugs) * PERIOD // plugs
    times = np.arange(rounds)[:, None] * PERIOD + phases + random.integers(0, PERIOD // 2, (rounds, plugs))
    order = np.argsort(times, axis=None, kind="stable")[:count]
    plug = order % plugs
    return pa.table(
        {
            "type": pa.repeat("LOAD", count),
            "plug_id": plug % PLUGS,
            "household_id": plug // PLUGS % HOUSEHOLDS,
            "house_id": plug // (PLUGS * HOUSEHOLDS),
            "value": values.ravel()[order],
            "time": pa.array(times.ravel()[order], pa.timestamp("ms")),
        }
    )


def load(path: str | Path) -> pa.Table:
    """Real measurements with the columns of `events`, from CSV or Parquet with a header.

    The challenge's own file calls the time timestamp, in seconds, and has no type: all events are then LOAD. It has
    measurements of work too (property = 0): leave them out beforehand.
    """
    return read(path, COLUMNS, times={"time": 1, "timestamp": 1000}, type="LOAD")


def pattern(length: int, window: int = 10_000, never: bool = False) -> Pattern:
    """P_n: plug 0 of some household is on, then plug 1 of some household, and so on around; with `never`, P'_n."""
    made = Pattern(
        tuple(Step(("LOAD",), (("plug_id", "=", k % PLUGS), ("value", ">", 30.0 + 15 * k))) for k in range(length)),
        window,
    )
    return made.prime() if never else made


def _values(rounds: int, plugs: int, random: np.random.Generator) -> np.ndarray:
    """Watts, by round and plug: on for five minutes and off for ten on average."""
    usual = np.exp(random.uniform(np.log(50), np.log(2000), plugs))
    standby = random.uniform(0, 5, plugs)
    on = random.random(plugs) < 1 / 3
    drift = np.zeros(plugs)
    values = np.empty((rounds, plugs))
    for k in range(rounds):
        on ^= random.random(plugs) < np.where(on, PERIOD / 300_000, PERIOD / 600_000)
        drift = 0.95 * drift + random.normal(0, 0.02, plugs)
        values[k] = np.where(on, usual * (1 + drift), standby)
    return np.maximum(values, 0).round(3)
