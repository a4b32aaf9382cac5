"""Times as ISO 8601 text, Python datetimes and dates: they work in frames and dicts as they do in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ceql

QUERY = "SELECT * WHERE A AS a ; B AS b WITHIN 1 HOUR"
TYPES = list("ABBA")
MOMENTS = [
    datetime(2024, 1, 1, 10),
    datetime(2024, 1, 1, 12),
    datetime(2024, 1, 1, 10, 30),
    datetime(2024, 1, 1, 11, 59),
]
EXPECTED = [(0, 2), (3, 1)]
TEXTS = {
    "seconds": [moment.isoformat() for moment in MOMENTS],
    "a space": [moment.isoformat(" ") for moment in MOMENTS],
    "minutes": [f"{moment:%Y-%m-%d %H:%M}" for moment in MOMENTS],
    "fractions": [f"{moment.isoformat()}.123456789" for moment in MOMENTS],
    "UTC": [f"{moment.isoformat()}Z" for moment in MOMENTS],
    "many zones": [(moment + timedelta(hours=k)).isoformat() + f"+0{k}:00" for k, moment in enumerate(MOMENTS)],
}


def rows(times: list[Any]) -> list[dict[str, Any]]:
    return [{"type": type, "time": time} for type, time in zip(TYPES, times, strict=True)]


INPUTS: dict[str, Callable[[list[Any]], Any]] = {
    "dicts": rows,
    "generator": lambda times: iter(rows(times)),
    "table": lambda times: pa.table({"type": TYPES, "time": times}),
    "reader": lambda times: pa.table({"type": TYPES, "time": times}).to_reader(max_chunksize=1),
    "categories": lambda times: pa.table({"type": TYPES, "time": pa.array(times).dictionary_encode()}),
    "pandas": lambda times: pd.DataFrame(rows(times)),
    "pandas, as objects": lambda times: pd.DataFrame({"type": TYPES, "time": pd.Series(times, dtype=object)}),
    "polars": lambda times: pl.DataFrame(rows(times)),
    "polars lazy": lambda times: pl.DataFrame(rows(times)).lazy(),
}


def found(events: Any, query: str = QUERY, **options: Any) -> list[tuple[int, ...]]:
    if not hasattr(events, "__len__"):
        options.setdefault("lateness", "3 hours")  # a stream, and not in order
    return [m.events for m in ceql.match(query, events, **options)]


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize("kind", INPUTS)
def test_text(form: str, kind: str) -> None:
    events = INPUTS[kind](TEXTS[form])
    # a stream that can be read only once is numbered as it is put in order
    in_time = kind in ("generator", "reader")
    assert found(events) == ([(0, 1), (2, 3)] if in_time else EXPECTED)


@pytest.mark.parametrize("form", TEXTS)
def test_text_that_is_fed(form: str) -> None:
    compiled = ceql.compile(QUERY)
    recognizer = compiled.recognizer(lateness="2 hours")
    matches = []
    for row in rows(TEXTS[form]):
        recognizer = compiled.restore(recognizer.snapshot())
        matches += [m.events for m in recognizer.feed(row)]
    matches += [m.events for m in recognizer.finish()]
    assert matches == [(0, 1), (2, 3)]


@pytest.mark.parametrize("form", TEXTS)
def test_text_in_a_file(form: str, tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(TEXTS[form])))
    assert found(path, lateness=0) == EXPECTED


@pytest.mark.parametrize("kind", INPUTS)
def test_python_datetimes(kind: str) -> None:
    for times in (MOMENTS, [moment.replace(tzinfo=UTC) for moment in MOMENTS]):
        in_time = kind in ("generator", "reader")
        assert found(INPUTS[kind](times)) == ([(0, 1), (2, 3)] if in_time else EXPECTED)


def test_python_dates() -> None:
    days = [date(2024, 1, day) for day in (1, 5, 2, 4)]
    query = QUERY.replace("1 HOUR", "1 DAY")
    for kind in ("dicts", "table", "pandas", "polars"):
        assert found(INPUTS[kind](days), query) == EXPECTED
    assert found(rows([day.isoformat() for day in days]), query) == EXPECTED


def test_times_of_several_streams_and_of_another_name() -> None:
    table = pa.table({"at": TEXTS["UTC"], "type": TYPES})
    assert found(table, time="at") == EXPECTED
    assert found({"S": table, "T": table}, "SELECT * FROM S, T WHERE S>A : T>A", time="at")


def test_the_result_has_times_and_filters_compare_them() -> None:
    matches = ceql.match(QUERY, rows(TEXTS["UTC"]))
    assert matches.to_arrow().schema.field("end_time").type == pa.timestamp("ns", "UTC")
    late = "SELECT * WHERE A AS a FILTER a[time > '2024-01-01T11:00:00Z']"
    assert found(rows(TEXTS["UTC"]), late) == [(3,)]
    assert "2024-01-01" in str(ceql.compile(QUERY.replace("1 HOUR", "1 SECOND")).diagnose(rows(TEXTS["UTC"])))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["2024-01-01", "2024-01-02", "yesterday", "2024-01-03"], r"event 2 of the stream has the time 'yesterday'"),
        (
            ["2024-01-01T10:00:00Z", "2024-01-01T11:00:00", "2024-01-02T10:00:00Z", "2024-01-03T10:00:00Z"],
            r"event 1 of the stream has the time '2024-01-01T11:00:00' in column 'time'; .* with a zone",
        ),
        (["1", "2", "3", "4"], r"event 0 of the stream has the time '1'"),
        (["2024-01-01", None, "2024-01-02", "2024-01-03"], r"event 1 of the stream has no time"),
    ],
)
@pytest.mark.parametrize("kind", ["dicts", "table", "pandas", "polars", "polars lazy", "reader"])
def test_texts_that_are_no_times(kind: str, texts: list[Any], message: str) -> None:
    with pytest.raises(ceql.DataError, match=message):
        found(INPUTS[kind](texts))


def test_later_times_with_a_zone() -> None:
    times = iter(rows(["2024-01-01T10:00:00", "2024-01-01T11:00:00", "2024-01-01T12:00:00", "2024-01-01T13:00:00Z"]))
    with pytest.raises(ceql.DataError, match=r"event 3 .* without a zone"):
        found(times, batch_rows=1)


def test_values_that_arrow_would_change() -> None:
    zoned = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    with pytest.raises(ceql.DataError, match="'time' mixes times with a zone and without"):
        found(rows([MOMENTS[0], zoned, zoned, zoned]))
    with pytest.raises(ceql.DataError, match="'time' mixes values of types date and datetime"):
        found(rows([date(2024, 1, 1), MOMENTS[0], MOMENTS[1], MOMENTS[2]]))


def test_a_column_that_is_no_time() -> None:
    table = pa.table({"type": TYPES, "time": [True] * 4})
    with pytest.raises(ceql.SchemaError, match="time column 'time' is bool, which is no time"):
        found(table)
    assert found(pa.table({"type": pa.array([], pa.string()), "time": pa.array([], pa.string())})) == []
