"""`->` on every execution path, that it says what the NOT written out says, and that it is decided in the loop."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceql
import checks
import generators
from absent_cases import absent_cases
from ceql.plans import Loop
from next_cases import next_cases

KINDS = [
    generators.uncorrelated_cases, generators.correlated_cases, generators.conditioned_cases,
    generators.aggregated_cases, absent_cases,
]  # fmt: skip


@pytest.mark.parametrize("cases", KINDS, ids=lambda cases: cases.__name__)
def test_random_cases(cases: generators.Cases) -> None:
    @settings(max_examples=25, deadline=None)
    @given(next_cases(cases)(), st.data())
    def run(case: generators.Generated, data: st.DataObject) -> None:
        checks.check_case(case, data)

    run()


EVENTS = [{"type": "ABC"[i * 7 % 3], "time": i, "v": i * 37 % 101, "k": i * 11 % 5} for i in range(400)]
WRITTEN_OUT = [
    ("A -> B", "A ; NOT B ; B"),
    ("A -> B -> C", "A ; NOT B ; B ; NOT C ; C"),
    ("A AS a -> B AS b FILTER b.v > a.v", "A AS a ; NOT B AS n ; B AS b FILTER b.v > a.v AND n.v > a.v"),
    ("A AS a -> B AS b FILTER b.k = a.k", "A AS a ; NOT B AS n ; B AS b FILTER b.k = a.k AND n.k = a.k"),
    ("(A -> B PARTITION BY k)", "(A ; NOT B ; B PARTITION BY k)"),
    ("A->{2}", "A ; NOT A ; A"),
    ("A -> B? -> C", "A ; NOT B ; B ; NOT C ; C OR A ; NOT C ; C"),
    ("A -> (B OR C)", "A ; NOT (B OR C) ; (B OR C)"),
]


@pytest.mark.parametrize(("short", "long"), WRITTEN_OUT)
def test_it_is_not_written_out(short: str, long: str) -> None:
    found = [
        sorted(tuple(m.events) for m in ceql.match(f"SELECT * WHERE {formula} WITHIN 30 EVENTS", EVENTS))
        for formula in (short, long)
    ]
    assert found[0] == found[1]
    assert found[0]


DECIDED = [
    "A AS a -> B AS b FILTER b.v > a.v",
    "A AS a -> B->+ AS b FILTER b[v > PREV.v AND k = PREV.k]",
    "A+ AS a -> B AS b FILTER b.v > a.v",
    "(A AS a -> B AS b)->+ FILTER b.v > a.v",
    "A? AS a -> B AS b -> C AS c FILTER c.v > a.v OR c.k = 3",
]


@pytest.mark.parametrize("formula", DECIDED)
def test_no_candidate_fails(formula: str) -> None:
    """What `->` passes over is decided when it comes, by what runs carry."""
    plan = ceql.compile(f"SELECT * WHERE {formula}").plan
    assert plan.loop is Loop.GROUPS
    assert not plan.automaton.absences


def test_explain_says_what_it_takes() -> None:
    text = str(ceql.compile("SELECT * WHERE A AS a -> B AS b FILTER b.v > a.v").explain())
    assert "-> B AS b takes the first that fits, where b.v > a.v" in text
    assert "any event but no B" in str(ceql.compile("SELECT * WHERE A -> B").automaton().to_mermaid())
