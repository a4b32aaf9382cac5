"""Rows that come in steps give the matches that the whole table gives, as soon as no row to come can change them."""

from __future__ import annotations

import random
import re
from typing import Any

import pyarrow as pa
import pytest

import ceql
from ceql.row_patterns.clauses import read
from ceql.row_patterns.dialects import Dialect
from ceql.row_patterns.plan import Plan
from ceql.row_patterns.stream import Stream, check_stream
from row_pattern_cases import draw_case
from row_pattern_checks import SCHEMA

TIMED = pa.schema({"ts": pa.timestamp("us"), "g": pa.int64(), "k": pa.string(), "price": pa.int64()})


def planned(sql: str) -> Plan:
    plan = Plan(read(sql, Dialect()).found[0].clause, sql, TIMED.names)
    plan.check(TIMED)
    check_stream(plan, "ts")
    return plan


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def in_time(table: pa.Table) -> pa.Table:
    return table.cast(TIMED)


def stepwise(rnd: random.Random, plan: Plan, table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows that come out, over steps in which rows are shuffled, and what is kept goes through a copy."""
    stream, found, until, at = Stream(plan, TIMED, "ts"), [], None, 0
    while at < table.num_rows:
        count = min(rnd.randrange(1, 5), table.num_rows - at)
        part = rnd.sample(range(at, at + count), count)
        found += rows_of(stream.step(table.take(pa.array(part)), until))
        assert not stream.late
        at += count
        until = at - 1 if rnd.random() < 0.8 else until
        if rnd.random() < 0.5:
            stream = Stream(plan, TIMED, "ts", stream.kept)
    return found + rows_of(stream.step(TIMED.empty_table(), 1_000))


@pytest.mark.parametrize("seed", range(3))
def test_steps_give_what_the_whole_gives(seed: int) -> None:
    rnd = random.Random(seed)
    early = 0
    for _ in range(100):
        case = draw_case(rnd, plain=rnd.random() < 0.4)
        if case.expected is None:
            continue
        try:
            plan = planned(case.sql)
        except ceql.QueryError:
            continue
        table = in_time(pa.Table.from_pylist(case.rows, SCHEMA))
        found = stepwise(rnd, plan, table)
        whole = Stream(plan, TIMED, "ts")
        whole.step(table, None)
        assert sorted(found, key=repr) == sorted(rows_of(whole.step(TIMED.empty_table(), 1_000)), key=repr), case
        left = rows_of(ceql.match_recognize(case.sql, table))
        for row in found:
            left.remove(row)
        early += len(found)
    assert early > 10


def outcomes(clause: str, prices: list[int], until: list[int] | None = None) -> list[list[tuple[Any, ...]]]:
    """What comes out at each row, which is the last one whose time has passed; and then at these times."""
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(price) AS a, LAST(price) AS b {clause})"
    stream = Stream(planned(sql), TIMED, "ts")
    table = pa.table({"ts": range(len(prices)), "g": [0] * len(prices), "k": ["a"] * len(prices), "price": prices})
    found = [rows_of(stream.step(in_time(table.slice(k, 1)), k - 1)) for k in range(len(prices))]
    last = [len(prices) - 1, *(until or [])]
    return found + [rows_of(stream.step(TIMED.empty_table(), time)) for time in last]


def test_a_match_comes_as_soon_as_it_is_decided() -> None:
    rising = "DEFINE up AS price > PREV(price)"
    assert outcomes(f"PATTERN (up{{2}}) {rising}", [1, 2, 3, 4]) == [[], [], [], [(2, 3)], []]
    assert outcomes(f"PATTERN (up+) {rising}", [1, 2, 3, 1]) == [[], [], [], [], [(2, 3)]]
    assert outcomes("PATTERN (A) DEFINE A AS NEXT(price) > price", [1, 2, 2, 3]) == [[], [], [(1, 1)], [], [(2, 2)]]


def test_within_decides_when_the_time_has_passed() -> None:
    clause = "PATTERN (A+) WITHIN INTERVAL '0.000005' SECOND DEFINE A AS price > 0"
    assert outcomes(clause, [1, 2, 3], [4, 5, 6]) == [[], [], [], [], [], [(1, 3)], []]


def test_late_rows_and_those_without_time_are_counted() -> None:
    plan = planned("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B) DEFINE A AS price = 1)")
    stream = Stream(plan, TIMED, "ts")
    row = pa.table({"ts": [3], "g": [0], "k": ["a"], "price": [1]})
    stream.step(in_time(row), 2)
    stream.step(in_time(row), 3)
    assert stream.late == 1
    stream.step(pa.Table.from_pylist([{"ts": None}], TIMED), 3)
    assert (stream.late, stream.rejected) == (0, 1)


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("PATTERN (A B) DEFINE A AS MATCH_NUMBER() < 3", "MATCH_NUMBER() in DEFINE is not evaluated over a stream"),
        ("PATTERN (A B) DEFINE A AS price > AVG(price) OVER ()", "a window function (OVER) is not evaluated over a"),
        ("ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B)", "WITH UNMATCHED ROWS is not evaluated over a stream"),
        ("PATTERN (A $)", "a stream has no last row"),
    ],
)
def test_what_a_stream_never_decides_is_refused(clause: str, said: str) -> None:
    with pytest.raises(ceql.QueryError, match=re.escape(said)):
        planned(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts {clause})")
