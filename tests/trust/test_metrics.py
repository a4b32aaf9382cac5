"""The numbers of a recogniser: what it did is what they say."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import ceql
from ceql.recognition.frame import Recognition


def events(count: int, first: int = 0) -> pa.Table:
    rows = range(first, first + count)
    return pa.table({"type": ["AB"[k % 2] for k in rows], "time": list(rows), "k": [k % 5 for k in rows]})


def test_what_was_fed_found_and_kept() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B WITHIN 4 EVENTS").recognizer(lateness=3)
    found = recognizer.feed(events(100)).to_arrow().num_rows
    late = pa.table({"type": ["A"], "time": [5], "k": [0]})
    found += recognizer.feed(late).count()
    found += recognizer.feed(events(50, 100)).count()
    metrics = recognizer.metrics()
    assert (metrics.events, metrics.late, metrics.feeds) == (151, 1, 2)
    assert metrics.recognised + metrics.waiting == 150
    assert metrics.matches == found > 0
    assert (metrics.symbols, metrics.partitions) == (3, 1)
    assert metrics.states > 1
    assert metrics.nodes > 0
    assert metrics.feed_seconds > 0
    assert metrics.recognise_seconds > 0
    assert 0 < metrics.memory_graph <= metrics.memory_used <= metrics.memory_limit
    assert metrics.memory_rows > 0
    assert metrics.snapshots == 0
    blob = recognizer.snapshot()
    assert recognizer.metrics().snapshots == 1
    assert recognizer.metrics().snapshot_bytes == len(blob)


def test_matches_are_counted_once_however_often_they_are_read() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B").recognizer()
    matches = recognizer.feed(events(10))
    for _ in range(3):
        assert matches.to_arrow().num_rows == 15
    assert recognizer.metrics().matches == 15
    recognizer.feed(events(1, 10))  # matches that nobody asks for are not found
    recognizer.feed(events(1, 11))
    assert recognizer.metrics().matches == 15


@pytest.mark.parametrize("query", ["SELECT * WHERE A+ ; B WITHIN 9 EVENTS", "SELECT * WHERE A ; B FILTER A.k = B.k"])
def test_collections(query: str) -> None:
    recognizer = ceql.compile(f"{query} {'' if 'WITHIN' in query else 'WITHIN 9 EVENTS'}").recognizer()
    for first in range(0, 100_000, 20_000):
        recognizer.feed(events(20_000, first)).count()
    metrics = recognizer.metrics()
    assert metrics.collections > 0
    assert metrics.nodes_reclaimed > metrics.nodes
    assert bool(metrics.groups) == ("FILTER" in query)


def test_a_recognition_that_was_cut_short_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B WITHIN 9 EVENTS").recognizer()
    recognizer.feed(events(50_000)).count()
    before = recognizer.metrics()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Recognition, "flush", interrupted)
        with pytest.raises(KeyboardInterrupt):
            recognizer.feed(events(10, 50_000)).to_arrow()
    assert recognizer.last.count() == 25
    after = recognizer.metrics()
    assert (before.recoveries, after.recoveries) == (0, 1)
    assert after.collections >= before.collections > 0


def test_prometheus() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B").recognizer()
    recognizer.feed(events(10)).count()
    text = recognizer.metrics().to_prometheus(query='a "quoted"\nname')
    line = re.compile(r'(# TYPE \w+ (counter|gauge)|\w+\{query="a \\"quoted\\"\\nname"\} [\d.e+-]+)')
    assert all(line.fullmatch(found) for found in text.splitlines())
    assert 'ceql_matches_total{query="a \\"quoted\\"\\nname"} 15' in text
    assert "ceql_events_total 10" in recognizer.metrics().to_prometheus()
    assert "# TYPE ceql_memory_used_bytes gauge" in text


def test_a_recogniser_that_was_fed_nothing() -> None:
    limits = {"memory_limit": 1 << 30, "states_limit": 7, "waiting_limit": 9}
    recognizer = ceql.compile("SELECT * WHERE A").recognizer(memory=1 << 30, max_states=7, max_buffered_rows=9)
    assert recognizer.metrics() == ceql.Metrics(partitions=1, **limits)
