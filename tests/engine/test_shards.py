"""Machines that are divided into shards find the same matches, in the same order whatever the threads."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ceql
import checks
import corpus
import generators
import oracle
import paths
from ceql.engine.common import machine, sharded, shares
from ceql.engine.common.sharded import Sharded
from ceql.engine.groups.machine import GroupMachine
from ceql.engine.states.layout import POOL, RECORD, ROOM
from ceql.engine.states.machine import StateMachine
from ceql.recognition.unary import UnaryRecognition
from ceql.syntax.printer import print_query
from rule_oracle import RuleCase, rule_cases

ABLE = [case for case in corpus.load() if case.error is None and (case.correlated or "PARTITION" in case.query)]
CASES = corpus.some(ABLE, 2)
EXAMPLES = settings(suppress_health_check=list(HealthCheck))


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> None:
    checks.use_shards(monkeypatch.setattr)


@pytest.fixture
def unsplit(monkeypatch: pytest.MonkeyPatch) -> None:
    checks.use_no_substreams(monkeypatch.setattr)


LONG = {
    "clause": "A AS a ; B+ AS b ; C AS c PARTITION BY k WITHIN 9 EVENTS",
    "clause by time": "A AS a ; B AS b ; C AS c PARTITION BY k, s WITHIN 3 SECONDS",
    "clause, NEXT": "A ; B ; C PARTITION BY s, k",
    "clause, groups": "A AS a ; B AS b ; C AS c FILTER a.v < b.v AND b.v < c.v PARTITION BY k WITHIN 3 SECONDS",
    "value": "A AS a ; B AS b ; C AS c FILTER a.k = b.k AND b.k = c.k WITHIN 3000 EVENTS",
    "value, in order": "A AS a ; B AS b FILTER a.k = b.k AND a.v < b.v WITHIN 1500 EVENTS",
    "value, sets": "A+ AS a ; B AS b FILTER a.s = b.s AND a.k = b.k AND a.v != b.v WITHIN 1500 EVENTS LIMIT 3",
    "value, unlike": "(A ; B AS b ; C FILTER b[v != PREV.v] PARTITION BY k) WITHIN 3000 EVENTS",
    "value, ALL": "A AS a ALL B AS b ALL C AS c FILTER a.k = b.k AND b.k = c.k AND a.s = b.s WITHIN 3000 EVENTS",
}


def long_stream(count: int = 8_000) -> pa.Table:
    random = np.random.default_rng(5)
    return pa.table(
        {
            "type": np.array(list("ABC"))[random.integers(0, 3, count)],
            "time": pa.array(np.arange(count), pa.int64()),
            "k": random.integers(0, 400, count),
            "s": np.array(["x", "yy", "a longer text"])[random.integers(0, 3, count)],
            "v": random.integers(0, 9, count),
        }
    )


def in_feeds(query: ceql.Query, feeds: list[pa.Table], restored: int, threads: Any) -> list[pa.Table]:
    """The matches of each feed, with a snapshot and restore after one of them."""
    recognizer = query.recognizer(time_unit="ms", threads=threads)
    found = []
    for k, feed in enumerate(feeds):
        found.append(recognizer.feed(feed).to_arrow())
        if k == restored:
            recognizer = query.restore(recognizer.snapshot(), threads=threads)
    return found


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
@pytest.mark.parametrize("count", [2, 7])
def test_long_streams(monkeypatch: pytest.MonkeyPatch, text: str, count: int) -> None:
    """The same bytes for any number of threads, any batches, and after a snapshot; the matches of a whole machine."""
    query, events = (
        ceql.compile(f"SELECT {'NEXT ' if text == LONG['clause, NEXT'] else ''}* WHERE {text}"),
        long_stream(),
    )
    whole = query.run(events, time_unit="ms").to_arrow()
    assert whole.num_rows
    divided: list[object] = []

    def of(*given: Any, made: Any = Sharded.of) -> Any:
        divided.append(given)
        return made(*given)

    monkeypatch.setattr(Sharded, "of", of)
    monkeypatch.setattr(machine, "OUTGROWN", 20)
    for kind in (GroupMachine, StateMachine):
        monkeypatch.setattr(kind, "__init__", partialmethod(kind.__init__, nodes=64))
    monkeypatch.setattr(shares, "SHARDS", count)
    monkeypatch.setattr(sharded, "FEW", 50)
    found = query.run(events, time_unit="ms").to_arrow()
    assert divided, "the machine was not divided"
    order = [("end", "ascending"), ("start", "descending")]
    columns = [name for name in whole.column_names if pa.types.is_list(whole.schema.field(name).type)]
    assert found.select(["end", "start"]).equals(whole.sort_by(order).select(["end", "start"]))
    for column in columns:
        rows = [sorted(zip(*(t[n].to_pylist() for n in ("end", column)), strict=True)) for t in (found, whole)]
        assert rows[0] == rows[1]
    for threads in (2, "all"):
        assert query.run(events, time_unit="ms", threads=threads).to_arrow().equals(found)
    assert query.run(events, time_unit="ms", threads=2, batch_rows=777).to_arrow().equals(found)
    assert query.run(events, time_unit="ms", threads=2).count() == whole.num_rows
    feeds = [events.slice(k, 1_000) for k in range(0, len(events), 1_000)]
    for restored in (-1, 5):
        assert pa.concat_tables(in_feeds(query, feeds, restored, threads=2)).equals(found)


@pytest.mark.parametrize("text", [LONG["clause"], LONG["value"]])
def test_what_was_collected_before_the_division_counts(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(machine, "OUTGROWN", 20)
    for kind in (GroupMachine, StateMachine):
        monkeypatch.setattr(kind, "__init__", partialmethod(kind.__init__, nodes=64))
    counted: list[tuple[int, int]] = []

    def of(whole: Any, *given: Any, made: Any = Sharded.of) -> Any:
        counted.append((whole.collections, whole.reclaimed))
        return made(whole, *given)

    monkeypatch.setattr(Sharded, "of", of)
    recognizer = ceql.compile(f"SELECT * WHERE {text}").recognizer(time_unit="ms")
    recognizer.feed(long_stream(2_000)).count()
    ((collections, reclaimed),) = counted
    metrics = recognizer.metrics()
    assert metrics.collections >= collections > 0
    assert metrics.nodes_reclaimed >= reclaimed


@pytest.mark.parametrize("threads", [0, -1, "some", 1.5, True, None])
def test_threads_are_a_number_or_all(threads: Any) -> None:
    query = ceql.compile("SELECT * WHERE A ; B PARTITION BY k")
    with pytest.raises(ceql.ArgumentError, match="threads= is a whole number of at least 1, or 'all'"):
        query.run(long_stream(10), threads=threads)
    with pytest.raises(ceql.ArgumentError, match="threads="):
        query.restore(query.recognizer().snapshot(), threads=threads)


def test_all_shards_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "OUTGROWN", 1 << 12)
    count = 400_000
    events = pa.table({"type": np.full(count, "A"), "k": np.arange(count)})
    query = ceql.compile("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k WITHIN 9000000 EVENTS")
    with pytest.raises(ceql.ResourceError, match="memory"):
        query.run(events, memory=64 << 20, threads=2).to_arrow()
    assert query.run(events, memory=1 << 30, threads=2).to_arrow().num_rows == 0


def test_records_that_have_filled_their_rooms_find_room_when_they_are_packed() -> None:
    query = ceql.compile("SELECT * WHERE A ; B PARTITION BY k")
    recognizer = query.recognizer()
    recognizer.feed(long_stream(64)).to_arrow()
    held = recognizer._recognitions[0]
    assert isinstance(held, UnaryRecognition)
    whole = held.whole
    count = len(whole.table)
    pool = np.tile(np.array([1, 0, 5, 0, 0, 0, 0, 0]), count)  # a state with a list of five nodes fills a room of eight
    whole.pool = pool
    whole.table[:, RECORD], whole.table[:, ROOM], whole.regs[POOL] = 8 * np.arange(count), 8, len(pool)
    whole._compact_pool(len(pool))
    assert whole.regs[POOL] <= len(whole.pool)


def in_order(matches: list[oracle.Match]) -> list[Any]:
    """What is specified of the order of matches: ties may come in any order."""
    return sorted(matches, key=lambda m: (m.end, -m.start, m.events, sorted(m.bindings)))


def check(case: generators.Generated, data: st.DataObject) -> None:
    with checks.suppress_falling_attributes(True, case):
        check_threads(paths.in_merged_order(case), data)


def check_threads(case: generators.Generated, data: st.DataObject) -> None:
    """The matches of the oracle, in any number of threads, whole, in batches and in pieces with snapshots between."""
    query = ceql.compile(print_query(case.query))
    options = checks.OPTIONS
    whole = paths.run_whole(query, case.events, **options)
    oracle.check(case.query, case.events, whole)
    for threads in (2, "all"):
        assert paths.run_whole(query, case.events, threads=threads, **options) == whole
    assert query.run(paths.inputs(query, case.events), threads=2, **options).count() == len(whole)
    rows = data.draw(st.integers(1, 4), label="rows per batch")
    in_batches = paths.run_in_batches(query, case.events, rows, threads=2, **options)
    assert in_order(in_batches) == in_order(whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(case.events)), max_size=4), label="cuts"))
    restored = data.draw(st.sets(st.integers(0, 5)), label="restored after")
    in_pieces = [
        paths.run_in_pieces(query, case.events, cuts, restored.__contains__, threads=threads, **options)
        for threads in (1, 2)
    ]
    assert in_pieces[0] == in_pieces[1]
    assert in_order(in_pieces[0]) == in_order(whole)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_corpus(shards: None, case: corpus.Case) -> None:
    query = ceql.compile(case.query)
    with checks.suppress_falling_attributes(True, generators.Generated(query.plan.query, case.events)):
        whole = paths.run_whole(query, case.events, **case.keywords)
        case.verify(whole)
        oracle.check(query.plan.query, case.events, whole, **case.keywords)
        assert paths.run_whole(query, case.events, threads=2, **case.keywords) == whole
        cuts = list(range(1, len(case.events)))
        pieces = paths.run_in_pieces(query, case.events, cuts, lambda k: k % 2 == 0, threads=2, **case.keywords)
        assert in_order(pieces) == in_order(whole)
        assert query.run(paths.inputs(query, case.events), threads=2, **case.keywords).count() == len(whole)


@settings(EXAMPLES, max_examples=40)
@given(generators.uncorrelated_cases(), st.data())
def test_random_cases(shards: None, case: generators.Generated, data: st.DataObject) -> None:
    check(case, data)


@settings(EXAMPLES, max_examples=40)
@given(generators.correlated_cases(), st.data())
def test_random_correlated_cases(shards: None, case: generators.Generated, data: st.DataObject) -> None:
    check(case, data)


@settings(EXAMPLES, max_examples=40)
@given(generators.correlated_cases(), st.data())
def test_random_correlated_cases_without_substreams(
    shards: None, unsplit: None, case: generators.Generated, data: st.DataObject
) -> None:
    check(case, data)


@settings(EXAMPLES, max_examples=30)
@given(generators.conditioned_cases(), st.data())
def test_random_conditions(shards: None, unsplit: None, case: generators.Generated, data: st.DataObject) -> None:
    check(case, data)


@settings(EXAMPLES, max_examples=40)
@given(rule_cases(), st.data())
def test_random_rules(shards: None, case: RuleCase, data: st.DataObject) -> None:
    check(generators.Generated(case.compile().plan.query, case.events), data)
