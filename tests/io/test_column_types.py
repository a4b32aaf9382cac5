"""Columns of every Arrow type on every path: each works like a plain one of the same values, or is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest

import ceql
from ceql.io.plain_types import plain, plain_type

TEXTS = ["x", "y", "x", None, "y", "x"]
NUMBERS = [1, 2, 1, None, 2, 1]
TIMES = [number and datetime(2024, 1, number) for number in NUMBERS]
LISTS: list[Any] = [text and [text] for text in TEXTS]


def in_runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), values)


def in_dictionary(values: pa.Array, codes: pa.DataType | None = None) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None, 1, 0], codes or pa.int8()), values.slice(0, 2))


def layouts(values: list[Any], *types: pa.DataType) -> dict[str, pa.Array]:
    made = {}
    for type in types:
        # pyarrow 19 makes float16 of nothing else
        given = [value and np.float16(value) for value in values] if type == pa.float16() else values
        column = pa.array(given, type)
        made[str(type)] = column
        made[f"dictionary of {type}"] = in_dictionary(column)
        made[f"runs of {type}"] = in_runs(column)
        made[f"runs of a dictionary of {type}"] = in_runs(in_dictionary(column, pa.uint32()))
        made[f"dictionary of runs of {type}"] = in_dictionary(in_runs(column))
    return made


TEXT = layouts(TEXTS, pa.string(), pa.large_string(), pa.string_view())
TEXT["json"] = pa.ExtensionArray.from_storage(pa.json_(), pa.array(TEXTS))
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
DECIMALS = [pa.decimal32(5, 1), pa.decimal64(10, 2), pa.decimal128(20, 2), pa.decimal256(40, 2)]
NUMBER = layouts(NUMBERS, *INTEGERS, pa.float16(), pa.float32(), pa.float64())
NUMBER |= layouts([number and Decimal(number) for number in NUMBERS], *DECIMALS)
TIME = layouts(TIMES, pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.date32(), pa.date64())
TIME |= layouts([number and number * 10**6 for number in NUMBERS], pa.duration("ns"), pa.time64("us"))
BINARY = layouts(
    [text and text.encode() * 2 for text in TEXTS], pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)
)
COMPARABLE = {**TEXT, **NUMBER, **TIME, **BINARY}
NESTED = {
    str(type): pa.array(LISTS, type)
    for type in (
        *(pa.list_(pa.string()), pa.list_(pa.string_view()), pa.large_list(pa.string()), pa.list_(pa.string(), 1)),
        *(pa.list_(pa.string_view(), 1), pa.list_view(pa.string()), pa.large_list_view(pa.string_view())),
    )
}
NESTED |= {
    "lists of list views": pa.array([one and [one] for one in LISTS], pa.list_(pa.list_view(pa.string_view()))),
    "lists of runs": pa.ListArray.from_arrays([0, 1, 2, 3, 4, 5, 6], TEXT["runs of string"]),
    "struct": pa.array([text and {"f": text} for text in TEXTS], pa.struct([("f", pa.string())])),
    "struct of views": pa.array([text and {"f": text} for text in TEXTS], pa.struct([("f", pa.string_view())])),
    "struct of runs": pa.StructArray.from_arrays([TEXT["runs of string"]], ["f"]),
    "map": pa.array([text and [(text, 1)] for text in TEXTS], pa.map_(pa.string(), pa.int64())),
    "map of views": pa.array([text and [(text, 1)] for text in TEXTS], pa.map_(pa.string_view(), pa.int64())),
    "union": pa.UnionArray.from_sparse(pa.array([0, 1] * 3, pa.int8()), [pa.array(NUMBERS), pa.array(TEXTS)]),
    "interval": pa.array([number and (0, number, 0) for number in NUMBERS], pa.month_day_nano_interval()),
}
ORDERED = {**NUMBER, **TIME}
SHOWN = {**COMPARABLE, **NESTED, "null": pa.nulls(6)}
FILTERS = {
    "SELECT * WHERE A AS a FILTER a[v IS NOT NULL]": [(0,), (2,), (4,)],
    "SELECT * WHERE A AS a FILTER a[v = v]": [(0,), (2,), (4,)],
}
JOINS = {
    "SELECT * WHERE A ; B PARTITION BY [v]": [(2, 5), (0, 5)],
    "SELECT * WHERE A AS a ; B AS b FILTER a.v = b.v": [(2, 5), (0, 5)],
    "SELECT * WHERE A AS a ALL B AS b FILTER a.v = b.v": [(1, 4), (2, 5), (0, 5)],
    "SELECT * WHERE A AS a ; B AS b FILTER a.v != b.v": [(0, 1), (4, 5)],
    "SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v": [(0, 1)],
    "SELECT * WHERE A AS a ; B AS b FILTER b[v = PREV.v]": [(2, 5), (0, 5)],
}
LITERALS = [(TEXT, "= 'x'"), (TEXT, "LIKE 'x%'"), (TEXT, "<= 'x'"), (NUMBER, "= 1"), (NUMBER, "< 1.5")]


def events(column: pa.Array) -> pa.Table:
    return pa.table({"type": list("ABABAB"), "v": column, "n": range(6)})


def found(query: str, data: Any, **options: Any) -> list[tuple[int, ...]]:
    return [m.events for m in ceql.match(query, data, **options)]


def fed(query: str, pieces: list[Any]) -> list[tuple[int, ...]]:
    """The matches of a recogniser that is restored from a snapshot before each piece."""
    compiled = ceql.compile(query)
    recognizer = compiled.recognizer()
    result = []
    for piece in pieces:
        recognizer = compiled.restore(recognizer.snapshot())
        result += [m.events for m in recognizer.feed(piece)]
    return result


@pytest.mark.parametrize("name", COMPARABLE)
def test_columns_that_can_be_compared(name: str) -> None:
    data = events(COMPARABLE[name])
    for query, expected in {**FILTERS, **JOINS}.items():
        assert found(query, data) == expected, query
        assert fed(query, [data.slice(k, 2) for k in range(0, 6, 2)]) == expected, query


@pytest.mark.parametrize("kind", range(len(LITERALS)))
def test_columns_that_are_compared_with_a_literal(kind: int) -> None:
    columns, test = LITERALS[kind]
    for name, column in columns.items():
        assert found(f"SELECT * WHERE A AS a FILTER a[v {test}]", events(column)) == [(0,), (2,)], name


@pytest.mark.parametrize("name", ORDERED)
def test_columns_that_measure_a_window_or_have_the_time(name: str) -> None:
    data = events(ORDERED[name])
    assert (0, 1) not in found("SELECT * WHERE A ; B WITHIN 0 [v]", data)
    assert (0, 5) in found("SELECT * WHERE A ; B WITHIN 0 [v]", data)
    timed = data.slice(0, 3)  # of times 1, 2, 1
    matches = ceql.match("SELECT * WHERE A ; B", timed, time="v")
    assert [m.events for m in matches] == [(2, 1), (0, 1)]
    assert matches.to_arrow()["end_time"].to_pylist() == [plain(data["v"].chunk(0), "v")[1].as_py()] * 2


@pytest.mark.parametrize("name", TEXT)
def test_columns_of_types(name: str) -> None:
    assert found("SELECT * WHERE x ; y", events(TEXT[name]), type="v") == [(0, 1), (2, 4), (0, 4)]


@pytest.mark.parametrize("name", SHOWN)
def test_columns_that_are_shown(name: str) -> None:
    data = events(SHOWN[name])
    values = data["v"].to_pylist()
    for given in (data, data.to_reader(), data.to_batches(max_chunksize=2)):
        rows = ceql.match("SELECT * WHERE A : B", given).events()
        assert rows["v"].to_pylist() == values
    shown = ceql.match("SELECT a[v], b[n] WHERE A AS a : B AS b", data).events()
    if name != "union":  # has NULLs of its own kind
        assert shown["v"].to_pylist() == [values[0], None, values[2], None, values[4], None]
    backwards = data.set_column(2, "time", pa.array(range(6, 0, -1)))
    assert ceql.match("SELECT * WHERE B : A", backwards).events()["v"].to_pylist() == values[::-1]
    compiled = ceql.compile("SELECT * WHERE A ; B")
    recognizer = compiled.recognizer()
    recognizer.feed(data.slice(0, 5))
    rows = compiled.restore(recognizer.snapshot()).feed(data.slice(5)).events()
    assert rows["v"].to_pylist() == [values[row] for row in rows["position"].to_pylist()]


@pytest.mark.parametrize("name", NESTED)
def test_columns_that_cannot_be_compared_are_named(name: str) -> None:
    data = events(NESTED[name])
    window = "SELECT * WHERE A WITHIN 1 [v]"
    for query in [*JOINS, list(FILTERS)[1], window, "SELECT * WHERE A AS a FILTER a[v = 1]"]:
        with pytest.raises(ceql.SchemaError, match=r"column '(a\.)?v' \("):
            found(query, data)
    with pytest.raises(ceql.SchemaError, match=r"column 'v' is .* no time"):
        found("SELECT * WHERE A", data.slice(0, 1), time="v")
    with pytest.raises(ceql.SchemaError, match="type column 'v' must be text"):
        found("SELECT * WHERE A", data, type="v")


@pytest.mark.parametrize("query", JOINS)
def test_a_column_may_come_in_another_layout_each_time(query: str) -> None:
    for first, second in pairwise([*TEXT, *reversed(TEXT)]):
        pieces = [events(TEXT[first]).slice(0, 3), events(TEXT[second]).slice(3)]
        assert fed(query, pieces) == JOINS[query], (first, second)
        assert found(query, iter(pieces)) == JOINS[query], (first, second)
        assert found(query, pieces) == JOINS[query], (first, second)


def test_runs_and_lists_that_are_sliced() -> None:
    for name, column in {**COMPARABLE, **NESTED}.items():
        expected = column.to_pylist()[1:5]
        if name == "union":  # of which pyarrow 19 shows other values when it is sliced
            expected = column.slice(1, 4).to_pylist()
        made = plain(column.slice(1, 4), name)
        made.validate(full=True)
        assert made.type == plain_type(column.type), name
        assert made.to_pylist() == expected, name


def written(write: Callable[[Path], Any], path: Path) -> Path:
    write(path)
    return path


FRAME = pl.DataFrame({"type": list("ABABAB"), "v": TEXTS, "n": range(6)})
FRAMES = {
    "text": FRAME,
    "categories": FRAME.with_columns(pl.col("v").cast(pl.Categorical)),
    "enum": FRAME.with_columns(pl.col("v").cast(pl.Enum(["x", "y"]))),
    "bytes": FRAME.with_columns(pl.col("v").cast(pl.Binary)),
    "days": FRAME.with_columns(pl.Series("v", TIMES).cast(pl.Date)),
    "moments": FRAME.with_columns(pl.Series("v", TIMES)),
    "decimals": FRAME.with_columns(pl.Series("v", NUMBERS).cast(pl.Decimal(10, 2))),
}
WAYS: dict[str, Callable[[str, pl.DataFrame, Path], list[tuple[int, ...]]]] = {
    "eager": lambda query, frame, _: found(query, frame),
    "lazy": lambda query, frame, _: found(query, frame.lazy()),
    "fed": lambda query, frame, _: fed(query, [frame[:2], frame[2:5], frame[5:]]),
    "Arrow file": lambda query, frame, folder: found(query, written(frame.write_ipc, folder / "e.arrow")),
    "Parquet": lambda query, frame, folder: found(query, written(frame.write_parquet, folder / "e.parquet")),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("way", WAYS)
def test_polars(way: str, name: str, tmp_path: Path) -> None:
    for query, expected in JOINS.items():
        assert WAYS[way](query, FRAMES[name], tmp_path) == expected, query
    assert ceql.match("SELECT * WHERE A : B", FRAMES[name]).to_polars(events="long")["n"].to_list() == list(range(6))
