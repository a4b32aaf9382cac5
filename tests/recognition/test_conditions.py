"""Conditions between events as a user meets them: data in any form and order, one by one, with snapshots.

What must come out is what plain loops over the rows find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ceql

Rows = list[dict[str, Any]]
Found = list[tuple[int, ...]]
RANDOM = np.random.default_rng(12)
N = 100
ROWS: Rows = [
    {
        "type": "ABC"[RANDOM.integers(3)],
        "time": 10 * n,
        "price": int(RANDOM.integers(1, 12)) if RANDOM.random() < 0.9 else None,
        "place": ["east", "north", "south", "west"][RANDOM.integers(4)],
    }
    for n in range(N)
]
DROP = (
    "SELECT * WHERE A AS a ; B AS b ; C AS c "
    "FILTER b.price >= a.price + 2 AND c.price < a.price AND c.place != b.place WITHIN 120 MILLISECONDS"
)
RUN = "SELECT * WHERE A ; (A OR B)+ AS run FILTER run[price > PREV.price] WITHIN 60 MILLISECONDS"
SWING = "SELECT * WHERE A AS a ; B+ AS b ; C AS c FILTER b.price - a.price > c.price - b.price WITHIN 60 MILLISECONDS"
SIDES = "SELECT * WHERE A AS a ALL C AS c FILTER a.price < c.price OR a.place > c.place WITHIN 50 MILLISECONDS"


def number(row: dict[str, Any]) -> float:
    """The price, where NULL is NaN: no comparison with it is true."""
    return float("nan") if row["price"] is None else row["price"]


def is_drop(chosen: Rows) -> bool:
    a, b, c = chosen
    rises, falls = number(b) >= number(a) + 2, number(c) < number(a)
    return kinds(chosen) == "ABC" and rises and falls and c["place"] != b["place"] and c["time"] - a["time"] <= 120


def is_run(chosen: Rows) -> bool:
    pairs = pairwise(chosen)
    return (
        kinds(chosen)[0] == "A"
        and "C" not in kinds(chosen)
        and all(number(after) > number(before) for before, after in pairs)
        and chosen[-1]["time"] - chosen[0]["time"] <= 60
    )


def is_swing(chosen: Rows) -> bool:
    a, *middle, c = chosen
    return (
        kinds(chosen) == "A" + "B" * len(middle) + "C"
        and all(number(b) - number(a) > number(c) - number(b) for b in middle)
        and c["time"] - a["time"] <= 60
    )


def are_sides(chosen: Rows) -> bool:
    if sorted(kinds(chosen)) != ["A", "C"] or chosen[1]["time"] - chosen[0]["time"] > 50:
        return False
    a, c = sorted(chosen, key=lambda row: row["type"])
    return number(a) < number(c) or a["place"] > c["place"]


def kinds(chosen: Rows) -> str:
    return "".join(row["type"] for row in chosen)


def near(rows: Rows, sizes: range, furthest: int) -> Iterator[tuple[int, ...]]:
    """All choices of so many rows that are at most so far apart."""
    for first in range(len(rows)):
        rest = range(first + 1, min(first + furthest + 1, len(rows)))
        for size in sizes:
            yield from ((first, *others) for others in combinations(rest, size - 1))


def by_hand(query: str, rows: Rows = ROWS) -> Found:
    sizes, furthest, holds = {
        DROP: (range(3, 4), 12, is_drop),
        RUN: (range(2, 8), 6, is_run),
        SWING: (range(3, 8), 6, is_swing),
        SIDES: (range(2, 3), 5, are_sides),
    }[query]
    return [chosen for chosen in near(rows, sizes, furthest) if holds([rows[n] for n in chosen])]


def found(query: str, events: Any, **options: Any) -> Found:
    return sorted(match.events for match in ceql.match(query, events, time_unit="ms", **options))


QUERIES = [DROP, RUN, SWING, SIDES]
NAMED = pytest.mark.parametrize("query", QUERIES, ids=["drop", "run", "swing", "sides"])
INPUTS: dict[str, Callable[[Rows], Any]] = {
    "dicts": lambda rows: rows,
    "table": pa.Table.from_pylist,
    "table in chunks": lambda rows: pa.concat_tables(pa.Table.from_pylist(rows).slice(k, 7) for k in range(0, N, 7)),
    "places as a dictionary": lambda rows: pa.Table.from_pylist(rows).set_column(
        3, "place", pa.array([row["place"] for row in rows]).dictionary_encode()
    ),
    "pandas": lambda rows: pa.Table.from_pylist(rows).to_pandas(),
    "polars": pl.DataFrame,
    "polars lazy": lambda rows: pl.DataFrame(rows).lazy(),
}


@NAMED
def test_the_loops_find_something(query: str) -> None:
    assert 10 < len(by_hand(query)) < 400


@NAMED
@pytest.mark.parametrize("kind", INPUTS)
def test_every_form(query: str, kind: str) -> None:
    events = INPUTS[kind](ROWS)
    assert found(query, events) == sorted(by_hand(query))
    assert found(query, events, batch_rows=5) == sorted(by_hand(query))
    assert ceql.match(query, events, time_unit="ms").count() == len(by_hand(query))


@NAMED
@pytest.mark.parametrize("kind", INPUTS)
def test_rows_in_any_order(query: str, kind: str) -> None:
    order = np.random.default_rng(5).permutation(N).tolist()
    place = {row: k for k, row in enumerate(order)}
    expected = sorted(tuple(place[row] for row in chosen) for chosen in by_hand(query))
    assert found(query, INPUTS[kind]([ROWS[row] for row in order])) == expected


@NAMED
def test_rows_that_come_late(query: str) -> None:
    """A stream of which every other row comes twenty-five milliseconds late."""
    late = sorted(range(N), key=lambda row: ROWS[row]["time"] + 25 * (row % 2))
    assert late != list(range(N))
    recognizer = ceql.compile(query).recognizer(lateness="25 milliseconds", time_unit="ms")
    matches = [match.events for row in late for match in recognizer.feed(ROWS[row])]
    assert sorted(matches + [match.events for match in recognizer.finish()]) == sorted(by_hand(query))
    assert recognizer.late().num_rows == 0


@NAMED
@pytest.mark.parametrize("kind", ["dicts", "table", "pandas", "polars"])
def test_times_as_text(query: str, kind: str) -> None:
    begin = datetime(2024, 2, 28, 23, 59, 59, 700_000)
    rows = [row | {"time": (begin + timedelta(milliseconds=row["time"])).isoformat()} for row in reversed(ROWS)]
    expected = sorted(tuple(N - 1 - row for row in chosen) for chosen in by_hand(query))
    assert found(query, INPUTS[kind](rows)) == expected


@NAMED
def test_one_dict_at_a_time_with_a_snapshot_after_each(query: str) -> None:
    compiled = ceql.compile(query)
    recognizer = compiled.recognizer(time_unit="ms")
    matches: Found = []
    for row in ROWS:
        matches += [match.events for match in recognizer.feed(row)]
        recognizer = compiled.restore(recognizer.snapshot())
    assert sorted(matches) == sorted(by_hand(query))


@NAMED
def test_a_snapshot_in_the_middle_can_go_on_twice(query: str) -> None:
    compiled = ceql.compile(query)
    recognizer = compiled.recognizer(time_unit="ms")
    before = [match.events for match in recognizer.feed(ROWS[:31])]
    blob = recognizer.snapshot()
    for pieces in ([ROWS[31:]], [ROWS[31:40], ROWS[40:]], [pa.Table.from_pylist(ROWS[31:])]):
        again = compiled.restore(blob)
        after = [match.events for piece in pieces for match in again.feed(piece)]
        assert sorted(before + after) == sorted(by_hand(query))


@NAMED
def test_fields_of_nested_attributes(query: str, tmp_path: Path) -> None:
    nested = query.replace("price", "quote.price").replace("place", "quote.at.place")
    rows = [
        {"type": r["type"], "time": r["time"], "quote": {"price": r["price"], "at": {"place": r["place"]}}}
        for r in ROWS
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for events in (rows, iter(rows), pa.Table.from_pylist(rows), pl.DataFrame(rows), path):
        assert found(nested, events) == sorted(by_hand(query))


def test_a_column_that_becomes_float_and_one_that_comes_late() -> None:
    """Dicts one at a time: values read before keep what they were when the column's type changes."""
    rows: Rows = [
        {"type": "A"},
        {"type": "A", "v": 1},
        {"type": "A", "v": 2},
        {"type": "B", "v": 1.5},
        {"type": "A", "v": 2.25},
        {"type": "B", "v": 2},
        {"type": "B", "v": 2.5, "s": "new"},
        {"type": "A", "v": 3, "s": "b"},
        {"type": "B", "v": 9, "s": "a"},
    ]
    query = ceql.compile("SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v AND b[s > a.s OR a.s IS NULL]")
    recognizer = query.recognizer()
    matches: Found = []
    for row in rows:
        matches += [match.events for match in recognizer.feed(row)]
        recognizer = query.restore(recognizer.snapshot())
    assert sorted(matches) == [(1, 3), (1, 5), (1, 6), (1, 8), (2, 6), (2, 8), (4, 6), (4, 8)]
