"""Taxi trips in New York, in the shape of the data set used in core-vldb2022, section 5.

About 500,000 trips a day, few at night and many in the evening: on average 56,000 in the window of 2.7 hours. Zones are
numbered by popularity, which falls as in Zipf's law, and most trips go to a zone next to their own.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.pattern import Pattern, Step
from bench.workloads.files import read

TRIPS_PER_DAY = 500_000
TAXIS = 13_000
ZONES = 263
HOURS = [38, 28, 20, 14, 11, 10, 21, 36, 45, 46, 44, 45, 48, 47, 49, 46, 39, 47, 58, 62, 58, 57, 56, 48]  # relative
TOUR = (*range(1, 11), *range(201, 216))  # a way through the zones: nine popular steps, then rare ones
COLUMNS = {
    "type": pa.string(),
    "medallion": pa.string(),
    "pickup_zone": pa.int64(),
    "dropoff_zone": pa.int64(),
    "trip_time": pa.int64(),
    "distance": pa.float64(),
    "total_amount": pa.float64(),
}


def events(count: int, seed: int = 0) -> pa.Table:
    """`count` events at the end of a trip.

    Columns: type (TRIP), medallion (the taxi), pickup_zone, dropoff_zone, trip_time (seconds), distance (miles),
    total_amount (dollars) and time (milliseconds, from a midnight on). Each trip is drawn alone: those of a taxi may
    overlap.
    """
    random = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, ZONES + 1)
    popularity /= popularity.sum()
    pickup = random.choice(ZONES, count, p=popularity) + 1
    far = random.choice(ZONES, count, p=popularity) + 1
    near = np.clip(pickup + random.choice([-1, 1], count), 1, ZONES)
    dropoff = np.where(random.random(count) < 0.6, near, far)
    distance = (0.5 + np.abs(pickup - dropoff) / 40 + random.exponential(1.5, count)).round(2)
    seconds = (120 + distance * random.uniform(150, 350, count)).astype(np.int64)
    taxis = np.array([f"T{k:05d}" for k in range(TAXIS)])
    return pa.table(
        {
            "type": pa.repeat("TRIP", count),
            "medallion": taxis[random.integers(0, TAXIS, count)],
            "pickup_zone": pickup,
            "dropoff_zone": dropoff,
            "trip_time": seconds,
            "distance": distance,
            "total_amount": (3 + 2.5 * distance + seconds / 300).round(2),
            "time": pa.array(_times(count, random), pa.timestamp("ms")),
        }
    )


def load(path: str | Path) -> pa.Table:
    """Real trips with the columns of `events`, from CSV or Parquet with a header.

    The names of the 2013 files are understood too, but those have coordinates: give each a zone beforehand. In files
    without a type all events are TRIP.
    """
    others = {"trip_time_in_secs": "trip_time", "trip_distance": "distance"}
    return read(path, COLUMNS, times={"time": 1, "dropoff_datetime": 1}, others=others, type="TRIP")


def pattern(length: int, window: int = 9_720_000, never: bool = False, tour: tuple[int, ...] | None = None) -> Pattern:
    """P_n: n trips, each from the next zone of the tour to the one after it; with `never`, P'_n.

    Real zones have other numbers: give a `tour` of n + 1 of them.
    """
    zones = TOUR if tour is None else tour
    if len(zones) <= length:
        raise ValueError(f"{length} trips need a tour of {length + 1} zones, not {len(zones)}")
    made = Pattern(
        tuple(
            Step(("TRIP",), (("pickup_zone", "=", start), ("dropoff_zone", "=", end)))
            for start, end in pairwise(zones[: length + 1])
        ),
        window,
    )
    return made.prime() if never else made


def _times(count: int, random: np.random.Generator) -> np.ndarray:
    """Milliseconds, not decreasing: arrivals at random, as dense as the hour has it."""
    arrivals = np.cumsum(random.exponential(1, count))
    days = int(arrivals[-1] // TRIPS_PER_DAY) + 1 if count else 1
    until = np.concatenate([[0], np.cumsum(np.tile(HOURS, days))]) * (TRIPS_PER_DAY / sum(HOURS))  # trips, by hour
    return np.interp(arrivals, until, np.arange(24 * days + 1) * 3_600_000).astype(np.int64)
