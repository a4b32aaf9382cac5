"""NEXT, LAST and MAX of queries that compare events: chosen on the graph, whatever the number of matches."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ceql
import checks
import generators
from ceql.plans import Loop

EXAMPLES = settings(suppress_health_check=list(HealthCheck))
Found = list[tuple[int, ...]]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose on the graph however few matches there are."""
    checks.choose_on_graph(monkeypatch.setattr)


@settings(EXAMPLES, max_examples=120)
@given(generators.chosen_cases(), st.data())
def test_random_cases(at_once: None, case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


# --- rising runs in windows with more matches than anyone can list, beside other ways to find what is kept ---

RISING = "SELECT {} * WHERE A ; A+ AS b FILTER b[price > PREV.price] WITHIN {} EVENTS"


def prices(count: int) -> list[int]:
    """Numbers that repeat now and then."""
    return np.random.default_rng(7).integers(0, 200, count).tolist()


def run(strategy: str, window: int, values: list[int]) -> Found:
    query = ceql.compile(RISING.format(strategy, window))
    assert query.plan.loop is Loop.GROUPS
    assert query.plan.chooses_on_graph
    return [match.events for match in query.run(pa.table({"type": ["A"] * len(values), "price": values}))]


def last_rising(window: int, values: list[int]) -> Found:
    """From each end backwards, the latest smaller value."""
    found = []
    for end in range(len(values)):
        way = [end]
        for k in range(end - 1, max(-1, end - window - 1), -1):
            if values[k] < values[way[-1]]:
                way.append(k)
        if len(way) > 1:
            found.append(tuple(reversed(way)))
    return found


def next_rising(window: int, values: list[int]) -> Found:
    """From the earliest start that leads to an end onwards, the earliest event from which the end can be reached."""
    found = []
    for end in range(len(values)):
        way: list[int] = []
        for k in range(max(0, end - window), end):
            if values[k] < values[end] and (not way or values[k] > values[way[-1]]):
                way.append(k)
        if way:
            found.append((*way, end))
    return found


def max_rising(window: int, values: list[int]) -> Found:
    """All ways in which nothing can be put between two events, nor before the first."""
    found: Found = []

    def go_on(way: tuple[int, ...], least: int) -> None:
        before = [k for k in range(least, way[0]) if values[k] < values[way[0]]]
        nearest = [k for k in before if not any(values[k] < values[r] for r in before if r > k)]
        for k in nearest:
            go_on((k, *way), least)
        if not nearest and len(way) > 1:
            found.append(way)

    for end in range(len(values)):
        go_on((end,), max(0, end - window))
    return found


@pytest.mark.parametrize("window", [10, 60, 400])
@pytest.mark.parametrize(("strategy", "by_hand"), [("LAST", last_rising), ("NEXT", next_rising)])
def test_one_rising_run(strategy: str, by_hand: Callable[[int, list[int]], Found], window: int) -> None:
    values = prices(700)
    assert run(strategy, window, values) == by_hand(window, values)


def test_longest_rising_runs() -> None:
    values = prices(150)
    found = run("MAX", 25, values)
    assert sorted(found) == sorted(max_rising(25, values))
    assert len(found) > 3_000


def test_tiny_buffers_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = prices(120)
    whole = {strategy: run(strategy, 20, values) for strategy in ("NEXT", "LAST", "MAX")}
    checks.use_tiny_buffers(monkeypatch.setattr)
    for strategy, matches in whole.items():
        assert sorted(run(strategy, 20, values)) == sorted(matches)


@pytest.mark.parametrize("strategy", ["NEXT", "LAST", "MAX"])
def test_events_that_are_not_shown_do_not_count(strategy: str, at_once: None) -> None:
    values = prices(300)
    kinds = ["ABC"[k % 3] for k in range(300)]
    query = ceql.compile(
        f"SELECT {strategy} a, c WHERE A AS a ; B AS b ; C AS c FILTER b.v > a.v AND c.v > b.v WITHIN 60 EVENTS"
    )
    assert query.plan.loop is Loop.GROUPS
    assert query.plan.chooses_on_graph == (strategy != "MAX")  # all sets are of two events: MAX keeps them all
    found = {match.events for match in query.run(pa.table({"type": kinds, "v": values}))}
    wanted: Found = []
    for c in range(2, 300, 3):
        starts = [
            a
            for a in range(0, c, 3)
            if c - a <= 60 and any(values[a] < values[b] < values[c] for b in range(a + 1, c, 3))
        ]
        kept = {"NEXT": starts[:1], "LAST": starts[-1:], "MAX": starts}[strategy]
        wanted += [(a, c) for a in kept]
    assert found == set(wanted)


def test_longest_increasing_subsequence() -> None:
    """No match of MAX is longer than the longest rising run that ends where it does, and one is as long."""
    values = prices(80)
    longest: dict[int, int] = defaultdict(int)
    for match in run("MAX", 80, values):
        assert all(values[a] < values[b] for a, b in pairwise(match))
        longest[match[-1]] = max(longest[match[-1]], len(match))
    tails: list[int] = []
    for end, value in enumerate(values):
        place = bisect_left(tails, value)
        tails[place : place + 1] = [value]
        assert longest[end] == (place + 1 if place else 0)


@pytest.mark.parametrize("strategy", ["NEXT", "LAST", "MAX"])
@pytest.mark.parametrize("consume", ["PARTITION", "ANY"])
def test_matches_are_consumed(strategy: str, consume: str, at_once: None) -> None:
    """After a match, events before it are forgotten, so that no match reaches back behind another."""
    values = prices(400)
    text = f"{RISING.format(strategy, 30)} CONSUME BY {consume}"
    found = ceql.compile(text).run(pa.table({"type": ["A"] * 400, "price": values}))
    spans = sorted({(match.start, match.end) for match in found})
    assert len(spans) > 50
    assert all(before[1] < after[0] for before, after in pairwise(spans) if before[1] != after[1])


def test_a_budget_for_what_is_compared() -> None:
    values = list(range(1_000))
    query = ceql.compile("SELECT MAX * WHERE A ; A+ AS b FILTER b[price > PREV.price]")
    with pytest.raises(ceql.ResourceError, match="MAX compares"):
        query.run(pa.table({"type": ["A"] * 1_000, "price": values}), memory=20_000_000).count()
