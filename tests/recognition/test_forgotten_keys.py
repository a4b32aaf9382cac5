"""Keys of partitions that hold nothing are forgotten; what must be remembered of the others is."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ceql
from ceql.engine.groups.machine import GroupMachine
from ceql.engine.states.machine import StateMachine
from ceql.recognition import frame

QUERIES = [
    "SELECT * WHERE A ; B PARTITION BY k",
    "SELECT * WHERE A ; B PARTITION BY k WITHIN 5 [v]",
    "SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v PARTITION BY k WITHIN 5 [v]",
]


@pytest.fixture(autouse=True)
def few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "_MANY_KEYS", 4)
    monkeypatch.setattr(frame, "_SOME_KEYS", 4)
    # so few nodes that memory is given back early
    monkeypatch.setattr(StateMachine.__init__, "__defaults__", (3, 5, 8, 16))
    monkeypatch.setattr(GroupMachine.__init__, "__defaults__", (None, None, 3, 5, 8, 4))


def events(*rows: tuple[str, int, int]) -> pa.Table:
    kinds, keys, values = zip(*rows, strict=True)
    return pa.table({"type": list(kinds), "k": list(keys), "v": list(values)})


@pytest.mark.parametrize("query", QUERIES)
def test_keys_that_never_hold_anything(query: str) -> None:
    recognizer = ceql.compile(query).recognizer()
    recognizer.feed(events(*(("B", k, k) for k in range(100)), ("A", 1000, 1000))).to_arrow()
    assert recognizer.partitions < 10
    found = [match.events for match in recognizer.feed(events(("B", 5, 1001), ("B", 1000, 1001)))]
    assert found == [(100, 102)]


@pytest.mark.parametrize("query", QUERIES[1:])
def test_a_key_whose_events_were_given_up_knows_where(query: str) -> None:
    recognizer = ceql.compile(query).recognizer()
    recognizer.feed(events(*(("A", 7, 10 * n) for n in range(2_000)))).to_arrow()  # all but the last are given up
    for n in range(100):
        recognizer.feed(events(("B", 1000 + n, 0), ("C", 7, 20_000 + n))).to_arrow()
    with pytest.raises(ceql.DataError, match="went back"):
        recognizer.feed(events(("B", 7, 12))).to_arrow()
    assert recognizer.partitions < 20
