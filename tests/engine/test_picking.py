"""NEXT, LAST and MAX under a window: deciding as events come gives what going through each window again gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql
from ceql.engine.states.machine import StateMachine
from ceql.engine.states.replay import ReplayMachine
from ceql.plans import Loop, Plan
from ceql.recognition.unary import UnaryRecognition
from checks import use_tiny_buffers

FORMULAS = [
    "A ; B ; C",
    "A ; B+ ; C",
    "(A OR B)+ ; C",
    "A : B ; C",
    "(A ; B ; C) OR (B AS d ; C AS e)",
    "A ; NOT D ; C",
    "A AS x ; (B AS y OR B AS z)+ ; C",
    "A ; B{2,3} ; C",
    "A ALL B",
]
CLAUSES = [
    "WITHIN 6 EVENTS",
    "WITHIN 7 SECONDS",
    "PARTITION BY [k] WITHIN 5 EVENTS",
    "WITHIN 12 EVENTS CONSUME BY ANY",
    "PARTITION BY [k] WITHIN 9 SECONDS CONSUME BY PARTITION",
    "WITHIN 9 EVENTS LIMIT 1",
    "WITHIN 9 EVENTS LIMIT 2",
]
STRATEGIES = ["NEXT", "LAST", "MAX"]


def stream(seed: int, count: int = 70) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "type": random.choice(list("ABCD"), count, p=[0.3, 0.3, 0.3, 0.1]).tolist(),
            "time": pa.array(np.cumsum(random.integers(0, 3, count)), pa.timestamp("s")),
            "k": random.integers(0, 2, count),
        }
    )


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a query by going through each window again."""

    def run(work: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(Plan, "chooses_at_once", property(lambda _: False))
            return work()

    return run


def found(table: pa.Table) -> list[str]:
    """The matches, in any order among those of one start and end."""
    rows = [(row["end"], -row["start"], repr(row)) for row in table.to_pylist()]
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)
    return [text for _, _, text in sorted(rows)]


@pytest.mark.parametrize("tiny", [False, True], ids=["", "tiny"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_the_same_matches(
    formula: str, strategy: str, tiny: bool, replayed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, clause in enumerate(CLAUSES):
        query = ceql.compile(f"SELECT {strategy} * WHERE {formula} {clause}")
        events = stream(seed)
        expected, count = replayed(
            lambda query=query, events=events: (query.run(events).to_arrow(), query.run(events).count())
        )
        with monkeypatch.context() as patch:
            if tiny:
                use_tiny_buffers(patch.setattr)
            got = query.run(events, batch_rows=17).to_arrow()
            assert query.run(events).count() == count
        if "LIMIT" in clause:  # which of equal sets stay is open
            assert got["events"].equals(expected["events"])
        else:
            assert found(got) == found(expected)


@pytest.mark.parametrize(
    ("query", "machine", "picks"),
    [
        ("SELECT NEXT * WHERE A ; B", StateMachine, True),
        ("SELECT LAST * WHERE A ; B+", StateMachine, True),
        ("SELECT NEXT b WHERE A AS a ; B AS b", ReplayMachine, False),
        ("SELECT MAX * WHERE A+ ; B", ReplayMachine, False),
    ],
)
def test_how_it_is_decided(query: str, machine: type, picks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[StateMachine] = []
    before = UnaryRecognition._make_machine

    def noted(self: UnaryRecognition, *args: Any) -> Any:
        made.append(before(self, *args))
        return made[-1]

    monkeypatch.setattr(UnaryRecognition, "_make_machine", noted)
    ceql.match(f"{query} WITHIN 5 EVENTS", stream(0)).to_arrow()
    assert type(made[-1]) is machine
    assert made[-1].settings.picks is picks


def test_where_sets_may_contain_one_another() -> None:
    for formula, inside in [("A ; B+ ; C", False), ("(A OR B)+", True), ("A ; A", True), ("A AS a : B", False)]:
        plan = ceql.compile(f"SELECT MAX * WHERE {formula} WITHIN 5 EVENTS").plan
        assert plan.loop is not Loop.GROUPS
        assert plan.cea.starts_inside() is inside


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("clause", ["WITHIN 9 EVENTS", "PARTITION BY [k] WITHIN 9 SECONDS"])
def test_snapshots_go_on(strategy: str, clause: str) -> None:
    query = ceql.compile(f"SELECT {strategy} * WHERE A ; B+ ; C {clause}")
    events = stream(5, 120)
    whole = found(query.run(events).to_arrow())

    def until_the_middle() -> tuple[list[str], bytes]:
        recognizer = query.recognizer()
        first = found(recognizer.feed(events.slice(0, 60)).to_arrow())
        return first, recognizer.snapshot()

    first, snapshot = until_the_middle()
    rest = found(query.restore(snapshot).feed(events.slice(60)).to_arrow())
    assert first + rest == whole
    assert rest == found(query.restore(query.restore(snapshot).snapshot()).feed(events.slice(60)).to_arrow())


def test_a_long_stream_whose_graph_is_collected(replayed: Any) -> None:
    events = stream(9, 30_000)
    for strategy in ("NEXT", "LAST"):
        query = ceql.compile(f"SELECT {strategy} * WHERE A ; B ; C WITHIN 40 EVENTS")
        some = events.slice(0, 3_000)
        got = query.run(events).to_arrow()
        assert got.slice(0, query.run(some).count()).equals(
            replayed(lambda query=query, some=some: query.run(some).to_arrow())
        )
