"""Ids of matches are the same on Spark, in batch and streaming, in any session time zone, and in process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import ceql
from ceql.spark import end_of_input, match, result_schema
from test_library import setting
from test_restart import START, Stream, some

QUERIES = {
    "pair": "SELECT a, b WHERE A AS a ; B AS b PARTITION BY k WITHIN 50 MILLISECONDS",
    "projected": "SELECT a[id], b[k] WHERE A AS a ; B AS b FILTER a.k = b.k WITHIN 9 MILLISECONDS",
    "keyless": "SELECT * WHERE A AS a : B AS b WITHIN 4 MILLISECONDS",
}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    made = Stream(spark, tmp_path)
    numbers = iter(range(100))
    made.add(*(some(numbers, begin) for begin in (0, 30, 34, 60)))
    return made


def rows(stream: Stream) -> pa.Table:
    """The events as a table for one process, in Spark's own order of ties."""
    events = sorted(stream.events, key=lambda e: (e[1], e[3]))
    table = pa.table({
        "type": [e[0] for e in events],
        "time": pa.array([(START + e[1]) * 1000 for e in events], pa.timestamp("us", "UTC")),
        "k": [e[2] for e in events], "id": pa.array([e[3] for e in events], pa.int32()),
    })  # fmt: skip
    return table


@pytest.mark.parametrize("id", [None, "id"])
def test_ids_are_the_same_everywhere(stream: Stream, id: str | None) -> None:
    table = rows(stream)
    frame = stream.spark.read.parquet(str(stream.folder / "source"))
    options: dict[str, Any] = {"order_by": "id", "match_id": "alert", "id": id}
    for query in QUERIES.values():
        expected = sorted(ceql.match(query, table).with_ids(id)["match_id"].to_pylist())
        assert expected
        for zone in ("UTC", "America/New_York"):
            with setting(stream.spark, "spark.sql.session.timeZone", zone):
                found = match(frame, query, **options)
                assert found.columns[0] == "alert"
                assert found.schema.fields == result_schema(frame, query, match_id="alert").fields
                assert sorted(row.alert for row in found.collect()) == expected
    flat = match(frame, QUERIES["pair"], events="columns", **options)
    expected = sorted(ceql.match(QUERIES["pair"], table).with_ids(id)["match_id"].to_pylist())
    assert sorted(row.alert for row in flat.collect()) == expected


@pytest.mark.parametrize("events", ["rows", "ids"])
def test_ids_of_a_set_in_a_stream(stream: Stream, events: str) -> None:
    matches = ceql.compile_all(QUERIES).run(rows(stream))
    expected = sorted((name, one) for name in QUERIES for one in matches[name].with_ids("id")["match_id"].to_pylist())
    options: dict[str, Any] = {"order_by": "id", "match_id": "alert", "id": "id", "events": events}
    frame = stream.spark.read.parquet(str(stream.folder / "source"))
    batch = match(frame, QUERIES, **options).collect()
    assert sorted((row.query, row.alert) for row in batch) == expected
    found = stream.run(match(stream.read(), QUERIES, buckets=3, late="late", **options)).rows
    rest = end_of_input(stream.read(), QUERIES, str(stream.folder / "checkpoint"), **options).collect()
    assert sorted((row.query, row.alert) for row in found + rest) == expected


def test_names_that_are_taken(stream: Stream) -> None:
    frame = stream.read()
    for query, name in ((QUERIES["pair"], "A"), (QUERIES, "Query")):
        with pytest.raises(ceql.SchemaError, match=f"match_id='{name}' is already a column"):
            match(frame, query, match_id=name)
    with pytest.raises(ceql.SchemaError, match=r"no column 'idd'.*id="):
        match(frame, QUERIES["pair"], match_id="m", id="idd")
    with pytest.raises(ceql.ArgumentError, match="match_id= is the name"):
        match(frame, QUERIES["pair"], match_id=True)  # type: ignore[arg-type]
