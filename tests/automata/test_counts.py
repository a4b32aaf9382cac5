"""Counts have states for their rounds, and a bound on them."""

from __future__ import annotations

import pytest

import ceql
from ceql.plans import Loop


def states(query: str) -> int:
    plan = ceql.compile(query).plan
    assert plan.loop is not Loop.GROUPS
    return len(plan.cea.states)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("SELECT * WHERE A{1000000}", "{1000000}"),
        ("SELECT * WHERE A:{3,1000000} ; B", ":{3,1000000}"),
        ("SELECT * WHERE ((A{1000}){1000}){1000}", "{1000}"),
        ("SELECT * WHERE B ; A{9223372036854775807,}", "{9223372036854775807,}"),
        ("SELECT * WHERE A{6000} ; B{5000}", "{6000}"),
        ("SELECT * WHERE A AS a ; B{5000} AS b FILTER a.v < b.v", "{5000}"),
    ],
)
def test_too_large_a_count_is_refused_by_name(query: str, count: str) -> None:
    with pytest.raises(ceql.ResourceError) as caught:
        ceql.compile(query)
    assert f"the count {count} of " in str(caught.value)


def test_a_thousand_rounds_have_a_thousand_states() -> None:
    assert states("SELECT * WHERE A:{1000}") == 1000
    assert states("SELECT * WHERE A:{1000,}") == 1000


def test_a_thousand_in_a_row() -> None:
    events = [{"type": "A"}] * 1001
    assert [(m.start, m.end) for m in ceql.match("SELECT * WHERE A:{1000}", events)] == [(0, 999), (1, 1000)]


def test_a_count_of_one_more_than_there_are_finds_nothing() -> None:
    assert ceql.match("SELECT * WHERE A{1002}", [{"type": "A"}] * 1001).count() == 0
    assert ceql.match("SELECT * WHERE A{1000}", [{"type": "A"}] * 1001).count() == 1001


@pytest.mark.parametrize(
    ("filtered", "counted"),
    [
        ("A ; B+ AS b FILTER COUNT(b) >= 3", "A ; B{3,} AS b"),
        ("A ; (B AS b)* FILTER COUNT(b) = 2", "A ; (B AS b){2}"),
        ("B ; B+ ; C FILTER NOT COUNT(B) > 3", "B ; B{1,2} ; C"),
        ("(A ; B):+ AS x FILTER 5 > COUNT(x)", "(A ; B):{1,2} AS x"),
        ("((A ; B+ AS b) FILTER COUNT(b) = 2){2}", "(A ; B{2} AS b){2}"),
        ("A ALL B+ FILTER COUNT(B) < 3", "A ALL B{1,2}"),
    ],
)
def test_a_condition_on_how_many_is_a_count(filtered: str, counted: str) -> None:
    """It is decided as events come: the automaton is that of the count, in the loop over states."""
    found, wanted = (ceql.compile(f"SELECT * WHERE {formula}").plan for formula in (filtered, counted))
    assert found.loop is not Loop.GROUPS
    assert wanted.loop is not Loop.GROUPS
    assert found.cea == wanted.cea


@pytest.mark.parametrize(
    "formula",
    [
        "(A ALL A ALL A) FILTER COUNT(A) = 2",  # an event may be read twice
        "(A AS a OR B AS b) ; C FILTER COUNT(a) = 0",  # without a branch, a filter on its variable means another
        "A+ AS a ; B FILTER COUNT(a) > 100000",
        "(A ; B*)+ FILTER COUNT(B) = 2",  # the rounds differ
        "A+ FILTER COUNT(A) != 2",
    ],
)
def test_other_conditions_on_how_many_are_checked(formula: str) -> None:
    plan = ceql.compile(f"SELECT * WHERE {formula}").plan
    assert plan.whole is not None
    assert len(plan.whole.claims) == 1


@pytest.mark.parametrize(
    "condition",
    ["FIRST(b.v) > 3", "3 >= LAST(b.v)", "NOT MAX(b.v) >= 3", "MIN(b.v * 2) < 3", "COUNT(b) > 1 AND MAX(a.v) > 3"],
)
def test_what_single_events_can_say_is_decided_as_they_come(condition: str) -> None:
    plan = ceql.compile(f"SELECT * WHERE A AS a ; B+ AS b ; C FILTER {condition}").plan
    assert plan.loop is not Loop.GROUPS
    assert plan.whole is None
