"""Streams of events with keys, an event each millisecond, so that `n EVENTS` and `n MILLISECONDS` mean the same.

`market` has BUY and SELL events of named stocks, `payments` events A, B and C of accounts, `triples` the relations T, S
and R of the rule `RULE`; `priced` has events of any types with a price; `fresh` are events of two types whose keys are
new in each block, `bursts` groups of events that make many matches at once. Every one has a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

RULE = "Q(x, y) <- T(x), S(x, y), R(x, y)"
RELATIONS = {"T": ["x"], "S": ["x", "y"], "R": ["x", "y"]}

Array = np.ndarray[Any, np.dtype[Any]]


def _table(types: Sequence[str], numbers: Array, columns: dict[str, Any], first: int = 0) -> pa.Table:
    """Events of `types`, by number, with a column of times."""
    times = np.arange(first, first + len(numbers))
    return pa.table(
        {"type": pa.array(np.array(types)[numbers]), **columns, "time": pa.array(times, pa.timestamp("ms"))}
    )


def market(count: int, keys: int, seed: int = 0) -> pa.Table:
    """Trades of `keys` stocks: type, name (a number), price (0 to 100) and time."""
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 2, count)
    return _table(
        ("BUY", "SELL"), kinds, {"name": random.integers(0, keys, count), "price": random.uniform(0, 100, count)}
    )


def payments(count: int, accounts: int, items: int, seed: int = 0) -> pa.Table:
    """Events A, B and C of an account, about an item."""
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 3, count)
    columns = {"account": random.integers(0, accounts, count), "item": random.integers(0, items, count)}
    return _table(("A", "B", "C"), kinds, columns)


def triples(count: int, x: int, y: int, seed: int = 0, first: int = 0, shift: int = 0) -> pa.Table:
    """The relations of the rule: x of `x` values, y of `y` (an event T has a y too, which the rule does not read).

    `first` is the first event's time; `shift` is added to x, for keys that are new.
    """
    random = np.random.default_rng(seed)
    kinds = random.integers(0, 3, count)
    columns = {"x": random.integers(0, x, count) + shift, "y": random.integers(0, y, count)}
    return _table(("T", "S", "R"), kinds, columns, first)


def priced(count: int, types: str = "ABC", keys: int = 20, seed: int = 0) -> pa.Table:
    """Events of types of one letter each, with a price (0 to 100) and a key k."""
    random = np.random.default_rng(seed)
    kinds = random.integers(0, len(types), count)
    return _table(tuple(types), kinds, {"price": random.uniform(0, 100, count), "k": random.integers(0, keys, count)})


def fresh(count: int, each: int, block: int, seed: int = 0) -> pa.Table:
    """Block number `block` of trades whose stocks were never seen before, `each` events of every stock on average."""
    random = np.random.default_rng((seed, block))
    kinds = random.integers(0, 2, count)
    ordered = np.arange(count) // each + block * (count // each + 2)  # neighbours in time, then shuffled a little
    names = ordered[np.argsort(np.arange(count) + random.uniform(0, 4 * each, count))]
    return _table(("BUY", "SELL"), kinds, {"name": names}, first=block * count)


def bursts(length: int, each: int, groups: int) -> pa.Table:
    """For every one of `groups` keys: `each` events of type E0, as many of E1, ..., and one of the last type.

    A sequence of these `length` types has `each ** (length - 1)` matches for a key, all of them at its last event.
    """
    one = np.append(np.repeat(np.arange(length - 1), each), length - 1)
    types = [f"E{k}" for k in range(length)]
    return _table(types, np.tile(one, groups), {"key": np.repeat(np.arange(groups), len(one))})
