"""Measures are columns of a Spark result, beside the arrays of events, with the values that the engine gives.

So they are in batches, in streams and in SQL; and aggregates in FILTER choose the same matches.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import ceql
import ceql.spark

QUERY = """SELECT a, a.p, COUNT(b) AS n, AVG(b.p) - a.p AS d, FIRST(b.s) AS f, DURATION, UPPER(c.s) AS u
    WHERE A AS a ; B+ AS b ; C AS c FILTER c.time - a.time < 1 MINUTE AND ABS(b.p) > 0 WITHIN 1 HOUR"""
SUMS = QUERY.replace("ABS(b.p) > 0", "ABS(b.p) > 0 AND SUM(b.p) >= 3 AND DURATION > 5 SECONDS")
SILENCE = "SELECT b.p, COUNT(a) AS n, DURATION WHERE A+ AS a ; B AS b ; NOT C WITHIN 20 SECONDS"
BEGIN = datetime(2026, 1, 1)
EVENTS = [("A", 0, 1, "a"), ("B", 10, 2, "b"), ("B", 20, 3, "c"), ("C", 25, 4, "d"), ("C", 90, 5, "e")]
SCHEMA = "type string, time timestamp, p long, s string"
NAMES = ["a.p", "n", "d", "f", "DURATION", "u"]
LAPSE = timedelta(seconds=25)
FOUND = {(1, 1, 1.0, "b", LAPSE, "D"), (1, 1, 2.0, "c", LAPSE, "D"), (1, 2, 1.5, "b", LAPSE, "D")}
GREATER = {row for row in FOUND if row[2] != 1.0}


def events(spark: SparkSession) -> DataFrame:
    rows = [(kind, BEGIN + timedelta(seconds=s), p, text) for kind, s, p, text in EVENTS]
    return spark.createDataFrame(rows, SCHEMA)


def measures(frame: DataFrame, names: list[str] = NAMES) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in names) for row in frame.collect()}


def test_measures_are_columns_beside_the_arrays(spark: SparkSession) -> None:
    result = ceql.spark.match(events(spark), QUERY)
    assert result.columns == ["start_time", "end_time", "a", *NAMES, "events"]
    assert measures(result) == FOUND


def test_aggregates_in_filters(spark: SparkSession) -> None:
    assert measures(ceql.spark.match(events(spark), SUMS)) == GREATER


def test_the_sql_function_has_them(spark: SparkSession) -> None:
    events(spark).createOrReplaceTempView("measured_events")
    ceql.spark.register(spark)
    for query, wanted in ((QUERY, FOUND), (SUMS, GREATER)):
        text = "SELECT * FROM ceql_match(TABLE(measured_events), query => :query, whole_table => true)"
        assert measures(spark.sql(text, {"query": query})) == wanted


def test_streams_have_them(spark: SparkSession, tmp_path: Path) -> None:
    """Each file is a micro-batch, so that matches are made of events that a state has kept."""
    last = [("Z", 10_000, 0, "z")]  # moves the watermark on
    for k, (kind, s, p, text) in enumerate([*EVENTS, *last]):
        one = spark.createDataFrame([(kind, BEGIN + timedelta(seconds=s), p, text)], SCHEMA)
        one.coalesce(1).write.mode("append").parquet(str(tmp_path / "source" / f"{k}"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).option("recursiveFileLookup", "true")
    frame = stream.parquet(str(tmp_path / "source")).withWatermark("time", "1 second")
    for name, query, names, wanted in (
        ("sums", SUMS, NAMES, GREATER),
        ("silence", SILENCE, ["b.p", "n", "DURATION"], {(p, 1, timedelta(seconds=s)) for p, s in ((2, 10), (3, 20))}),
    ):
        found = ceql.spark.match(frame, query)
        running = (
            found.writeStream.format("memory").queryName(f"measured_{name}").outputMode("append")
            .option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start()
        )  # fmt: skip
        running.awaitTermination()
        assert measures(spark.table(f"measured_{name}"), names) == wanted


def test_further_aggregates_are_the_engines(spark: SparkSession) -> None:
    """In SELECT and in FILTER, and decimals keep their digits."""
    query = """SELECT COUNT(DISTINCT b.s) AS n, MEDIAN(b.p) AS m, PERCENTILE(b.p, 0.9) AS q, STDDEV(b.p) AS t,
            FIRST(b.p, 1) AS f, SUM(b.d) AS s, AVG(b.d) AS a, MEDIAN(b.d) AS h
        WHERE A ; B+ AS b ; C FILTER COUNT(DISTINCT b.s) >= 2 AND SUM(b.d) > 0.29 AND AVG(b.d) <= 0.15 WITHIN 1 HOUR"""
    texts = ["a", "b", "c", "b", "d"]
    frame = spark.createDataFrame(
        [
            (kind, BEGIN + timedelta(seconds=k), k * k, text, Decimal(k) / 20)
            for k, (kind, text) in enumerate(zip("ABBBC", texts, strict=True))
        ],
        "type string, time timestamp, p long, s string, d decimal(9, 2)",
    )
    found = ceql.spark.match(frame, query)
    types = {field.name: field.dataType.simpleString() for field in found.schema.fields}
    assert [types[name] for name in "nmqtfsah"] == [
        "bigint", "double", "double", "double", "bigint", "decimal(19,2)", "decimal(13,6)", "decimal(13,6)",
    ]  # fmt: skip
    wanted = ceql.match(query, frame.toArrow()).to_arrow()
    assert wanted.num_rows > 0
    assert measures(found, list("nmqtfsah")) == {tuple(row[name] for name in "nmqtfsah") for row in wanted.to_pylist()}
