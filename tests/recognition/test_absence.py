"""NOT at the end of a match: time decides, moved on by events, by `advance` and by `finish`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql
from ceql.engine.common.chunk import Chunk
from ceql.recognition.waiting import Held, Waiting


def events(*rows: tuple[str, int, str]) -> list[dict[str, Any]]:
    return [{"type": kind, "time": time, "k": key} for kind, time, key in rows]


def found(matches: ceql.Matches) -> list[tuple[int, ...]]:
    return [match.events for match in matches]


BEAT = "SELECT * WHERE Beat ; NOT Beat AS other PARTITION BY k WITHIN 5 SECONDS"


def test_time_decides_without_an_event() -> None:
    watch = ceql.compile(BEAT).recognizer(time_unit="s")
    assert found(watch.feed(events(("Beat", 0, "a"), ("Beat", 1, "b"), ("Beat", 4, "a")))) == []
    assert found(watch.advance(6)) == []  # an event at 6 would still be in time
    assert found(watch.advance(7)) == [(1,)]
    assert found(watch.advance(7)) == []
    assert found(watch.finish()) == [(2,)]


def test_what_comes_before_the_time_that_was_said_is_late() -> None:
    watch = ceql.compile(BEAT).recognizer(time_unit="s")
    list(watch.feed(events(("Beat", 0, "a"))))
    list(watch.advance(3))
    list(watch.feed(events(("Beat", 2, "a"), ("Beat", 3, "a"))))
    assert watch.late().column("time").to_pylist() == [2]


def test_lateness_is_cut_short() -> None:
    watch = ceql.compile(BEAT).recognizer(time_unit="s", lateness="1 minute")
    assert found(watch.feed(events(("Beat", 0, "a"), ("Beat", 20, "a")))) == []
    assert found(watch.advance(10)) == [(0,)]


def test_a_snapshot_keeps_what_waits() -> None:
    query = ceql.compile(BEAT)
    watch = query.recognizer(time_unit="s")
    list(watch.feed(events(("Beat", 0, "a"), ("Beat", 1, "b"))))
    again = query.restore(watch.snapshot())
    assert found(again.feed(events(("Beat", 3, "b")))) == []
    assert found(again.advance(100)) == [(0,), (2,)]


def test_times_are_those_of_the_events() -> None:
    watch = ceql.compile(BEAT).recognizer()
    noon = datetime(2026, 1, 1, 12)
    list(watch.feed(pa.table({"type": ["Beat"], "time": [noon], "k": ["a"]})))
    with pytest.raises(ceql.DataError, match="is no time like those of the events"):
        watch.advance("later")
    assert found(watch.advance(noon + timedelta(seconds=5, microseconds=1))) == [(0,)]


def test_there_is_no_time_before_the_first_event() -> None:
    with pytest.raises(ceql.DataError, match="no event with a time has come"):
        ceql.compile(BEAT).recognizer().advance(3)


def test_advance_of_another_query_releases_what_lateness_held_back() -> None:
    watch = ceql.compile("SELECT * WHERE A ; B").recognizer(lateness=100)
    assert found(watch.feed(events(("B", 3, "a"), ("A", 1, "a")))) == []
    assert found(watch.advance(4)) == [(0, 1)]


def test_a_session_without_purchase() -> None:
    """Those who log in and buy nothing for half an hour."""
    query = "SELECT * WHERE Login ; NOT Purchase PARTITION BY k WITHIN 30 MINUTES"
    rows = [("Login", 0, "ann"), ("Login", 1, "bob"), ("Purchase", 20, "bob"), ("Login", 40, "cid")]
    data = [{**event, "time": 60 * event["time"]} for event in events(*rows)]
    assert found(ceql.match(query, data, time_unit="s")) == [(0,), (3,)]


def test_candidates_come_out_by_number() -> None:
    """Pieces of any size, merged and taken out in part."""
    room, numbers = Waiting(), [5, 3, 9, 3, 7, 1, 8, 2, 6, 4]
    for k, number in enumerate(numbers):
        room.add(held([k], [number]))
    first = room.below(4)
    assert first is not None
    assert sorted(first.chunk.start.tolist()) == [1, 3, 5, 7]
    second = room.at(np.array([6, 7]))
    assert second is not None
    assert sorted(second.chunk.start.tolist()) == [4, 8]
    assert room.least == 4
    assert room.count == 4


def held(starts: list[int], numbers: list[int]) -> Held:
    start = np.array(starts, np.int64)
    chunk = Chunk(start, start, np.arange(len(start) + 1), start, np.zeros(len(start), np.int32))
    return Held(chunk, np.array(numbers, np.int64), np.array(numbers, np.int64))
