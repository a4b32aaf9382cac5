"""What a Spark library offers besides results: other shapes of them, their types beforehand, metrics, logs, errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType, TimestampType

import ceql
from ceql.errors import CeqlError, DataError, ResourceError
from ceql.spark import errors, match, match_id, matcher, matches_to_rows, result_schema
from ceql.spark.task_report import reported
from ceql.spark.worker_errors import raised_in_task

BEGIN = datetime(2026, 1, 1)
# kind, seconds, key, value
EVENTS = [("A", 0, "x", 1), ("B", 1, "x", 2), ("A", 2, "y", 3), ("B", 3, "x", 4), ("C", 4, "x", 5), ("D", 5, "y", 6)]
SCHEMA = "type string, time timestamp, k string, v long"
QUERY = "SELECT a, b[v], c[k], SUM(b.v) AS total WHERE A AS a ; B+ AS b ; C AS c PARTITION BY k WITHIN 1 MINUTE"


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    rows = [(kind, BEGIN + timedelta(seconds=s), k, v) for kind, s, k, v in EVENTS]
    return spark.createDataFrame(rows, SCHEMA)


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def at(second: int) -> datetime:
    return BEGIN + timedelta(seconds=second)


def test_a_flat_result_has_a_column_for_each_attribute(events: DataFrame) -> None:
    result = match(events, QUERY, events="columns")
    names = ["k", "start_time", "end_time", "a_type", "a_time", "a_k", "a_v", "b", "c_k", "total"]
    assert result.columns == names
    rows = sorted(tuple(row) for row in result.collect())
    first = ("x", at(0), at(4), "A", at(0), "x", 1)
    found = [([(2,)], 2), ([(2,), (4,)], 6), ([(4,)], 4)]
    assert rows == [(*first, [tuple(v) for v in b], "x", total) for b, total in found]


def test_variables_that_a_match_may_lack_are_null_in_a_flat_result(events: DataFrame) -> None:
    result = match(events, "SELECT * WHERE (C AS c OR D AS d)", events="columns")
    assert sorted((row.c_v, row.d_v) for row in result.collect() if row.c_v) == [(5, None)]
    assert [(row.c_v, row.d_v) for row in result.collect() if row.d_v] == [(None, 6)]
    assert "c_v" in result.columns
    assert "C_v" not in result.columns  # the same events under a lesser name


def test_matches_as_rows_of_events(events: DataFrame) -> None:
    chained = events.transform(matcher("SELECT a, b[v] WHERE A AS a ; B+ AS b PARTITION BY k WITHIN 1 MINUTE"))
    rows = chained.transform(matches_to_rows)
    assert rows.columns == ["match", "variable", "place", "k", "start_time", "end_time", "type", "time", "k_", "v"]
    by_match: dict[int, list[Any]] = {}
    for row in rows.collect():
        by_match.setdefault(row.match, []).append((row.variable, row.place, row.type, row.v))
        assert (row.k, row.start_time) == ("x", at(0))
    assert sorted(map(sorted, by_match.values())) == [
        [("a", 0, "A", 1), ("b", 0, None, 2)],
        [("a", 0, "A", 1), ("b", 0, None, 2), ("b", 1, None, 4)],
        [("a", 0, "A", 1), ("b", 0, None, 4)],
    ]
    ids = match(events, "SELECT a, COUNT(b) AS n WHERE A AS a ; B+ AS b PARTITION BY k", events="ids", id="v")
    assert sorted((row.id, row.n) for row in matches_to_rows(ids).collect()) == [(1, 1), (1, 1), (1, 2)]
    distinct = matches_to_rows(match(events, "SELECT DISTINCT * WHERE C OR D"))
    assert sorted((row.variable, row.v) for row in distinct.collect()) == [(None, 5), (None, 6)]
    with pytest.raises(ceql.ArgumentError, match="events='rows' or 'ids'"):
        matches_to_rows(match(events, QUERY, events="columns"))


def test_different_matches_have_different_ids_in_every_session(spark: SparkSession) -> None:
    # they differ in a microsecond, in which attribute is NULL, or in an hour that two zones' clocks show alike
    schema = "type string, time timestamp, a int, b int, local timestamp_ntz, price double"
    midnight = datetime(2026, 10, 25, 0, 30)
    rows = [
        ("A", midnight, 7, None, BEGIN, 0.1),
        ("A", midnight, None, 7, BEGIN, 0.1),
        ("A", midnight + timedelta(microseconds=1), 7, None, BEGIN, 0.1),
        ("A", midnight, 7, None, BEGIN + timedelta(microseconds=1), 0.1),
        ("A", midnight, 7, None, BEGIN, 0.1 + 2**-56),
        ("A", midnight + timedelta(hours=2), 7, None, BEGIN, 0.1),
        ("A", midnight + timedelta(hours=3), 7, None, BEGIN, 0.1),
    ]
    events = spark.createDataFrame(rows, schema).withColumn(
        "time",
        F.timestamp_micros(F.unix_micros("time") - F.lit(3_600_000_000)),  # over the end of summer time
    )
    query = "SELECT x, START_TIME - END_TIME AS d WHERE A AS x"
    for shape in ("rows", "columns"):
        by_zone = []
        for zone in ("Europe/Paris", "UTC", "America/New_York"):
            with setting(spark, "spark.sql.session.timeZone", zone):
                found = match(events, query, events=shape)
                by_zone.append(sorted(row.id for row in found.select(match_id(found).alias("id")).collect()))
        assert len(set(by_zone[0])) == len(rows)
        assert by_zone[0] == by_zone[1] == by_zone[2]
        assert all(re.fullmatch("[0-9a-f]{32}", id) for id in by_zone[0])
    assert matches_to_rows(match(events, query)).select("match").distinct().count() == len(rows)
    together = match(events, {"one": query, "two": query})
    assert together.select(match_id(together)).distinct().count() == 2 * len(rows)


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        "SELECT * WHERE A ; B+ AS events",
        "SELECT DISTINCT * WHERE A",
        "SELECT a[v], DURATION, a.time AS t WHERE A AS a ; B",
        "SELECT a.v WHERE A AS a",
        "SELECT * FROM S WHERE S>A AS a ; S>B PARTITION BY k",
    ],
)
def test_the_types_of_a_result_are_known_beforehand(events: DataFrame, query: str) -> None:
    for shape in ({"events": "rows"}, {"events": "ids", "id": "v"}, {"events": "columns"}):
        result: Any = match(events, query, **shape)  # type: ignore[arg-type]
        assert result_schema(events.schema, query, **shape) == result.schema  # type: ignore[arg-type]
        assert result_schema(events, ceql.compile(query), **shape) == result.schema  # type: ignore[arg-type]


def test_types_of_nested_fields_and_of_several_streams(spark: SparkSession) -> None:
    inner = StructType([StructField("path", StringType())])
    columns = StructType([StructField("type", StringType()), StructField("time", TimestampType())])
    nested = StructType([*columns.fields, StructField("ctx", inner)])
    wide = StructType([*columns.fields, StructField("n", LongType())])
    query = "SELECT a, b[n] FROM S, T WHERE S>A AS a ; T>B AS b FILTER a[ctx.path = '/']"
    found = result_schema({"S": nested, "T": wide}, query)
    frames = {"S": spark.createDataFrame([], nested), "T": spark.createDataFrame([], wide)}
    assert found == match(frames, query).schema
    assert found["b"].dataType == ArrayType(StructType([StructField("n", LongType())]))
    assert isinstance(found["a"].dataType, ArrayType)
    assert isinstance(found["a"].dataType.elementType, StructType)
    assert found["a"].dataType.elementType["ctx.path"].dataType == StringType()
    with pytest.raises(ceql.SchemaError, match="no column 'm'"):
        result_schema(wide, "SELECT a[m] WHERE A AS a")


# --- metrics and logs ---


def test_a_batch_is_observed(events: DataFrame) -> None:
    seen = Observation("seen")
    result = match(events, "SELECT * WHERE A ; B PARTITION BY k", observe=seen)
    assert result.columns == match(events, "SELECT * WHERE A ; B PARTITION BY k").columns
    assert result.count() == 2
    found = seen.get
    assert found.pop("compiling_ms") >= 0
    assert found == {"matches": 2, "shipped": 4, "relevant": 4, "groups": 2}


def test_a_task_says_what_it_did(caplog: pytest.LogCaptureFixture) -> None:
    def task(batches: Any) -> Any:
        for batch in batches:
            yield batch.slice(1)

    two = pa.record_batch({"x": [1, 2]})
    quiet = reported("quiet", task)
    with caplog.at_level(logging.INFO, logger="ceql"):
        loud = reported("loud", task)
        assert sum(batch.num_rows for batch in loud([two, two])) == 2
        list(quiet([two]))  # the driver did not ask for it when it was made
    (line,) = caplog.messages
    assert line.startswith("loud, outside a task: 4 rows in, 2 rows out, ")


# --- errors ---


def test_errors_of_tasks_are_those_of_ceql(spark: SparkSession) -> None:
    tied = spark.createDataFrame([("A", at(0)), ("B", at(0))], "type string, time timestamp")
    result = match(tied, "SELECT * WHERE A ; B")
    with pytest.raises(PythonException) as plain:
        result.collect()
    first, second, *_ = str(plain.value).strip().split("\n")
    assert first.startswith("An exception was thrown from the Python worker")
    assert second.startswith("ceql.errors.DataError: two events of one substream have the same time")
    assert "Traceback" not in str(plain.value)

    @errors()
    def run() -> None:
        result.collect()

    with pytest.raises(
        DataError, match=r"^two events of one substream have the same time .* tell such events apart"
    ) as e:
        run()
    assert isinstance(e.value.__cause__, PythonException)


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(PySparkException, match="something else"), errors():
        raise PySparkException("something else")
    with pytest.raises(KeyError), errors():
        raise KeyError("k")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("ceql.errors.DataError: a\nb\n\nJVM stacktrace:\n\tat x", DataError, "a\nb"),
        ("[X] Job aborted\n  File x\nceql.errors.DataError: what\n\tat org.apache", DataError, "what"),
        ("ceql.errors.DataError: what\n=== Streaming Query ===\nId", DataError, "what"),
        ("ceql.errors.DataError: what SQLSTATE: 38000", DataError, "what"),
        (
            "[PYTHON_EXCEPTION] thrown from the Python worker: ceql.errors.DataError: what\n SQLSTATE: 1",
            DataError,
            "what",
        ),
        ("ceql.errors.ResourceError: memory=9 is too little", ResourceError, "memory=9 is too little"),
        ("ceql.errors.Gone: what", CeqlError, "what"),
    ],
)
def test_what_is_raised_is_found_in_the_text(text: str, kind: type, message: str) -> None:
    found = raised_in_task(text)
    assert type(found) is kind
    assert str(found) == message
    assert raised_in_task("ValueError: no error of ceql's") is None
