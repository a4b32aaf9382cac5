"""AFTER MATCH SKIP: random cases on every path, and what only time, memory and many keys bring about."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ceql
import checks
import generators
from ceql.engine.preferred.machine import PreferredMachine
from next_cases import preferred_cases

EXAMPLES = settings(suppress_health_check=list(HealthCheck), deadline=None)
CASES = preferred_cases(generators.uncorrelated_cases)() | preferred_cases(generators.uncorrelated_cases)(True)


def word(letters: str, first: int = 0, **columns: list[object]) -> pa.Table:
    times = pa.array([datetime(2026, 1, 1) + timedelta(seconds=first + i) for i in range(len(letters))])
    return pa.table({"type": list(letters), "time": times, **columns})


def found(matches: ceql.Matches) -> list[tuple[int, ...]]:
    return [match.events for match in matches]


@settings(EXAMPLES, max_examples=200)
@given(CASES, st.data())
def test_random_cases(case: generators.Generated, data: st.DataObject) -> None:
    checks.check_preferred(case, data)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    checks.use_tiny_buffers(monkeypatch.setattr)


@settings(EXAMPLES, max_examples=100)
@given(CASES, st.data())
def test_random_cases_in_tiny_buffers(tiny: None, case: generators.Generated, data: st.DataObject) -> None:
    checks.check_preferred(case, data)


# --- when matches come ---


def test_a_match_comes_when_no_event_can_change_it() -> None:
    recognizer = ceql.compile("SELECT * WHERE A:+ : B? AFTER MATCH SKIP PAST LAST EVENT").recognizer()
    assert found(recognizer.feed(word("AA"))) == []
    assert found(recognizer.feed(word("B", 2))) == [(0, 1, 2)]
    assert found(recognizer.feed(word("AC", 3))) == [(3,)]
    assert found(recognizer.feed(word("A", 5))) == []
    assert found(recognizer.finish()) == [(5,)]


def test_time_decides() -> None:
    query = ceql.compile("SELECT * WHERE V -> C? PARTITION BY k WITHIN 10 SECONDS AFTER MATCH SKIP PAST LAST EVENT")
    recognizer = query.recognizer()
    assert found(recognizer.feed(word("VVX", k=[1, 2, None]))) == []
    recognizer = query.restore(recognizer.snapshot())
    assert found(recognizer.advance(datetime(2026, 1, 1, 0, 0, 10))) == []
    assert found(recognizer.advance(datetime(2026, 1, 1, 0, 0, 11))) == [(0,)]
    late = word("V", k=[3]).set_column(1, "time", pa.array([datetime(2026, 1, 1, 0, 1)]))
    assert found(recognizer.feed(late)) == [(1,)]
    assert found(recognizer.finish()) == [(3,)]


def test_an_event_that_is_of_no_other_use_decides() -> None:
    times = pa.array([datetime(2026, 1, 1, 0, 0, s) for s in (0, 1, 20, 21)])
    events = pa.table({"type": list("VXXV"), "time": times})
    query = ceql.compile("SELECT * WHERE V -> C? WITHIN 10 SECONDS AFTER MATCH SKIP PAST LAST EVENT")
    recognizer = query.recognizer()
    assert [found(recognizer.feed(events.slice(i, 1))) for i in range(4)] == [[], [], [(0,)], []]


def test_a_count_that_may_skip_waits_for_the_end() -> None:
    query = ceql.compile("SELECT * WHERE A+ ; B AFTER MATCH SKIP PAST LAST EVENT  -- waits")
    assert "only at the end of the input" in str(query.explain())
    with pytest.warns(UserWarning, match="at the end of the stream alone"):
        recognizer = query.recognizer()
    assert found(recognizer.feed(word("ABAB"))) == []
    assert found(recognizer.finish()) == [(0, 2, 3)]
    for formula in ("A:+ ; B", "A+? ; B", "A+ ; B WITHIN 5 SECONDS"):
        sooner = ceql.compile(f"SELECT * WHERE {formula} AFTER MATCH SKIP PAST LAST EVENT")
        assert "as soon as" in str(sooner.explain())


def test_what_is_done_with_matches() -> None:
    query = ceql.compile("SELECT COUNT(a) AS n, LAST(a.v) AS v WHERE A:+ AS a AFTER MATCH SKIP PAST LAST EVENT")
    events = word("AABAAA", v=[1, 2, 3, 4, 5, 6])
    matches = query.run(events)
    assert matches.to_arrow().select(["n", "v"]).to_pylist() == [{"n": 2, "v": 2}, {"n": 3, "v": 6}]
    assert matches.count() == 2
    assert matches.aggregate(matches="COUNT(*)", events="COUNT(a)").to_pylist() == [{"matches": 2, "events": 5}]
    assert [(rung.clause, rung.matches) for rung in query.diagnose(events).rungs] == [
        ("WHERE", 9),
        ("AFTER MATCH SKIP PAST LAST EVENT", 2),
    ]
    queries = ceql.QuerySet({"run": query, "b": ceql.compile("SELECT * WHERE B")})
    assert sorted((name, m.events) for name, m in queries.run(events)) == [
        ("b", (2,)),
        ("run", (0, 1)),
        ("run", (3, 4, 5)),
    ]


# --- what is refused ---


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("NOT A ; B WITHIN 3 [v]", "NOT A at the beginning"),
        ("(NOT A ; B OR C) WITHIN 3 SECONDS", "NOT A at the beginning"),
    ],
)
def test_what_several_events_decide_is_refused(query: str, message: str) -> None:
    with pytest.raises(ceql.QueryError, match=message.replace("(", r"\(")):
        ceql.compile(f"SELECT * WHERE {query} AFTER MATCH SKIP PAST LAST EVENT")


def test_going_on_nowhere_is_an_error() -> None:
    for formula, message in (("A ; B", "would be found again"), ("A : B?", "binds no event to 'B'")):
        target = "A" if formula == "A ; B" else "B"
        query = ceql.compile(f"SELECT * WHERE {formula} AFTER MATCH SKIP TO {target}")
        with pytest.raises(ceql.DataError, match=message):
            query.run(word("ACB")).to_arrow()


# --- cost ---


@pytest.mark.parametrize(
    ("formula", "matches"),
    [
        ("(A:+):+", 1),
        ("(A OR A)* ; B", 0),
        ("(A?):{20} : A:{20}", 500),
        ("((A*)*)*", 1),
        ("A OR A", 20_000),
    ],
)
def test_no_pattern_explodes(formula: str, matches: int) -> None:
    events = pa.table({"type": pa.array(["A"] * 20_000).dictionary_encode()})
    query = ceql.compile(f"SELECT * WHERE {formula} AFTER MATCH SKIP PAST LAST EVENT")
    with pytest.warns(ceql.NoMatchWarning) if not matches else nullcontext():
        assert query.run(events).count() == matches


def test_matches_that_wait_take_no_time() -> None:
    """An A that waits for ever leaves all matches after it undecided, which no event looks at."""
    rows = 50_000
    query = ceql.compile("SELECT * WHERE (A ; B) OR C AFTER MATCH SKIP PAST LAST EVENT")
    events = pa.table({"type": ["A", *["C"] * rows]})
    recognizer = query.recognizer()
    assert found(recognizer.feed(events)) == []
    recognizer = query.restore(recognizer.snapshot())
    assert recognizer.finish().count() == rows


def test_memory_is_bounded() -> None:
    query = ceql.compile("SELECT * WHERE A:+ : B AFTER MATCH SKIP PAST LAST EVENT")
    recognizer = query.recognizer(memory=1 << 20)
    with pytest.raises(ceql.ResourceError, match="memory"):
        recognizer.feed(pa.table({"type": ["A"] * 1_000_000})).to_arrow()
    short = ceql.compile("SELECT * WHERE A:+ : B WITHIN 5 EVENTS AFTER MATCH SKIP PAST LAST EVENT")
    recognizer = short.recognizer(memory=4 << 20)
    for _ in range(100):
        recognizer.feed(pa.table({"type": ["A"] * 10_000})).to_arrow()


@pytest.mark.parametrize("window", ["1000 EVENTS", "1000 MILLISECONDS"])
def test_starts_that_go_on_alike_share_their_runs(window: str) -> None:
    query = ceql.compile(f"SELECT * WHERE A+ ; B WITHIN {window} AFTER MATCH SKIP PAST LAST EVENT")
    rows = 20_000
    types = np.full(rows, "A")
    types[[7_500, 7_800, 19_000]] = "B"
    events = pa.table({"type": types, "time": pa.array(np.arange(rows), pa.timestamp("ms"))})
    recognizer = query.recognizer(time="time", keep_rows=False, memory=8 << 20)
    matches = []
    for first in range(0, rows, 1_000):
        part = recognizer.feed(events.slice(first, 1_000)).to_arrow()
        matches += list(zip(part["start"].to_pylist(), part["end"].to_pylist(), map(len, part["events"]), strict=True))
        recognizer = query.restore(recognizer.snapshot())
    assert matches == [(6_500, 7_500, 1_001), (7_501, 7_800, 300), (18_000, 19_000, 1_001)]
    assert len(recognizer.snapshot()) < 200_000


@pytest.mark.parametrize("window", ["300 EVENTS", "300 MILLISECONDS", "5000 EVENTS"])
def test_each_of_many_starts_has_its_match(window: str) -> None:
    """Starts that go on alike are one, until each is decided by its window or the end of the input."""
    query = ceql.compile(f"SELECT * WHERE A+ ; B WITHIN {window} AFTER MATCH SKIP TO NEXT EVENT")
    rows, width = 3_000, int(window.split()[0])
    types = np.full(rows, "A")
    types[[700, 900, 2_500]] = "B"
    events = pa.table({"type": types, "time": pa.array(np.arange(rows), pa.timestamp("ms"))})
    recognizer = query.recognizer(time="time", keep_rows=False)
    expected = []
    for start in np.flatnonzero(types == "A"):
        ends = [end for end in (700, 900, 2_500) if start < end <= start + width]
        expected += [(start, ends[-1], 1 + int((types[start : ends[-1]] == "A").sum()))] if ends else []
    matches = []
    for first in range(0, rows, 250):
        part = recognizer.feed(events.slice(first, 250)).to_arrow()
        matches += list(zip(part["start"].to_pylist(), part["end"].to_pylist(), map(len, part["events"]), strict=True))
        recognizer = query.restore(recognizer.snapshot())
    part = recognizer.finish().to_arrow()
    matches += list(zip(part["start"].to_pylist(), part["end"].to_pylist(), map(len, part["events"]), strict=True))
    assert matches == expected
    assert query.run(events, time="time").count() == len(expected)


def test_starts_that_differ_go_on_apart_and_unite() -> None:
    """Starts of one value of k wait together for its B; all who have one wait together for C, and leave one by one."""
    formula = "A AS a ; B AS b ; NOT D ; C+ FILTER a.k = b.k WITHIN 200 EVENTS"
    query = ceql.compile(f"SELECT * WHERE {formula} AFTER MATCH SKIP TO NEXT EVENT")
    random, rows = np.random.default_rng(5), 4_000
    types = random.choice(list("ABCD"), rows, p=[0.5, 0.3, 0.15, 0.05])
    keys = random.integers(0, 5, rows)
    events = pa.table({"type": types, "k": keys})
    expected = {}
    for start in np.flatnonzero(types == "A"):
        inside = np.arange(int(start) + 1, min(int(start) + 201, rows))
        for b in inside[(types[inside] == "B") & (keys[inside] == keys[start])]:
            later = inside[inside > b]
            first = later[np.isin(types[later], ["C", "D"])][:1]
            if len(first) and types[first[0]] == "C":
                expected[start] = (start, b, *later[types[later] == "C"])
                break
    whole = query.run(events)
    assert {match.start: match.events for match in whole} == expected
    assert whole.count() == len(expected)


def test_keys_without_runs_are_forgotten() -> None:
    query = ceql.compile("SELECT * WHERE A ; B? PARTITION BY k WITHIN 3 SECONDS AFTER MATCH SKIP PAST LAST EVENT")
    rows = 200_000
    start = np.datetime64("2026-01-01", "ms")
    events = pa.table({"type": ["A"] * rows, "time": start + np.arange(rows) * 100, "k": np.arange(rows)})
    recognizer = query.recognizer(keep_rows=False)
    matches = sum(recognizer.feed(events.slice(first, 10_000)).count() for first in range(0, rows, 10_000))
    assert rows - 40 < matches < rows
    assert recognizer.partitions < rows // 2


def test_forbidden_events_are_forgotten_with_the_window() -> None:
    query = ceql.compile("SELECT * WHERE NOT A ; B PARTITION BY k WITHIN 3 SECONDS AFTER MATCH SKIP PAST LAST EVENT")
    rows = 200_000
    start = np.datetime64("2026-01-01", "ms")
    events = pa.table({"type": ["A", "B"] * rows, "time": start + np.arange(2 * rows) * 100, "k": np.arange(2 * rows)})
    recognizer = query.recognizer(keep_rows=False)
    matches = sum(recognizer.feed(events.slice(first, 10_000)).count() for first in range(0, 2 * rows, 10_000))
    assert matches == rows
    assert recognizer.partitions < rows // 2


@pytest.mark.parametrize(
    "formula",
    [
        "A:+ : B? PARTITION BY k AFTER MATCH SKIP PAST LAST EVENT",
        "A AS a ; A* AS more PARTITION BY k AFTER MATCH SKIP TO NEXT EVENT",
        "A AS a ; B AS b FILTER a.v < b.v PARTITION BY k AFTER MATCH SKIP PAST LAST EVENT",
        "A ; B? ; A PARTITION BY k WITHIN 3 EVENTS AFTER MATCH SKIP TO LAST A",
        "NOT B ; A ; A? PARTITION BY k WITHIN 3 EVENTS AFTER MATCH SKIP PAST LAST EVENT",
        "A+ ; B? PARTITION BY k WITHIN 20 SECONDS AFTER MATCH SKIP PAST LAST EVENT",
        "A+ ; B? PARTITION BY k WITHIN 20 SECONDS AFTER MATCH SKIP TO NEXT EVENT",
        "A ; NOT B PARTITION BY k WITHIN 20 SECONDS AFTER MATCH SKIP TO NEXT EVENT",
    ],
)
def test_batches_change_nothing_of_many_substreams(formula: str) -> None:
    """Large batches are gone through substream by substream, small ones as they come."""
    random, rows = np.random.default_rng(3), 40_000
    columns = {"k": random.integers(0, 6_000, rows), "v": random.integers(0, 9, rows)}
    times = pa.array(np.arange(rows), pa.timestamp("ms"))
    events = pa.table({"type": random.choice(["A", "B"], rows), "time": times, **columns})
    query = ceql.compile(f"SELECT * WHERE {formula}")
    whole = query.run(events, batch_rows=rows).to_arrow()
    assert len(whole) > 5_000
    assert whole.equals(query.run(events, batch_rows=1_000).to_arrow())


def test_a_damaged_snapshot_is_refused() -> None:
    query = ceql.compile("SELECT * WHERE A ; B AFTER MATCH SKIP PAST LAST EVENT")
    whole = PreferredMachine.state
    for name, value in (("pool", 1 << 40), ("nodes", -9), ("parts.list", 77), ("parts.count", 9), ("parts.room", -1)):
        recognizer = query.recognizer()
        recognizer.feed(word("AXA")).to_arrow()

        def state(machine: PreferredMachine, used: object = None, name: str = name, value: int = value) -> object:
            arrays = whole(machine, used)  # type: ignore[arg-type]
            arrays[name].ravel()[0] = value
            return arrays

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PreferredMachine, "state", state)
            blob = recognizer.snapshot()
        with pytest.raises(ceql.DataError, match="damaged"):
            query.restore(blob)
