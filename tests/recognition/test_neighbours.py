"""Events that `:` joins, over streams that are longer than a batch: against numpy, however events come."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ceql
from ceql.plans import Loop

ROWS = 3000
TWO = "SELECT a, b FROM E WHERE E AS a : E AS b FILTER b.v > a.v + 3 PARTITION BY k"
TEXTS = "SELECT a, b FROM E WHERE E AS a : E AS b FILTER b.s > a.s PARTITION BY k"
THREE = "SELECT a, b FROM E WHERE E AS a : E : E AS b FILTER b.v > a.v + 3 PARTITION BY k"


def stream(keys: int, text_keys: bool = False, far: int = 1) -> pa.Table:
    random = np.random.default_rng(keys)
    k = random.integers(-keys // 2, keys // 2 + 1, ROWS) * far
    v = random.integers(0, 10, ROWS)
    return pa.table(
        {
            "k": pa.array([f"key {one}" for one in k] if text_keys else k, mask=random.random(ROWS) < 0.05),
            "v": pa.array(v, pa.int64(), mask=random.random(ROWS) < 0.05),
            "s": pa.array([f"text {one}" for one in v], mask=random.random(ROWS) < 0.05),
        }
    )


def expected(table: pa.Table, column: str, more: int, steps: int) -> list[tuple[int, int]]:
    """Each event with the one so many steps before, if it is greater by more than that."""
    before: dict[Any, list[int]] = {}
    values, found = table.column(column).to_pylist(), []
    for row, key in enumerate(table.column("k").to_pylist()):
        if key is None:
            continue
        last = before.setdefault(key, [])
        if len(last) >= steps:
            one, two = values[last[-steps]], values[row]
            if one is not None and two is not None and (two > one + more if more else two > one):
                found.append((last[-steps], row))
        last.append(row)
    return found


def pairs(matches: ceql.Matches) -> list[tuple[int, int]]:
    got = matches.to_arrow()
    return list(zip(got.column("a").to_pylist(), got.column("b").to_pylist(), strict=True))


@pytest.mark.parametrize("rows", [1 << 17, 700, 60])
@pytest.mark.parametrize("table", [stream(5), stream(900), stream(900, far=10**12), stream(900, text_keys=True)])
@pytest.mark.parametrize(
    ("query", "asked"), [(TWO, ("v", 3, 1)), (TEXTS, ("s", 0, 1)), (THREE, ("v", 3, 2))], ids=["two", "texts", "three"]
)
def test_in_batches(query: str, asked: tuple[str, int, int], table: pa.Table, rows: int) -> None:
    compiled = ceql.compile(query)
    assert compiled.plan.loop is not Loop.GROUPS
    wanted = expected(table, *asked)
    assert pairs(compiled.run(table, batch_rows=rows)) == wanted
    assert compiled.run(table, batch_rows=rows).count() == len(wanted)


@pytest.mark.parametrize("keys", [5, 900])
@pytest.mark.parametrize("text_keys", [False, True])
def test_fed_with_snapshots(keys: int, text_keys: bool) -> None:
    table = stream(keys, text_keys)
    for query, asked in ((TWO, ("v", 3, 1)), (TEXTS, ("s", 0, 1)), (THREE, ("v", 3, 2))):
        compiled = ceql.compile(query)
        recognizer, found = compiled.recognizer(), []
        for number, (begin, end) in enumerate(itertools.pairwise([0, 1, 7, 500, 501, 1500, 2200, ROWS])):
            found += pairs(recognizer.feed(table.slice(begin, end - begin)))
            if number % 2:
                recognizer = compiled.restore(recognizer.snapshot())
        assert found + pairs(recognizer.finish()) == expected(table, *asked)


def test_from_parquet_with_codes_of_each_row_group(tmp_path: Path) -> None:
    table = stream(20)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=250)
    assert pairs(ceql.compile(TEXTS).run(tmp_path / "events.parquet")) == expected(table, "s", 0, 1)


def test_keys_that_come_and_go() -> None:
    """A window lets the engine forget keys; an event of a key that was forgotten has none before it in a match."""
    keys = np.repeat(np.arange(40_000), 2)
    table = pa.table({"k": keys, "v": np.arange(80_000) % 7, "time": np.arange(80_000)})
    query = ceql.compile("SELECT a, b FROM E WHERE E AS a : E AS b FILTER b.v > a.v PARTITION BY k WITHIN 5 [time]")
    recognizer, found = query.recognizer(time="time"), 0
    for begin in range(0, 80_000, 777):
        found += len(pairs(recognizer.feed(table.slice(begin, 777))))
    assert found == sum(b > a for a, b in zip(*[iter((np.arange(80_000) % 7).tolist())] * 2, strict=True))


def test_events_of_a_dict_whose_attributes_come_later() -> None:
    query = ceql.compile("SELECT a, b FROM E WHERE E AS a : E AS b FILTER b.v > a.v OR b.s = a.s PARTITION BY k")
    recognizer = query.recognizer()
    events: list[dict[str, Any]] = [
        {"k": 1},
        {"k": 1, "v": 1},
        {"k": 1, "v": 2.5},
        {"k": 1, "s": "x"},
        {"k": 1, "s": "x"},
    ]
    found = [pair for event in events for pair in pairs(recognizer.feed([event]))]
    assert found + pairs(recognizer.finish()) == [(1, 2), (3, 4)]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("a.i = b.f", False), ("a.i > b.f", True), ("b.f < a.i", True), ("a.d < b.d", True), ("a.d = b.d", False)],
)
def test_numbers_are_not_rounded(condition: str, holds: bool) -> None:
    digits = "12345678901234567890.00000000000000000"
    table = pa.table(
        {
            "type": ["A", "B"],
            "i": [2**62 + 1, 2**62],
            "f": [float(2**62)] * 2,
            "d": [Decimal(f"{digits}1"), Decimal(f"{digits}2")],
        }
    )
    assert ceql.match(f"SELECT * WHERE A AS a : B AS b FILTER {condition}", table).count() == holds
