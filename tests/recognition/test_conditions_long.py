"""Conditions between events on long streams, where values leave the window and come again, against loops in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql

RANDOM = np.random.default_rng(12)
LONG = 3000
KINDS = RANDOM.integers(0, 3, LONG)
VALUES = RANDOM.integers(0, 40, LONG)
MISSING = RANDOM.random(LONG) < 0.05
KEYS = RANDOM.integers(0, 5, LONG)
TIMES = np.cumsum(RANDOM.integers(0, 3, LONG))
LONG_TABLE = pa.table(
    {
        "type": np.array(list("ABC"))[KINDS],
        "time": TIMES,
        "v": pa.array(VALUES, mask=MISSING),
        "k": KEYS,
    }
)


def pairs(first: int, second: int, holds: Callable[[Any, Any], Any]) -> Any:
    """Which events of these kinds, one after the other, satisfy a condition: a matrix."""
    i, j = np.arange(LONG)[:, None], np.arange(LONG)[None, :]
    present = ~MISSING[:, None] & ~MISSING[None, :] & (KINDS[:, None] == first) & (KINDS[None, :] == second)
    return (i < j) & present & holds(i, j)


def pairs_below_within_events() -> Any:
    return np.argwhere(pairs(0, 1, lambda i, j: (VALUES[i] < VALUES[j]) & (j - i <= 40)))


def pairs_below_within_time() -> Any:
    return np.argwhere(pairs(0, 1, lambda i, j: (VALUES[i] < VALUES[j]) & (TIMES[j] - TIMES[i] <= 40)))


def pairs_far_above() -> Any:
    return np.argwhere(pairs(0, 1, lambda i, j: VALUES[i] > VALUES[j] + 37))


def pairs_below_with_key() -> Any:
    return np.argwhere(
        pairs(0, 1, lambda i, j: (VALUES[i] < VALUES[j] - 9) & (KEYS[i] == KEYS[j]) & (j - i <= 99)),
    )


def triples(near: int, up: Callable[[Any, Any], Any], ends: Callable[[Any, Any], Any]) -> Any:
    """A, then B, then C, of which the last is at most so many events after the first."""
    steps = pairs(0, 1, lambda i, j: up(i, j) & (j - i <= near)), pairs(1, 2, lambda i, j: up(i, j) & (j - i <= near))
    last = pairs(0, 2, lambda i, j: ends(i, j) & (j - i <= near))
    rows = [(i, j, k) for i, j in np.argwhere(steps[0]) for k in np.flatnonzero(steps[1][j] & last[i])]
    return np.array(rows)


def rises() -> Any:
    return triples(20, lambda i, j: VALUES[i] < VALUES[j], lambda i, j: i < j)


def ends_apart() -> Any:
    return triples(20, lambda i, j: VALUES[i] != VALUES[j], lambda i, j: VALUES[j] - VALUES[i] > 25)


BY_HAND: dict[str, Callable[[], Any]] = {
    "SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v WITHIN 40 EVENTS": pairs_below_within_events,
    "SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v WITHIN 40 MILLISECONDS": pairs_below_within_time,
    "SELECT * WHERE A AS a ; B AS b FILTER a.v > b.v + 37": pairs_far_above,
    "SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v - 9 AND a.k = b.k WITHIN 99 EVENTS": pairs_below_with_key,
    "SELECT * WHERE A AS a ; B AS b ; C AS c FILTER a.v < b.v AND b.v < c.v WITHIN 20 EVENTS": rises,
    "SELECT * WHERE A AS a ; B AS b ; C AS c FILTER a.v != b.v AND b.v != c.v AND c.v - a.v > 25 WITHIN 20 EVENTS": (
        ends_apart
    ),
}


@pytest.mark.parametrize("query", BY_HAND)
def test_a_long_stream(query: str) -> None:
    expected = sorted(map(tuple, BY_HAND[query]().tolist()))
    assert len(expected) > 300
    matches = ceql.match(query, LONG_TABLE, time_unit="ms")
    assert sorted(match.events for match in matches) == expected
    assert matches.count() == len(expected)
    compiled = ceql.compile(query)
    recognizer = compiled.recognizer(time_unit="ms")
    pieces: list[tuple[int, ...]] = []
    for k in range(0, LONG, 370):
        pieces += [match.events for match in recognizer.feed(LONG_TABLE.slice(k, 370))]
        recognizer = compiled.restore(recognizer.snapshot())
    assert sorted(pieces) == expected
