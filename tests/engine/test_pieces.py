"""A run goes through large pieces of its events key by key, and finds the same bytes as in order of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql
from ceql.engine.common import pieces
from ceql.engine.common.machine import Machine

QUERIES = (
    "SELECT * WHERE A ; B ; C PARTITION BY k WITHIN 60 SECONDS",
    "SELECT ANY * WHERE A ; B ; C PARTITION BY k WITHIN 90 SECONDS",
    "SELECT a, b WHERE A AS a -> B AS b -> A PARTITION BY k",
    "SELECT NEXT * WHERE A+ ; B PARTITION BY k",
    "SELECT * WHERE A ; B+ ; C PARTITION BY k WITHIN 6 EVENTS",
    "SELECT MAX * WHERE A ; B+ ; C PARTITION BY k CONSUME BY PARTITION",
    "SELECT * WHERE A ; NOT B ; C PARTITION BY k WITHIN 5 MINUTES LIMIT 3",
)


def stream() -> pa.Table:
    """Events of a hundred keys, some of no key, and more than graph and pool have room for at first."""
    dice, rows = np.random.default_rng(3), 40_000
    keys = pa.array(dice.integers(0, 100, rows), mask=dice.random(rows) < 0.02)
    times = pa.array(np.sort(dice.integers(0, 4_000_000, rows)), pa.timestamp("ms"))
    return pa.table({"type": np.array(list("ABCD"))[dice.integers(0, 4, rows)], "k": keys, "time": times})


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize(("most", "room"), [(1 << 20, 1 << 10), (7_000, 1 << 10), (7_000, 0)])
def test_the_same_matches_by_key(monkeypatch: pytest.MonkeyPatch, text: str, most: int, room: int) -> None:
    """In one piece, in several, and where the matches of a piece are too many."""
    events, query = stream(), ceql.compile(text)
    recognizer = query.recognizer()
    expected = [recognizer.feed(events).to_arrow(), recognizer.finish().to_arrow()]
    monkeypatch.setattr(pieces, "FEW", 1)
    monkeypatch.setattr(pieces, "MANY", 50)
    monkeypatch.setattr(pieces, "MOST", most)
    monkeypatch.setattr(pieces, "_MATCH_BYTES", room)
    gone_through: list[object] = []

    def run(self: pieces.Pieces, machine: Machine, last: bool, made: Any = pieces.Pieces.run) -> Any:
        gone_through.append(last)
        return made(self, machine, last)

    monkeypatch.setattr(pieces.Pieces, "run", run)
    found = query.run(events, batch_rows=5_000).to_arrow()
    assert gone_through
    assert found.num_rows
    assert found.equals(pa.concat_tables(expected))
