"""Conditions between events over columns of every type: what comes out is what plain loops over the values find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import combinations, pairwise
from typing import Any

import pyarrow as pa
import pytest

import ceql

Found = list[tuple[int, ...]]
LETTERS = "AABCAABCBACACBBC"
SMALL = [2, 1, None, 2, 3, 1, 3, 1, 2, 2, None, 3, 1, 2, 1, 2]
MIDNIGHT = datetime(2024, 3, 1)


def whole(type: pa.DataType, offset: int = 0) -> pa.Array:
    return pa.array([n and offset + n for n in SMALL], type)


def made(make: Callable[[int], Any], type: pa.DataType) -> pa.Array:
    return pa.array([n and make(n) for n in SMALL], type)


def moment(n: int) -> datetime:
    return MIDNIGHT + timedelta(seconds=n)


def cents(n: int) -> Decimal:
    return Decimal(n) / 10


WORDS = ["", "Z", "a", "ab"]
COLUMNS: dict[str, pa.Array] = {
    **{str(t): whole(t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())},
    "int64 beyond 2^53": whole(pa.int64(), 1 << 60),
    "int64 at its least": whole(pa.int64(), -(1 << 63)),
    "uint64 up to 2^63": whole(pa.uint64(), (1 << 63) - 4),
    **{str(t): made(lambda n: n / 10, t) for t in (pa.float32(), pa.float64())},
    **{str(t): made(cents, t) for t in (pa.decimal128(5, 1), pa.decimal128(38, 18), pa.decimal256(60, 20))},
    **{str(t): made(lambda n: date(2024, 2, 27 + n % 3), t) for t in (pa.date32(), pa.date64())},
    **{f"timestamp in {u}": made(moment, pa.timestamp(u)) for u in ("s", "ms", "us", "ns")},
    "timestamp with a zone": made(moment, pa.timestamp("us", "Europe/Paris")),
    **{f"duration in {u}": made(lambda n: timedelta(seconds=n), pa.duration(u)) for u in ("s", "ms", "us", "ns")},
    "time of day": made(lambda n: time(1, n), pa.time64("us")),
    **{str(t): made(WORDS.__getitem__, t) for t in (pa.string(), pa.large_string(), pa.string_view())},
    "text in a dictionary": made(WORDS.__getitem__, pa.string()).dictionary_encode(),
    "bool": made(lambda n: n == 2, pa.bool_()),
}
MIXED: dict[str, tuple[pa.Array, pa.Array]] = {
    "int8 and int64": (whole(pa.int8()), whole(pa.int64())),
    "int64 and uint32": (whole(pa.int64()), whole(pa.uint32())),
    "int32 and float": (whole(pa.int32()), made(lambda n: n + 0.5, pa.float64())),
    "float32 and float64": (made(lambda n: n / 4, pa.float32()), made(lambda n: n / 4, pa.float64())),
    "int16 and decimal": (whole(pa.int16()), made(lambda n: n + Decimal("0.5"), pa.decimal128(10, 2))),
    "decimals of two scales": (made(cents, pa.decimal128(10, 1)), made(cents, pa.decimal128(20, 9))),
    "timestamps in s and ns": (made(moment, pa.timestamp("s")), made(moment, pa.timestamp("ns"))),
    "timestamps in ms and us": (
        made(moment, pa.timestamp("ms")),
        made(lambda n: moment(n) + timedelta(microseconds=n - 2), pa.timestamp("us")),
    ),
    "text and a dictionary": (
        made(WORDS.__getitem__, pa.string()),
        made(WORDS.__getitem__, pa.large_string()).dictionary_encode(),
    ),
}
FIRST_AND_LAST = "SELECT * WHERE A AS a ; B ; C AS c FILTER a.v < c.w"
ITERATED = "SELECT * WHERE A+ AS a ; B AS b FILTER a.v >= b.w"
RISING = "SELECT * WHERE A ; C+ AS c FILTER c[w > PREV.v]"


def indexes(kind: str) -> list[int]:
    return [n for n, letter in enumerate(LETTERS) if letter == kind]


def subsets(of: list[int]) -> Iterator[tuple[int, ...]]:
    for size in range(1, len(of) + 1):
        yield from combinations(of, size)


def compared(v: list[Any], w: list[Any], holds: Callable[[Any, Any], bool]) -> Callable[[int, int], bool]:
    return lambda i, j: v[i] is not None and w[j] is not None and bool(holds(v[i], w[j]))


def expected(v: list[Any], w: list[Any]) -> dict[str, Found]:
    less = compared(v, w, lambda x, y: x < y)
    not_less = compared(v, w, lambda x, y: x >= y)
    return {
        FIRST_AND_LAST: [
            (a, b, c) for a in indexes("A") for b in indexes("B") for c in indexes("C") if a < b < c and less(a, c)
        ],
        ITERATED: [
            (*chosen, b)
            for b in indexes("B")
            for chosen in subsets([a for a in indexes("A") if a < b])
            if all(not_less(a, b) for a in chosen)
        ],
        RISING: [
            (a, *chosen)
            for a in indexes("A")
            for chosen in subsets([c for c in indexes("C") if c > a])
            if all(less(before, after) for before, after in pairwise((a, *chosen)))
        ],
    }


def check_columns(v: pa.Array, w: pa.Array) -> None:
    table = pa.table({"type": list(LETTERS), "v": v, "w": w})
    for query, matches in expected(v.to_pylist(), w.to_pylist()).items():
        assert matches
        assert sorted(match.events for match in ceql.match(query, table)) == sorted(matches), query
        compiled = ceql.compile(query)
        recognizer = compiled.recognizer()
        pieces: Found = []
        for k in range(0, len(LETTERS), 5):
            pieces += [match.events for match in recognizer.feed(table.slice(k, 5))]
            recognizer = compiled.restore(recognizer.snapshot())
        assert sorted(pieces) == sorted(matches), query


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_every_type(name: str) -> None:
    check_columns(COLUMNS[name], COLUMNS[name])


@pytest.mark.parametrize("name", MIXED)
def test_columns_of_two_types(name: str) -> None:
    check_columns(*MIXED[name])


@pytest.mark.parametrize("name", MIXED)
def test_columns_of_two_types_the_other_way_round(name: str) -> None:
    check_columns(*reversed(MIXED[name]))
