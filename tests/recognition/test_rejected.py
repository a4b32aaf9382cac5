"""Events that make no sense: a recogniser takes the others of a feed in, and hands these out with the reason."""

from __future__ import annotations

import random
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest

import ceql

QUERY = "SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v PARTITION BY u"
GOOD: list[dict[str, Any]] = [{"type": "AB"[k % 2], "time": k, "v": k, "u": k % 3} for k in range(40)]
BAD: list[Any] = [
    {"type": "A", "time": None, "v": 1, "u": 1},
    {"type": "A", "time": 3, "v": "x", "u": 1},
    {"type": "A", "time": 3, "v": 1, "u": [1]},
    {"type": "A", "v": 1, "u": 1},
    5,
]


@pytest.mark.parametrize("seed", range(5))
def test_the_others_are_taken_in(seed: int) -> None:
    draw = random.Random(seed)
    whole: list[Any] = list(GOOD)
    for bad in BAD * 2:
        whole.insert(draw.randint(1, len(whole)), bad)
    query = ceql.compile(QUERY)
    recognizer, found, bad = query.recognizer(on_bad="reject"), list[Any](), list[Any]()
    at = 0
    while at < len(whole):
        size = draw.randint(1, 12)
        found += [match.events for match in recognizer.feed(whole[at : at + size])]
        at += size
        if draw.random() < 0.3:
            bad += recognizer.take_rejected()
            recognizer = query.restore(recognizer.snapshot())
    bad += recognizer.take_rejected()
    assert found == [match.events for match in query.run(GOOD)]
    assert [one.event for one in bad] == [event for event in whole if event not in GOOD]
    assert not recognizer.take_rejected()
    assert any("has no time" in one.reason for one in bad)
    assert any("column 'v' was int64 and is now string" in one.reason for one in bad)


def test_frames_and_tables() -> None:
    rows = [*GOOD[:5], {"type": "A", "time": None, "v": 1, "u": 1}, *GOOD[5:]]
    expected = [match.events for match in ceql.match(QUERY, GOOD)]
    for events in (
        pa.Table.from_pylist(rows),
        polars.DataFrame(rows),
        pandas.DataFrame(rows).astype({"time": "Int64"}),
    ):
        recognizer = ceql.compile(QUERY).recognizer(on_bad="reject")
        assert [match.events for match in recognizer.feed(events)] == expected
        (one,) = recognizer.take_rejected()
        assert one.event["v"] == 1
        assert recognizer.metrics().rejected == 1
        assert recognizer.fed == len(GOOD)


def test_without_it_a_feed_is_refused_as_a_whole() -> None:
    recognizer = ceql.compile(QUERY).recognizer()
    with pytest.raises(ceql.DataError, match="has no time"):
        recognizer.feed([GOOD[0], BAD[0]])
    assert recognizer.fed == 0
    with pytest.raises(ceql.ArgumentError, match="on_bad= is"):
        ceql.compile(QUERY).recognizer(on_bad="drop")  # type: ignore[arg-type]
