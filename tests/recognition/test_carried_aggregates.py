"""Aggregates in FILTER, and NOT compared with later events, as values that partial matches carry."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import ceql
from ceql.plans import Loop

CARRIED = [
    "A ; B+ AS b ; C FILTER SUM(b.v) > 10",
    "A AS a ; B+ AS b FILTER AVG(b.v) < a.v AND MAX(b.v) > a.v",
    "A AS a ; B+ AS b ; C AS c FILTER LAST(b.k) = c.k OR COUNT(b) > a.v",
    "(A AS a ; B+ AS b FILTER SUM(b.v) > a.v)+ ; C",
    "A ; (B+ AS b FILTER DURATION > 3 SECONDS) ; C",
    "A ; B+ AS b FILTER FIRST(b.s) LIKE 'x%'",
    "A ALL B+ AS b FILTER SUM(b.v) > 3",
    "A ALL (B+ AS b FILTER SUM(b.v) > 3)",
    "A ; B+ AS b FILTER b.v - PREV.v > AVG(b.v)",
    "A ; B+ AS b FILTER ROUND(AVG(b.v)) = 3",
    "A AS a ; B AS b FILTER FLOOR(b.v / a.v) > ABS(b.v - a.v) + 1",
    "A* AS a ; B+ AS b ; C FILTER a[v = 2] OR SUM(b.v) > 2",
    "(A ; B WITHIN 5 [v]) ; C",
    "A AS a ; ((B AS b FILTER a.v + b.v < c.v)?) ; C AS c",
    "A ; NOT B AS b ; C AS c FILTER b.v > c.v",
    "A AS a ; NOT B AS b ; C ; D AS d FILTER b.k = a.k AND b.v > d.v",
    "A ; NOT B AS b ; C AS c FILTER b.k = c.k",
]
LISTED = {
    "A ALL (B+ AS b ; C FILTER SUM(b.v) > 3)+": "a side of ALL goes round",
    "A ; B+ AS b FILTER GREATEST(AVG(b.v), 2) = 3": "a function",
    "(A AS a ; (B+ AS b FILTER SUM(b.v) > c.v))+ ; C AS c": "several rounds",
}


@pytest.mark.parametrize("formula", [*CARRIED, *LISTED])
def test_no_candidates(formula: str) -> None:
    plan = ceql.compile(f"SELECT * WHERE {formula}").plan
    assert plan.loop is Loop.GROUPS
    assert not plan.candidate_reasons


@pytest.mark.parametrize("formula", LISTED)
def test_what_lists_decide_is_told(formula: str) -> None:
    said = " ".join(str(ceql.compile(f"SELECT * WHERE {formula}").explain()).split())
    assert "each different list is tested once" in said
    assert LISTED[formula] in said


TYPED = {
    "A ; B{3} AS b ; C FILTER MEDIAN(b.d) = 1.10": [(0, 1, 2, 3, 4)],
    "A ; B{3} AS b ; C FILTER FIRST(b.d, 2) = 3.3": [(0, 1, 2, 3, 4)],
    "A AS a ; B AS b ; C AS c FILTER CONCAT(a.s, b.s, c.s) = 'aéc'": [(0, 3, 4)],
    "A ; B{2} AS b ; C FILTER LAST(b.u, 1) > 5 OR FIRST(b.u, 1) > 5": [(0, 2, 3, 4), (0, 1, 2, 4)],
    "A ; B{2} AS b ; C FILTER LAST(b.ts, 1) = FIRST(b.ts) AND DURATION > 2 SECONDS": [
        (0, 2, 3, 4), (0, 1, 3, 4), (0, 1, 2, 4),
    ],
    "A ; B+ AS b ; C FILTER MEDIAN(b.f) = 2.0": [(0, 2, 3, 4), (0, 2, 4)],
    "A AS a ; B AS b ; C FILTER GREATEST(a.f, b.f) > 1.7": [(0, 2, 4)],
    "A AS a ; B{2} AS b FILTER LAST(b.b, 1) = a.b": [],
}  # fmt: skip


@pytest.mark.parametrize("formula", TYPED)
def test_lists_have_values_of_any_type(formula: str) -> None:
    decimals = [None, Decimal("1.10"), Decimal("1.10"), Decimal("3.30"), None]
    events = pa.table(
        {
            "type": list("ABBBC"),
            "d": pa.array(decimals, pa.decimal128(9, 2)),
            "s": ["a", "b", None, "é", "c"],
            "u": pa.array([1, 2, 2**63 + 5, 3, 4], pa.uint64()),
            "ts": pa.array([datetime(2024, 1, 1, 0, 0, k) for k in range(5)], pa.timestamp("ms")),
            "f": pa.array([1.5, float("nan"), 2.0, None, 3.0], pa.float32()).dictionary_encode(),
            "b": [True, False, True, None, True],
        }
    )
    found = [m.events for m in ceql.match(f"SELECT * WHERE {formula}", events, time="ts")]
    assert found == TYPED[formula]


def test_lists_of_a_column_whose_type_widens() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B{2} AS b ; C FILTER MEDIAN(b.v) > 1.2").recognizer()
    values = [("A", 1), ("B", 1), ("B", 1.5), ("B", 3), ("C", 0)]
    found = [m.events for kind, v in values for m in recognizer.feed([{"type": kind, "v": v}])]
    assert found == [(0, 2, 3, 4), (0, 1, 3, 4), (0, 1, 2, 4)]


def stream(count: int) -> list[dict[str, Any]]:
    letters = "ABBCBBBACB"
    return [
        {"type": letters[n % 10], "time": n, "v": n * 37 % 11, "f": (n * 29 % 17) / 10, "k": n % 3}
        for n in range(count)
    ]


def test_sums_of_floats_are_those_of_measures() -> None:
    """The sum that decides is the one that SELECT shows, to the last bit."""
    events = pa.Table.from_pylist(stream(120))
    runs, window = "A ; B{1,6} AS b ; C", "WITHIN 12 EVENTS"
    sums = ceql.match(f"SELECT SUM(b.f) AS s, AVG(b.f) AS m, b WHERE {runs} {window}", events).to_arrow()
    for limit in sorted(set(sums["s"].to_pylist()))[::20]:
        found = ceql.match(f"SELECT b WHERE {runs} FILTER SUM(b.f) <= {limit!r} {window}", events)
        assert found.count() == sum(s <= limit for s in sums["s"].to_pylist())
    for limit in sorted(set(sums["m"].to_pylist()))[::20]:
        found = ceql.match(f"SELECT b WHERE {runs} FILTER AVG(b.f) > {limit!r} {window}", events)
        assert found.count() == sum(m > limit for m in sums["m"].to_pylist())


def test_contiguous_runs_of_a_long_stream() -> None:
    events = stream(3000)
    wanted = 0
    for end, event in enumerate(events):
        total, start = 0, end - 1
        while event["type"] == "C" and start >= 0 and events[start]["type"] == "B":
            total += events[start]["v"]
            wanted += total > 12
            start -= 1
    assert ceql.match("SELECT * WHERE B:+ AS b : C FILTER SUM(b.v) > 12", events).count() == wanted > 0


def test_forbidden_values_of_a_long_stream() -> None:
    events = stream(1500)
    wanted = set()
    for start, first in enumerate(events):
        if first["type"] != "A":
            continue
        most = -1
        for end in range(start + 1, min(start + 60, len(events) - 1) + 1):
            if events[end]["type"] == "B":
                most = max(most, events[end]["v"])
            elif events[end]["type"] == "C" and most <= events[end]["v"]:
                wanted.add((start, end))
    query = "SELECT * WHERE A ; NOT B AS b ; C AS c FILTER b.v > c.v WITHIN 60 EVENTS"
    assert {(m.start, m.end) for m in ceql.match(query, events)} == wanted


def test_a_sum_that_is_too_large_is_an_error_when_it_is_asked_for() -> None:
    big = [{"type": t, "time": n, "v": 1 << 62} for n, t in enumerate("ABBB")]
    query = ceql.compile("SELECT * WHERE A ; B+ AS b ; C FILTER SUM(b.v) > 0")
    assert query.run(big).count() == 0
    with pytest.raises(ceql.DataError, match="too large to be exact"):
        query.run([*big, {"type": "C", "time": 9, "v": 0}]).count()
    exact = [{"type": t, "time": n, "v": v} for n, (t, v) in enumerate([("A", 0), ("B", 1 << 62), ("B", -1), ("C", 0)])]
    least = ceql.compile(f"SELECT * WHERE A ; B{{2}} AS b ; C FILTER SUM(b.v) = {(1 << 62) - 1}")
    assert least.run(exact).count() == 1


def test_sums_go_on_after_a_snapshot_and_when_types_widen() -> None:
    query = ceql.compile("SELECT * WHERE A ; B+ AS b ; C AS c FILTER SUM(b.v) = c.v AND MAX(b.s) > 'a'")
    pieces = [
        [{"type": "A", "time": 0}, {"type": "B", "time": 1, "v": 2, "s": "b"}],
        [{"type": "B", "time": 2, "v": 0.5, "s": "a"}],
        [{"type": "B", "time": 3, "v": 1, "s": None}, {"type": "C", "time": 4, "v": 2.5}],
    ]
    recognizer = query.recognizer()
    found = []
    for piece in pieces:
        found += [tuple(match.events) for match in recognizer.feed(piece)]
        recognizer = query.restore(recognizer.snapshot())
    assert found == [(0, 1, 2, 4)]


def test_columns_that_do_not_fit_are_refused() -> None:
    events = pa.table({"type": ["A", "B"], "time": [0, 1], "s": ["x", "y"]})
    with pytest.raises(ceql.SchemaError, match="SUM needs numbers"):
        ceql.match("SELECT * WHERE A ; B+ AS b FILTER SUM(b.s) > 3", events).count()
    with pytest.raises(ceql.SchemaError, match="cannot compare"):
        ceql.match("SELECT * WHERE A AS a ; B+ AS b FILTER LAST(b.s) > a.time", events).count()
