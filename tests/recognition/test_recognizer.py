"""The push API beyond what the corpus shows: limits, interrupts, snapshots, laziness."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ceql
from ceql.automata.correlated import Correlated
from ceql.engine.common import output
from ceql.engine.states.machine import StateMachine


def events(kinds: str, first: int = 0) -> pa.Table:
    return pa.table({"type": list(kinds), "time": np.arange(first, first + len(kinds))})


def found(matches: ceql.Matches) -> list[tuple[int, ...]]:
    return [m.events for m in matches]


def test_a_budget_stops_and_can_be_raised_without_losing_anything() -> None:
    query = ceql.compile("SELECT ANY * WHERE A ; B")
    recognizer = query.recognizer(memory=2_000_000)
    table = events("A" * 200_000 + "B")
    matches = recognizer.feed(table)
    with pytest.raises(ceql.ResourceError, match="raise memory=") as error:
        found(matches)
    assert error.value.limit == "memory"
    with pytest.raises(ceql.ResourceError):
        recognizer.feed(events("B", 300_000))
    recognizer.memory = 1 << 30
    assert found(recognizer.feed(events("B", 300_000))) == [(199_999, 200_001)]
    assert recognizer.position == 200_002


def test_matches_that_were_not_read_are_kept() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B").recognizer()
    first = recognizer.feed(events("AB"))
    second = recognizer.feed(events("B", 2))
    assert found(second) == [(0, 2)]
    assert found(first) == [(0, 1)]


def test_rows_of_unread_matches_are_kept_too() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B WITHIN 1 EVENTS").recognizer()
    first = recognizer.feed(events("AB"))
    recognizer.feed(events("C" * 10, 2))
    assert first.events().column("time").to_pylist() == [0, 1]


def test_a_snapshot_of_another_query_is_refused() -> None:
    blob = ceql.compile("SELECT * WHERE A ; B").recognizer().snapshot()
    with pytest.raises(ceql.DataError, match="another query"):
        ceql.compile("SELECT * WHERE A ; C").restore(blob)
    ceql.compile("select *  where A;B").restore(blob)  # the same query, spelt otherwise


@pytest.mark.parametrize("damage", [lambda b: b[:-7], lambda b: b"XXXX" + b[4:], lambda b: b[:20], lambda b: b""])
def test_a_damaged_snapshot_is_refused(damage) -> None:
    query = ceql.compile("SELECT * WHERE A ; B")
    recognizer = query.recognizer()
    found(recognizer.feed(events("AA")))
    with pytest.raises(ceql.DataError, match="snapshot"):
        query.restore(damage(recognizer.snapshot()))


def test_a_snapshot_before_any_event() -> None:
    query = ceql.compile("SELECT * WHERE A ; B")
    assert found(query.restore(query.recognizer().snapshot()).feed(events("AB"))) == [(0, 1)]


def test_lateness_holds_back_and_reorders() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B").recognizer(lateness=10)
    table = pa.table({"type": ["B", "A"], "time": [105, 100]})
    assert found(recognizer.feed(table)) == []
    assert found(recognizer.feed(pa.table({"type": ["C", "A"], "time": [130, 90]}))) == [(0, 1)]
    assert recognizer.late().to_pylist() == [{"type": "A", "time": 90}]
    assert found(recognizer.finish()) == []
    with pytest.raises(ceql.DataError, match="finished"):
        recognizer.feed(table)


def test_streams_are_fed_by_name() -> None:
    recognizer = ceql.compile("SELECT * FROM S, T WHERE S>A ; T>B").recognizer()
    assert found(recognizer.feed(events("A"), stream="S")) == []
    assert found(recognizer.feed(pa.table({"type": ["B"], "time": [5]}), stream="T")) == []
    assert found(recognizer.finish()) == [(0, 1)]
    with pytest.raises(ceql.DataError, match="no stream 'X'"):
        ceql.compile("SELECT * FROM S, T WHERE A").recognizer().feed(events("A"), stream="X")


def test_one_event_at_a_time_as_dicts() -> None:
    recognizer = ceql.compile("SELECT * WHERE A AS x ; B AS y FILTER y[v > 1]").recognizer()
    assert found(recognizer.feed({"type": "A"})) == []
    assert found(recognizer.feed({"type": "B", "v": 1})) == []
    assert found(recognizer.feed({"type": "B", "v": 2.5, "w": "new"})) == [(0, 2)]


def test_a_query_with_more_matches_than_memory_is_read_in_batches() -> None:
    query = ceql.compile("SELECT * WHERE A+ ; B")
    matches = query.run(events("A" * 60 + "B"))
    assert matches.count() == 2**60 - 1
    batches = matches.to_batches()
    starts = [next(batches).column("start").to_numpy() for _ in range(3)]
    joined = np.concatenate(starts)
    assert (np.diff(joined) <= 0).all()
    assert joined[0] == 59


def test_counts_of_any_size_with_a_window() -> None:
    query = ceql.compile("SELECT * WHERE A+ ; B WITHIN 1000 EVENTS")
    assert query.run(events("A" * 5000 + "B")).count() == 2**1000 - 1
    distinct = ceql.compile("SELECT NONE WHERE A+ ; B WITHIN 1000 EVENTS")
    assert distinct.run(events("A" * 5000 + "B")).count() == 1000


def test_limit_takes_the_latest_starts_of_very_many() -> None:
    query = ceql.compile("SELECT * WHERE A+ ; B LIMIT 5")
    got = [(m.start, m.events) for m in query.run(events("A" * 200 + "B"))]
    assert [start for start, _ in got] == [199, 198, 198, 197, 197]
    assert len(set(got)) == 5


def test_long_matches() -> None:
    table = events("A" * 300_000 + "B")
    for strategy in ("MAX", "NEXT", "LAST", "STRICT"):
        matches = list(ceql.match(f"SELECT {strategy} * WHERE A:+ : B", table, batch_rows=1 << 20).head(1).to_pylist())
        assert matches[0]["end"] == 300_000
    (match,) = ceql.match("SELECT MAX * WHERE A+ ; B LIMIT 1", table)
    assert len(match.events) == 300_001
    (match,) = ceql.match("SELECT * WHERE C ; A:+ : B LIMIT 1", events("C" + "A" * 300_000 + "B"))
    assert len(match.events) == 300_002


def test_ten_thousand_partitions_come_and_go() -> None:
    query = ceql.compile("SELECT * WHERE A ; B PARTITION BY k WITHIN 1 SECOND")
    recognizer = query.recognizer()
    for r in range(20):
        keys = np.arange(10_000) + r * 10_000
        times = pa.array(np.full(10_000, 10_000 * r), pa.timestamp("ms"))
        found(recognizer.feed(pa.table({"type": ["A"] * 10_000, "k": keys, "time": times})))
    assert recognizer.partitions <= 30_000
    late = pa.table({"type": ["B"], "k": [199_999], "time": pa.array([190_500], pa.timestamp("ms"))})
    assert [m.partition for m in recognizer.feed(late)] == [{"k": 199_999}]


def test_matches_keep_their_keys_when_partitions_are_given_to_others() -> None:
    rounds, live = 12, 5_000
    keys = np.arange(rounds * live)
    times = np.repeat(np.arange(rounds) * 10_000, live)
    table = pa.table(
        {
            "type": np.tile(["A", "B"], rounds * live),
            "k": np.repeat(keys, 2),
            "time": pa.array(np.repeat(times, 2), pa.timestamp("ms")),
        }
    )
    query = ceql.compile("SELECT * WHERE A ; B PARTITION BY k WITHIN 1 SECOND")
    matches = query.run(table, batch_rows=1000).to_arrow()
    assert matches.column("k").to_numpy().tolist() == keys.tolist()
    assert matches.column("start").to_numpy().tolist() == (2 * keys).tolist()


def test_a_snapshot_of_another_automaton_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    query = ceql.compile("SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x.k = y.k")
    recognizer = query.recognizer()
    recognizer.feed([{"type": "A", "k": 1}])
    blob = recognizer.snapshot()
    assert query.restore(blob).position == 1
    monkeypatch.setattr(Correlated, "fingerprint", "that of another version")
    with pytest.raises(ceql.DataError, match="another automaton"):
        query.restore(blob)


@pytest.mark.parametrize("strategy", ["MAX", "NEXT", "LAST"])
def test_replaying_a_window_takes_no_more_memory_each_time(strategy: str) -> None:
    query = ceql.compile(f"SELECT {strategy} * WHERE A+ ; B WITHIN 30 EVENTS")
    events = pa.table({"type": random.Random(1).choices("AB", k=8_000)})
    recognizer = query.recognizer(memory=1_180_000)  # a little more than a machine takes at first
    assert recognizer.feed(events).to_arrow().equals(query.run(events).to_arrow())


@pytest.mark.parametrize("strategy", ["MAX", "NEXT", "LAST"])
def test_a_replay_that_was_refused_memory_is_done_again(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = ceql.compile(f"SELECT {strategy} * WHERE A+ ; B WITHIN 30 EVENTS")
    events = pa.table({"type": random.Random(1).choices("AB", k=500)})
    everything = query.run(pa.concat_tables([events, events])).to_arrow()
    recognizer = query.recognizer()
    refusals = iter([99])

    def refuse(machine: StateMachine) -> None:
        if next(refusals, None):
            raise ceql.ResourceError("refused", limit="memory")

    monkeypatch.setattr(StateMachine, "_grow_search", refuse)  # in the middle of an event of the chooser
    monkeypatch.setattr(output, "DEPTH", 4)
    with pytest.raises(ceql.ResourceError, match="refused"):
        recognizer.feed(events).to_arrow()
    monkeypatch.undo()
    second = everything.filter(pc.greater_equal(everything["end"], len(events)))
    assert recognizer.feed(events).to_arrow().equals(second)


@pytest.mark.parametrize("condition", ["", " FILTER A.k = B.k"])
def test_a_limit_that_no_position_reaches(condition: str) -> None:
    events = [{"type": "A", "k": 1}] * 3 + [{"type": "B", "k": 1}] * 3
    found = ceql.match(f"SELECT * WHERE (A+ ; B{condition}) LIMIT {2**63 - 1}", events)
    assert found.count() == len(list(found)) == 21


def test_a_resource_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(ceql.ResourceError("too much", limit="memory")))
    assert (str(error), error.limit) == ("too much", "memory")


def many_states(parts: int, rows: int, partitions: int = 1) -> tuple[ceql.Query, pa.Table]:
    """A query and events for which the automaton has many states, and the events many symbols."""
    items = " : ".join(f"E AS y{k}" for k in range(parts))
    conditions = " AND ".join(f"y{k}[b{k} < 9]" for k in range(parts))
    dice = np.random.default_rng(1)
    columns = {f"b{k}": dice.integers(0, 10, rows) for k in range(parts)}
    kinds = ["X"] * partitions + ["E"] * (rows - partitions)
    table = pa.table({"type": kinds, "k": np.arange(rows) % partitions, **columns})
    query = f"SELECT x WHERE X AS x ; ({items}) FILTER {conditions} PARTITION BY k LIMIT 1"
    return ceql.compile(query), table


def test_the_tables_of_the_automaton_keep_within_memory() -> None:
    query, table = many_states(12, 6000)
    memory = 4 << 20
    recognizer = query.recognizer(memory=memory)
    assert recognizer.feed(table).to_arrow().equals(query.run(table).to_arrow())
    assert recognizer._recognitions
    machine = recognizer._recognitions[0].machine
    assert isinstance(machine, StateMachine)
    tables = machine.cache.tables
    assert tables.next.nbytes + tables.initial_next.nbytes <= memory
    assert machine.used <= memory


def test_tables_that_need_more_than_memory_are_refused_until_it_is_raised() -> None:
    query, table = many_states(12, 6000, partitions=200)
    recognizer = query.recognizer(memory=1_700_000)
    matches = recognizer.feed(table)
    with pytest.raises(ceql.ResourceError, match="the automaton's tables need more") as error:
        matches.to_arrow()
    assert error.value.limit == "memory"
    recognizer.memory = 1 << 24
    assert matches.to_arrow().equals(query.run(table).to_arrow())


def test_many_long_matches_at_one_position(monkeypatch: pytest.MonkeyPatch) -> None:
    query = ceql.compile("SELECT MAX * WHERE A ; B+ ; C")
    table = pa.table({"type": random.Random(2).choices("ABC", k=1200)})
    found = query.run(table).to_arrow()  # the search grows deeper in the middle of a position
    found.validate(full=True)
    monkeypatch.setattr(output, "DEPTH", 4096)
    assert found.equals(query.run(table).to_arrow())


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("A AS a ; B AS b FILTER a[v < 5] AND a.v < b.v", "A AS a ; B AS b FILTER a.v < b.v AND a[5.0 > v]"),
        ("A AS a ; B AS b FILTER a[v < 5 AND k = 1]", "A AS a ; B AS b FILTER a[1.0 = k AND 5 > v]"),
        (
            "A AS a ; B+ AS b FILTER COUNT(b) <= 2 AND a[v IN {1.0, 2..4.0}]",
            "A AS a ; B+ AS b FILTER a[v IN {1, 2..4}] AND 2 >= COUNT(b)",
        ),
        ("A AS a ; B AS b FILTER a.k = b.k AND a.v <= b.v", "A AS a ; B AS b FILTER a.v <= b.v AND a.k = b.k"),
        ("(A AS a FILTER a[v BETWEEN 1 AND 4]) ; B", "(A AS a FILTER a[v BETWEEN 1.0 AND 4.0]) ; B"),
    ],
)
def test_a_snapshot_goes_on_under_another_spelling_of_the_same_conditions(written: str, other: str) -> None:
    events = [{"type": kind, "k": k, "v": v} for kind, k, v in [("A", 1, 2), ("A", 1, 4), ("B", 1, 3), ("B", 1, 6)]]
    first, second = (ceql.compile(f"SELECT * WHERE {text}") for text in (written, other))
    assert first.plan.fingerprint == second.plan.fingerprint
    for one, two in ((first, second), (second, first)):
        whole = [match.events for match in one.run(events)]
        recognizer = one.recognizer()
        found = [match.events for match in recognizer.feed(events[:2])]
        recognizer = two.restore(recognizer.snapshot())
        assert found + [match.events for match in recognizer.feed(events[2:])] == whole != []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a[v < 5]", "a[v > 5]"),
        ("a[v < 5]", "a[v < 5.5]"),
        ("a[v < 9007199254740993]", "a[v < 9007199254740992]"),
        ("a[v = 1e30]", "a[v = 1000000000000000000000000000000]"),  # a whole number is compared exactly
        ("a[v * 2.0 < 5]", "a[v * 2 < 5]"),  # whole numbers may be too large
        ("a[v < 5 OR k = 1]", "a[v < 5 AND k = 1]"),
    ],
)
def test_conditions_that_differ_are_told_apart(one: str, other: str) -> None:
    first, second = (ceql.compile(f"SELECT * WHERE A AS a FILTER {condition}") for condition in (one, other))
    with pytest.raises(ceql.DataError, match="another query"):
        second.restore(first.recognizer().snapshot())
