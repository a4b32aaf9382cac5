"""The queries of the experiment `conditions`, and their times, in a process that may be ended when its time is over.

`python -m bench.experiments.conditions_worker query NAME EVENTS RUNS`, or `window NAME EVENTS RUNS WINDOW...`, prints
lines of JSON: figures by their names. What is known early is printed early, and replaced by later lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

import ceql
from bench.experiments import correlation
from bench.figures import Figure
from bench.measure import once, together
from bench.peers import by_hand
from bench.peers import by_hand_loops as loops
from bench.peers.by_hand import Columns
from bench.workloads import keyed

CEQL, HAND, LOOP = "ceql", "by hand", "its loop alone"
LONG = 5.0  # seconds: what takes longer is run once


class Counted(NamedTuple):
    """A query, the types of its events, and its loop by hand."""

    query: str
    types: str
    loop: Callable[[Columns], int]


def _rising(window: int) -> Counted:
    formula = "A AS a ; B AS b ; C AS c FILTER b.price > a.price + 90 AND c.price > b.price + 5"
    text = f"SELECT * WHERE {formula} WITHIN {window} EVENTS"
    return Counted(text, "ABC", lambda e: loops.count_rising(e.kind, e.price, 90.0, 5.0, window))


def _runs(window: int) -> Counted:
    text = f"SELECT * WHERE A ; A+ AS b FILTER b[price > PREV.price] WITHIN {window} EVENTS"
    return Counted(text, "A", lambda e: loops.count_rising_runs(e.price, window))


QUERIES: dict[str, Counted] = {
    "rising, 50": _rising(50),
    "rising, 400": _rising(400),
    "drop": Counted(
        "SELECT * WHERE A AS a ; B AS b ; C AS c FILTER a.k = c.k AND c.price < a.price - 80 WITHIN 200 EVENTS",
        "ABC",
        lambda e: loops.count_drop(e.kind, e.price, e.k, 80.0, 200),
    ),
    "four": Counted(
        "SELECT * WHERE A AS a ; B AS b ; C AS c ; D AS d "
        "FILTER b.price > a.price + 20 AND c.price > b.price + 20 AND d.price < a.price WITHIN 60 EVENTS",
        "ABCD",
        lambda e: loops.count_four(e.kind, e.price, 20.0, 60),
    ),
    "rising runs, 12": _runs(12),
    "rising runs, 100": _runs(100),
}


def rising(window: int) -> ceql.Query:
    """One match for each event that completes some: what is counted is the update, not the output."""
    formula = "A AS a ; B AS b ; C AS c FILTER b.price > a.price AND c.price > b.price"
    return ceql.compile(f"SELECT * WHERE {formula} WITHIN {window} EVENTS LIMIT 1")


BY_WINDOWS: dict[str, tuple[Callable[[int], ceql.Query], Callable[[int], pa.Table]]] = {
    "rising": (rising, keyed.priced),
    "rule": (correlation.rule, lambda count: keyed.triples(count, 100_000, 1_000)),
}


def count_beside(name: str, count: int, runs: int) -> Iterator[dict[str, Figure]]:
    """The loop by hand alone, in case that ceql does not end; ceql once; then both in turns, unless that takes long."""
    query, types, loop = QUERIES[name]
    table = keyed.priced(count, types)
    events, compiled = by_hand.columns(table), ceql.compile(query)
    by_themselves: dict[str, Callable[[], Any]] = {
        HAND: lambda: int(loop(by_hand.columns(table))),
        LOOP: lambda: int(loop(events)),
    }
    yield {series: figure for series, (figure, _) in together(by_themselves, count, runs).items()}
    right = int(loop(events))
    action = partial(_count, compiled, table)
    first = _checked(_once(action, count), right)
    yield {CEQL: first}
    if first.wall <= LONG:
        timed = together({CEQL: action, **by_themselves}, count, runs)
        yield {series: _checked(figure, right) for series, (figure, _) in timed.items()}


def count_by_window(name: str, count: int, runs: int, windows: Sequence[int]) -> Iterator[dict[str, Figure]]:
    """Each window once, in case that a wider one does not end; then all in turns."""
    make, events = BY_WINDOWS[name]
    table = events(count)
    actions = {str(window): partial(_count, make(window), table) for window in windows}
    right: dict[str, int] = {}
    if name == "rising":  # for which a loop by hand has the right number, whatever the window
        kind, price, _ = by_hand.columns(table)
        right = {window: loops.rises_at(kind, price, 0.0, 0.0, int(window)) for window in actions}
    for window, action in actions.items():
        yield {window: _checked(_once(action, count), right.get(window))}
    timed = together(actions, count, runs)
    yield {window: _checked(figure, right.get(window)) for window, (figure, _) in timed.items()}


def _count(query: ceql.Query, table: pa.Table) -> int:
    return query.run(table).count()


def _once(action: Callable[[], int], count: int) -> Figure:
    wall, cpu, matches = once(action)
    return Figure(wall, cpu, runs=1, events=count, matches=matches)


def _checked(figure: Figure, right: int | None) -> Figure:
    """With a note if there are other matches than the loop by hand has counted."""
    if right is None or figure.matches == right:
        return figure
    return replace(figure, note=f"other matches: {figure.matches:,}, by hand {right:,}")


if __name__ == "__main__":
    pa.set_cpu_count(1)
    what, which, events_count, runs_count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if what == "query":
        made = count_beside(which, events_count, runs_count)
    else:
        made = count_by_window(which, events_count, runs_count, [int(window) for window in sys.argv[5:]])
    for figures_found in made:
        print(json.dumps({series: asdict(figure) for series, figure in figures_found.items()}), flush=True)
