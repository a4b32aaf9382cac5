"""Tables as analysts have them, in order of arrival: readings, clicks, flights, alarms, log-ins, steps of cases.

Each user (sensor, plane, device, case) has about a hundred events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

EACH = 100  # events of a user
DAY = 86_400 * 10**6  # microseconds


def readings(rows: int) -> pa.Table:
    """A value and a level of some sensor."""
    random = np.random.default_rng(1)
    user, v = _users(random, rows), random.random(rows) * 100 + 0.5
    return pa.table({"user": user, "v": v, "level": random.integers(0, 5, rows)})


def clicks(rows: int) -> pa.Table:
    """Three days in a shop."""
    random = np.random.default_rng(2)
    kinds = _words(random, rows, {"view": 0.8, "cart": 0.12, "pay": 0.08})
    return pa.table({"user": _users(random, rows), "type": kinds, "time": _times(random, rows, 3)})


def flights(rows: int) -> pa.Table:
    """Three months of flights: how late each was, or that it was cancelled."""
    random = np.random.default_rng(3)
    delay = random.exponential(25, rows).astype(np.int64)
    cancelled = random.random(rows) < 0.02
    return pa.table(
        {"user": _users(random, rows), "delay": delay, "cancelled": cancelled, "time": _times(random, rows, 90)}
    )


def alarms(rows: int) -> pa.Table:
    """Alarms of devices, what acknowledges them, and readings."""
    random = np.random.default_rng(4)
    kinds = _words(random, rows, {"reading": 0.8, "alarm": 0.12, "ack": 0.08})
    return pa.table({"user": _users(random, rows), "type": kinds, "time": _times(random, rows, 3)})


def logins(rows: int) -> pa.Table:
    """Log-ins, nearly all from home."""
    random = np.random.default_rng(5)
    user, abroad = _users(random, rows), random.random(rows) < 0.05
    country = np.where(abroad, random.integers(0, 20, rows), user % 20)
    names = [f"{chr(65 + k)}{chr(75 + k % 7)}" for k in range(20)]
    coded = pa.DictionaryArray.from_arrays(pa.array(country.astype(np.int32)), names)
    return pa.table({"user": user, "country": coded, "time": _times(random, rows, 3)})


def steps(rows: int) -> pa.Table:
    """Steps of cases in a repair shop."""
    random = np.random.default_rng(6)
    shares = {"check": 0.15, "repair": 0.15, "order": 0.2, "wait": 0.2, "call": 0.15, "ship": 0.15}
    return pa.table({"user": _users(random, rows), "type": _words(random, rows, shares)})


def _users(random: np.random.Generator, rows: int) -> Any:
    return random.integers(0, max(1, rows // EACH), rows)


def _times(random: np.random.Generator, rows: int, days: int) -> pa.Array:
    return pa.array(np.sort(random.integers(0, days * DAY, rows)), pa.timestamp("us"))


def _words(random: np.random.Generator, rows: int, shares: dict[str, float]) -> pa.Array:
    codes = random.choice(len(shares), rows, p=list(shares.values())).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes), list(shares))
