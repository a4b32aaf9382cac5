"""MATCH_RECOGNIZE on Spark gives what it gives over frames, and Spark does what stands around it."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import ceql
import ceql.spark
from ceql.spark import row_patterns

V_SHAPE = """
    MATCH_RECOGNIZE (
      PARTITION BY symbol ORDER BY ts DESC
      MEASURES FIRST(ts) AS start, LAST(down.price) AS bottom, COUNT(*) AS n, CLASSIFIER() AS label
      {rows}
      PATTERN (begin down+ up+)
      DEFINE down AS price < PREV(price), up AS price > PREV(price))
"""


def prices(count: int) -> pa.Table:
    rnd = random.Random(count)
    symbols = ["a", "b", None, "long"]
    rows = [(rnd.choice(symbols), k, rnd.choice([None, 1, 2, 3, 4, 5])) for k in range(count)]
    rnd.shuffle(rows)
    return pa.table({name: [row[k] for row in rows] for k, name in enumerate(("symbol", "ts", "price"))})


def result(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
@pytest.mark.parametrize("at_once", [row_patterns.ROWS_AT_ONCE, 7])
def test_spark_gives_what_frames_give(
    spark: SparkSession, rows: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_patterns, "ROWS_AT_ONCE", at_once)
    table = prices(300)
    spark.createDataFrame(table).createOrReplaceTempView("prices")
    statement = "SELECT * FROM prices" + V_SHAPE.format(rows=rows)
    found = ceql.spark.sql(spark, statement)
    own = ceql.match_recognize(statement, table, dialect="spark")
    assert found.columns == own.column_names
    expected = [tuple(row.values()) for row in own.to_pylist()]
    assert result(found) == sorted(expected, key=repr)
    assert len(expected) > 10


def test_spark_does_what_is_around(spark: SparkSession) -> None:
    spark.createDataFrame(prices(300)).createOrReplaceTempView("prices")
    found = ceql.spark.sql(
        spark,
        "WITH some AS (SELECT * FROM prices WHERE price IS NOT NULL) "
        "SELECT m.symbol, count(*) AS n FROM some" + V_SHAPE.format(rows="") + " AS m "
        "JOIN (SELECT DISTINCT symbol FROM prices) AS p ON m.symbol = p.symbol WHERE m.n > 2 GROUP BY m.symbol",
    )
    assert found.columns == ["symbol", "n"]
    assert {row.symbol for row in found.collect()} == {"a", "b", "long"}


def test_all_that_is_wrong_is_said_before_a_job_runs(spark: SparkSession) -> None:
    spark.createDataFrame(prices(3)).createOrReplaceTempView("prices")
    statement = "SELECT * FROM prices" + V_SHAPE.format(rows="").replace("FIRST(ts)", "FIRST(tss)")
    with pytest.raises(ceql.QueryError, match="no column 'tss'"):
        ceql.spark.sql(spark, statement)


def test_a_stream_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    stream.createOrReplaceTempView("ticks")
    with pytest.raises(ceql.ArgumentError, match="runs over tables"):
        ceql.spark.sql(spark, "SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY timestamp PATTERN (A) DEFINE A AS true)")
