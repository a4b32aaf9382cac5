"""Ids of matches: a reference by hand, and the same ids however events are held, fed and named."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

import ceql
from ceql.results.match_ids import digests

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
EVENTS: list[dict[str, Any]] = [
    {"type": "AB"[k % 2], "time": BEGIN + timedelta(seconds=k), "user": f"u{k % 3}", "v": k / 2, "pay": 100 + k}
    for k in range(24)
]
QUERY = "SELECT a, b WHERE A AS a ; B AS b PARTITION BY user WITHIN 9 SECONDS"


def digest(*parts: bytes) -> bytes:
    return blake2b(b"".join(parts), digest_size=16).digest()


def told(event: dict[str, Any], columns: Sequence[str]) -> bytes:
    """The text that tells an event, by hand."""
    parts = []
    for name in sorted(columns):
        match event[name]:
            case None:
                continue
            case str() as value:
                text = f"s{value}"
            case datetime() as value:
                text = f"t{(value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000}"
            case float() as value if not value.is_integer():
                text = f"n{value!r}"
            case value:
                text = f"n{int(value)}"
        parts.append(f"{name}:{len(text)}:{text}")
    return digest("\n".join(["", *parts]).encode())


def by_hand(name: str, columns: Sequence[str]) -> list[str]:
    """The ids of all matches of QUERY."""
    found = []
    for a, b in combinations(EVENTS, 2):
        if a["type"] + b["type"] != "AB" or a["user"] != b["user"] or b["time"] - a["time"] > timedelta(seconds=9):
            continue
        key = f"s{a['user']}"
        both = sorted([told(a, columns), told(b, columns)])
        parts = [digest("\0".join([name, "a", "b", ""]).encode()), digest(f"\n0:{len(key)}:{key}".encode())]
        parts += [b"1:" + told(a, columns), b"1:" + told(b, columns), b"2:" + b"".join(both)]
        found.append(digest(*parts).hex())
    return sorted(found)


def ids(table: pa.Table) -> list[str]:
    found: list[str] = table.column("match_id").to_pylist()
    return sorted(found)


@pytest.mark.parametrize("id", [None, "pay", ["pay", "type"]])
def test_ids_are_those_of_the_reference(id: Any) -> None:
    columns = list(EVENTS[0]) if id is None else [id] if isinstance(id, str) else id
    query = ceql.compile(QUERY)
    expected = by_hand(query.plan.fingerprint, columns)
    assert len(set(expected)) == len(expected) > 5
    assert ids(query.run(EVENTS).with_ids(id)) == expected
    assert ids(query.run(pa.Table.from_pylist(EVENTS[::-1])).with_ids(id)) == expected
    recognizer, fed = query.recognizer(), list[str]()
    for begin in range(0, 24, 5):
        fed += ids(recognizer.feed(EVENTS[begin : begin + 5]).with_ids(id))
        recognizer = query.restore(recognizer.snapshot())
    assert sorted(fed) == expected
    rules = ceql.compile_all({"rule": QUERY, "other": "SELECT * WHERE A"})
    assert ids(rules.run(EVENTS)["rule"].with_ids(id)) == by_hand("rule", columns)
    assert ids(query.run(EVENTS).with_ids(id)) == ids(
        ceql.compile(QUERY.replace("; B", ";   B")).run(EVENTS).with_ids(id)
    )


def test_a_value_is_told_by_itself_not_by_its_type() -> None:
    moment = datetime(2024, 3, 1, 12)
    alike: list[list[pa.Array]] = [
        [pa.array([5], kind) for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.float64())]
        + [pa.array([Decimal("5.00")], pa.decimal128(38, 2)), pa.array([5]).dictionary_encode()],
        [pa.array([moment], pa.timestamp(unit, zone)) for unit in ("s", "ns") for zone in (None, "UTC", "Asia/Tokyo")],
        [pa.array(["x"], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())],
        [pa.array([date(2024, 3, 1)], kind) for kind in (pa.date32(), pa.date64())],
        [pa.array([timedelta(hours=1)], pa.duration(unit)) for unit in ("s", "us")],
        [pa.array([[1, None]], kind) for kind in (pa.list_(pa.int8()), pa.large_list(pa.float64()))],
        [pa.array([[1, 2]], kind) for kind in (pa.list_(pa.int8()), pa.list_(pa.int64(), 2))],
        [pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), kind)) for kind in (pa.int8(), pa.int64())],
        [pa.array([{"a": 1, "b": None}]), pa.array([{"b": None, "a": 1.0}]), pa.array([{"a": 1}])],
        [pa.array([5.5]), pa.array([Decimal("5.5")])],
        [pa.array(["5"])], [pa.array([True])], [pa.array([b"5"])], [pa.array([Decimal("0.00000001")])],
        [pa.array([-0.0]), pa.array([0])], [pa.array([1e300])], [pa.array([float("nan")])], [pa.nulls(1)],
    ]  # fmt: skip
    found = [{digests(pa.table({"v": one})).tobytes() for one in group} for group in alike]
    assert all(len(group) == 1 for group in found)
    assert len(set.union(*found)) == len(alike)


def test_a_null_says_nothing_and_names_do() -> None:
    row = {"a": pa.array([1]), "b": pa.array(["x"])}
    one = digests(pa.table(row)).tobytes()
    assert len(digests(pa.table({"a": pa.nulls(3), "b": pa.array(["x", None, None])}))) == 3
    assert digests(pa.table(row | {"c": pa.nulls(1)})).tobytes() == one
    assert digests(pa.table(dict(reversed(row.items())))).tobytes() == one
    assert digests(pa.table({"a": pa.array([1]), "c": pa.array(["x"])})).tobytes() != one


def test_wrong_names_are_errors() -> None:
    matches = ceql.match("SELECT * WHERE A", EVENTS)
    with pytest.raises(ceql.DataError, match=r"no column .payy. .*Did you mean .pay."):
        matches.with_ids("payy")
    with pytest.raises(ceql.DataError, match="have a column 'start'"):
        matches.with_ids(name="start")
    assert matches.with_ids(name="alert").schema.names[0] == "alert"
    assert ceql.match("SELECT * WHERE Z", EVENTS).with_ids().num_rows == 0
