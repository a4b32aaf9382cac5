"""NOT between events: forbidden events end partial matches where they can, and are looked up elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import ceql
from ceql.plans import CandidateReason, Loop

AT_ONCE = [
    "A AS a ; NOT B ; C AS c FILTER c.v > a.v",
    "A AS a ; NOT B AS n ; C AS c FILTER n.v > a.v",
    "A AS a ; NOT B AS n ; C AS c FILTER n.k = a.k AND n.v < a.v AND c.k = a.k",
    "A AS a ; D AS d ; NOT B AS n ; C AS c FILTER n.k = a.k AND c.v > d.v",
    "(A AS a ; NOT B AS n ; C AS c PARTITION BY k) ; D",
    "A AS a ; (B AS b ; NOT D AS n ; C AS c FILTER n.v = b.v)+ FILTER c.v > a.v",
    "A AS a ; NOT B AS n ; C+ AS c FILTER n.v > c.v",  # of every one of several that come later
    "A+ AS a ; NOT B AS n ; C AS c FILTER n.v != a.v",
    "A+ AS a ; NOT B AS n ; C+ AS c FILTER n.v > SUM(a.v) OR n.v < COUNT(a)",
]
FOR_EACH_CANDIDATE = [
    "A AS a ; NOT B AS n ; C+ AS c FILTER n.v != c.v",  # of every one of several that come later, none of which decides
    "A+ AS a ; D ; NOT B AS n ; C AS a FILTER n.v > a.v",  # of events before and after
    "A* AS a ; D ; NOT B AS n ; C FILTER n.v > a.v",  # of events that may be missing
    "A AS a ALL (B ; NOT D ; C AS c) FILTER c.v > a.v",
]


@pytest.mark.parametrize("formula", AT_ONCE)
def test_a_forbidden_event_ends_partial_matches(formula: str) -> None:
    plan = ceql.compile(f"SELECT * WHERE {formula}").plan
    assert plan.loop is Loop.GROUPS
    assert CandidateReason.ABSENCES not in plan.candidate_reasons
    assert "Absent events" in str(ceql.compile(f"SELECT * WHERE {formula}").explain())


@pytest.mark.parametrize("formula", FOR_EACH_CANDIDATE)
def test_other_forbidden_events_are_looked_up(formula: str) -> None:
    plan = ceql.compile(f"SELECT * WHERE {formula}").plan
    assert plan.loop is Loop.GROUPS
    assert CandidateReason.ABSENCES in plan.candidate_reasons


@pytest.mark.parametrize("query", [f"SELECT * WHERE {formula} WITHIN 40 EVENTS" for formula in AT_ONCE[:3]])
def test_a_long_stream_is_that_of_loops_by_hand(query: str) -> None:
    """The three queries as loops over all pairs; batches of odd sizes, and a snapshot half way."""
    dice = random.Random(query)
    rows = [{"type": dice.choice("ABC"), "v": dice.randrange(20), "k": dice.randrange(3)} for _ in range(1500)]
    forbids: dict[str, Callable[[dict[str, Any], dict[str, Any]], bool]] = {
        AT_ONCE[0]: lambda a, n: True,
        AT_ONCE[1]: lambda a, n: n["v"] > a["v"],
        AT_ONCE[2]: lambda a, n: n["k"] == a["k"] and n["v"] < a["v"],
    }
    asks: dict[str, Callable[[dict[str, Any], dict[str, Any]], bool]] = {
        AT_ONCE[0]: lambda a, c: c["v"] > a["v"],
        AT_ONCE[1]: lambda a, c: True,
        AT_ONCE[2]: lambda a, c: c["k"] == a["k"],
    }
    formula = next(f for f in AT_ONCE if f in query)
    expected = [
        (i, j)
        for j, c in enumerate(rows)
        for i in range(j - 1, max(-1, j - 41), -1)
        if c["type"] == "C" and rows[i]["type"] == "A" and asks[formula](rows[i], c)
        if not any(n["type"] == "B" and forbids[formula](rows[i], n) for n in rows[i + 1 : j])
    ]
    compiled = ceql.compile(query)
    recognizer, found, at = compiled.recognizer(), [], 0
    while at < len(rows):
        size = dice.randint(1, 90)
        found += [match.events for match in recognizer.feed(rows[at : at + size])]
        if at < 700 <= at + size:
            recognizer = compiled.restore(recognizer.snapshot())
        at += size
    found += [match.events for match in recognizer.finish()]
    assert found == expected
    assert ceql.match(query, rows).count() == len(expected) > 200
