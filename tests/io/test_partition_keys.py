"""Numbers of substreams: equal keys have equal numbers, however they are stored, batched, released and restored."""

from __future__ import annotations

import datetime as dt
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceql
from ceql.io.partition_keys import PartitionKeys
from ceql.recognition import snapshot

D, NAN, INF = Decimal, float("nan"), float("inf")
LONG = "a text of some length, "
DAY = dt.datetime(2024, 5, 1)
# By kind: the type that keys are shown in, and the types that a batch may store them in, with values that fit.
KINDS: dict[str, tuple[pa.DataType, list[tuple[pa.DataType, list[Any]]]]] = {
    "number": (
        pa.float64(),
        [
            (pa.int8(), [0, 1, -1, 7]),
            (pa.int64(), [0, 1, 7, 2**53 + 1, -(2**63), 2**63 - 1]),
            (pa.uint64(), [0, 1, 2**53 + 1, 2**63, 2**64 - 1]),
            (pa.float32(), [0.0, -0.0, 1.0, 0.5, NAN, INF]),
            (pa.float64(), [-0.0, 1.0, 0.1, 0.5, 2.0**53, 2.0**63, 2.0**64, -(2.0**63), 1e300, 5e-324, NAN, -INF]),
            (pa.decimal128(22, 2), [D(0), D(1), D("0.50"), D("0.10"), D("7.25"), D(2**63), D(-(2**63))]),
            (pa.decimal128(38, 18), [D("0.5"), D("0.1"), D("1e-18"), D("-0.1"), D(2**64 - 1), D("3e-2")]),
            (pa.decimal256(60, 20), [D("0.5"), D("0.1"), D("1e-18"), D(10**25), D(10**25) + D("0.1"), D(2**64)]),
        ],
    ),
    "text": (
        pa.string(),
        [
            (kind, ["", "a", "ab", "b", "a\0", "abcdefgh", "abcdefghi", "ä", LONG, LONG + "1", LONG + "2"])
            for kind in (pa.string(), pa.large_string(), pa.string_view())
        ],
    ),
    "binary": (
        pa.binary(),
        [(kind, [b"ab\0", b"abc", b"\xff\xfe\xfd"]) for kind in (pa.binary(), pa.large_binary(), pa.binary(3))],
    ),
    "time": (
        pa.timestamp("us"),
        [(pa.timestamp(unit), [DAY, DAY + dt.timedelta(seconds=1), dt.datetime(1969, 1, 1)]) for unit in ("s", "us")],
    ),
    "day": (pa.date32(), [(pa.date32(), [dt.date(1969, 1, 1), dt.date(2024, 5, 1)])]),
    "truth value": (pa.bool_(), [(pa.bool_(), [True, False])]),
}


def partition_keys(clause: str, schema: pa.Schema, open_schema: bool = False, type: str | None = None) -> PartitionKeys:
    parts = ceql.compile(f"SELECT * WHERE A ; B PARTITION BY {clause}").plan.query.partition
    return PartitionKeys(parts, schema, type, open_schema, "")


@st.composite
def columns(draw: Any, kind: str, rows: int) -> tuple[list[Any], pa.Array]:
    """Values of a kind and a column of them: of any type, encoded or not, alone or within a larger one."""
    type, pool = draw(st.sampled_from(KINDS[kind][1]))
    values = draw(st.lists(st.one_of(st.none(), st.sampled_from(pool)), min_size=rows, max_size=rows))
    before = draw(st.sampled_from([0, 0, 3]))
    column = pa.array([*pool[:before], *values, *pool[:before]], type)
    if draw(st.booleans()) and type not in (pa.string_view(), pa.float16()):
        column = column.dictionary_encode()
    return values, column.slice(min(before, len(pool)), rows)


def key_of(row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    return None if any(v is None or v != v for v in row) else row


@given(st.data())
def test_numbers_are_those_of_a_dict(data: Any) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    names = [f"k{i}" for i in range(len(kinds))]
    schema = pa.schema([(n, KINDS[kind][0]) for n, kind in zip(names, kinds, strict=True)])
    keys = partition_keys(", ".join(names), schema, open_schema=True)
    numbers: dict[tuple[Any, ...], int] = {}
    free: set[int] = set()
    count = 0
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.integers(0, 12))
        drawn = [data.draw(columns(kind, rows)) for kind in kinds]
        batch = pa.record_batch([column for _, column in drawn], names=names)
        given_again = []
        for row, number in zip(zip(*(v for v, _ in drawn), strict=True), keys.numbers(batch, 0, [None]), strict=True):
            key = key_of(row)
            if key is None:
                assert number == -1
            elif key not in numbers:
                assert number not in numbers.values()
                if number in free:
                    given_again.append(int(number))
                    free.remove(number)
                else:
                    assert number >= count
                numbers[key] = int(number)
            assert key is None or numbers[key] == number
        count = len(numbers) + len(free)
        assert sorted(keys.reused) == sorted(given_again)
        keys.reused = []
        if data.draw(st.booleans()) and numbers:
            gone = data.draw(st.lists(st.sampled_from([*numbers.values(), *free, count + 5])))
            keys.release(gone)
            free |= set(gone) & set(numbers.values())
            numbers = {key: n for key, n in numbers.items() if n not in free}
        if data.draw(st.booleans()):
            state, used = keys.state(), keys.used.tolist()
            assert used == sorted(numbers.values())
            keys = partition_keys(", ".join(names), schema, open_schema=True)
            keys.restore(state, len(used))
            numbers = {key: used.index(number) for key, number in numbers.items()}
            free, count = set(), len(numbers)
        assert (len(keys), keys.known) == (count, len(numbers))
        if numbers:
            shown = keys.key_columns(list(numbers.values())).to_pylist()
            for key, row in zip(numbers, shown, strict=True):
                for kind, value, found in zip(kinds, key, row.values(), strict=True):
                    assert found == (float(value) if kind == "number" else value)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_values_are_one_key_however_they_are_stored(kind: str) -> None:
    shown, types = KINDS[kind]
    keys = partition_keys("k", pa.schema([("k", shown)]), open_schema=True)
    numbers: dict[Any, int] = {}
    for type, pool in types:
        for values in (pool, *([value] for value in pool)):  # one by one, long decimals do not decide for all
            found = keys.numbers(pa.record_batch([pa.array(values, type)], names=["k"]), 0, [None]).tolist()
            for value, number in zip(values, found, strict=True):
                assert number == (-1 if value != value else numbers.setdefault(value, number))
    assert sorted(numbers.values()) == list(range(len(keys)))


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_shown_in_their_own_type(kind: str) -> None:
    for type, pool in KINDS[kind][1]:
        wanted = [v for v in pool if v == v]
        batch = pa.record_batch([pa.array(wanted, type)], names=["k"])
        keys = partition_keys("k", batch.schema)
        numbers = keys.numbers(batch, 0, [None])
        (shown,) = keys.key_columns(numbers).columns
        assert shown.type == type
        assert shown.to_pylist() == batch.column(0).to_pylist()


@given(st.data())
def test_a_part_takes_what_the_types_say(data: Any) -> None:
    some = st.sampled_from([None, 0, 1, 2])
    rows = data.draw(st.lists(st.tuples(st.sampled_from(["A", "B", "C", None]), some, some, some, some), max_size=12))
    kind, a, b, c, d = zip(*rows, strict=True) if rows else ((),) * 5
    types = pa.array(kind, pa.string())
    batch = pa.record_batch(
        {
            "type": types.dictionary_encode() if data.draw(st.booleans()) else types,
            "a": pa.array(a, pa.int64()),
            "b": pa.array(b, pa.float64()),
            "c": pa.array([None if v is None else LONG + str(v) for v in c], pa.string()),
            "d": pa.array([None if v is None else LONG + str(v) for v in d], pa.string()).dictionary_encode(),
        }
    )
    keys = partition_keys("[A.a, B.b], [c, d]", batch.schema, type="type")
    numbers: dict[tuple[Any, ...], int] = {}
    for row, number in zip(rows, keys.numbers(batch, 0, [None]).tolist(), strict=True):
        first = {"A": row[1], "B": row[2]}.get(row[0])
        if first is None or row[3] is None or row[3] != row[4]:
            assert number == -1
        else:
            assert numbers.setdefault((first, row[3]), number) == number
    assert sorted(numbers.values()) == list(range(len(keys)))


def test_a_column_that_comes_late_is_shown_as_text() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B PARTITION BY k").recognizer()
    list(recognizer.feed({"type": "A"}))
    for value, text in [(DAY, "2024-05-01 00:00:00.000000")]:
        list(recognizer.feed({"type": "A", "k": value}))
        assert [m.partition for m in recognizer.feed({"type": "B", "k": value})] == [{"k": text}]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_very_many_keys(kind: pa.DataType) -> None:
    """More than fit in the caches, and enough for some to have equal hashes."""
    count = 5_000 if numba.config.DISABLE_JIT else 300_000
    ids = np.random.default_rng(1).permutation(np.repeat(np.arange(count), 2))
    keys = partition_keys("k", pa.schema([("k", kind)]))
    column = pa.array(ids).cast(kind)
    pieces = [
        keys.numbers(pa.record_batch([column.slice(i, 20_000)], names=["k"]), 0, [None])
        for i in range(0, len(ids), 20_000)
    ]
    assert len(keys) == count
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    numbers = np.concatenate(pieces)
    assert (numbers[first][inverse] == numbers).all()
    assert len(np.unique(numbers)) == count


def test_released_keys_give_their_memory_back() -> None:
    count = 3_000 if numba.config.DISABLE_JIT else 50_000
    texts = pa.array([f"{LONG}{i}" for i in range(count)])
    keys = partition_keys("k", pa.schema([("k", pa.string())]))
    numbers = keys.numbers(pa.record_batch([texts], names=["k"]), 0, [None])
    full = sum(array.nbytes for array in keys._numbering.table)
    keys.release(numbers[10:])
    assert sum(array.nbytes for array in keys._numbering.table) < full / 4
    again = pa.record_batch([pa.array([f"{LONG}{i}" for i in [*range(10), *range(count, count + 1000)]])], names=["k"])
    found = keys.numbers(again, 0, [None])
    assert found[:10].tolist() == numbers[:10].tolist()
    assert keys.reused == found[10:].tolist() == list(range(10, 1010))
    assert keys.key_columns(found).column(0).equals(again.column(0))
    assert len(keys) == count
    assert sum(array.nbytes for array in keys._numbering.table) < full / 2


CASES: list[dict[str, Any]] = tomllib.loads((Path(__file__).parents[1] / "snapshots.toml").read_text())["case"]


def fed(recognizer: ceql.Recognizer, case: dict[str, Any], part: str) -> list[Any]:
    """The matches of one part of a case."""
    events = case[part]
    if "columns" in case:
        schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in case["columns"].items()])
        events = [pa.table([pa.array(c, f.type) for c, f in zip(zip(*events), schema)], schema=schema)]  # noqa: B905
    return [(m.events, m.partition) for piece in events for m in recognizer.feed(piece)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_snapshots_go_on(case: dict[str, Any]) -> None:
    query = ceql.compile(case["query"])
    whole = query.recognizer(**case.get("options", {}))
    fed(whole, case, "before")
    restored = query.restore(whole.snapshot())
    found = [fed(r, case, "after") + [(m.events, m.partition) for m in r.finish()] for r in (whole, restored)]
    assert found[0]
    assert found[0] == found[1]


@pytest.mark.parametrize("blob", [b"CEQL of the first versions", snapshot.sealed(snapshot.VERSION - 1, [b"{}"])])
def test_snapshots_of_earlier_versions_are_refused(blob: bytes) -> None:
    with pytest.raises(ceql.DataError, match="finish the stream with the version that took it, or start anew"):
        ceql.compile(CASES[0]["query"]).restore(blob)
