"""MATCH_RECOGNIZE on Spark gives what it gives over frames, and Spark does what stands around it."""

from __future__ import annotations

import os
import random
import re
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import ceql
import ceql.spark
from ceql.spark import row_patterns
from row_pattern_batches import check_together
from row_pattern_cases import draw_case

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


def test_columns_that_nobody_names_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    table = prices(300).append_column("Second", prices(300)["price"]).append_column("other", prices(300)["price"])
    pq.write_table(table, tmp_path / "wide.parquet")
    spark.read.parquet(str(tmp_path / "wide.parquet")).createOrReplaceTempView("wide")
    statement = "SELECT * FROM wide MATCH_RECOGNIZE ({}) AS m"
    for clause, read in (
        ("ORDER BY ts MEASURES COUNT(*) AS n PATTERN (x y) DEFINE y AS second > PREV(`second`)", {"ts", "Second"}),
        ("MEASURES COUNT(*) AS n PATTERN (x+) DEFINE x AS TRUE", {"symbol"}),
        ("ORDER BY ts ALL ROWS PER MATCH PATTERN (x) DEFINE x AS TRUE", set(table.column_names)),
    ):
        found = ceql.spark.sql(spark, statement.format(clause))
        own = ceql.match_recognize(statement.format(clause), table, dialect="spark")
        assert result(found) == sorted((tuple(row.values()) for row in own.to_pylist()), key=repr)
        plan = found._jdf.queryExecution().executedPlan().toString()
        schema = re.search(r"ReadSchema: struct<(.*?)>", plan)
        assert schema is not None
        assert {field.partition(":")[0] for field in schema[1].split(",") if field} == read


def test_all_that_is_wrong_is_said_before_a_job_runs(spark: SparkSession) -> None:
    spark.createDataFrame(prices(3)).createOrReplaceTempView("prices")
    statement = "SELECT * FROM prices" + V_SHAPE.format(rows="").replace("FIRST(ts)", "FIRST(tss)")
    with pytest.raises(ceql.QueryError, match="no column 'tss'"):
        ceql.spark.sql(spark, statement)


BEGIN = datetime(2026, 1, 1)
SCHEMA = pa.schema({"symbol": pa.string(), "at": pa.timestamp("us", "UTC"), "price": pa.int64()})


class Ticks:
    """A streaming view of files, of which each micro-batch reads one; the watermark is two seconds behind."""

    def __init__(self, spark: SparkSession, folder: Path):
        self.spark, self.folder = spark, folder
        self.rows: list[tuple[str, int, int | None]] = []
        self._files = 0

    def add(self, *files: list[tuple[str, int, int | None]]) -> None:
        (self.folder / "source").mkdir(exist_ok=True)
        for rows in files:
            self.rows += rows
            file = self.folder / "source" / f"{self._files:03}.parquet"
            pq.write_table(self.table(rows), file)
            os.utime(file, (1_000_000 + self._files,) * 2)
            self._files += 1
        reader = self.spark.readStream.schema("symbol string, at timestamp, price long")
        stream = reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder / "source"))
        stream.withWatermark("at", "2 seconds").createOrReplaceTempView("ticks")

    @staticmethod
    def table(rows: list[tuple[str, int, int | None]]) -> pa.Table:
        columns = zip(*((symbol, BEGIN + timedelta(seconds=s), price) for symbol, s, price in rows), strict=True)
        return pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)

    def run(self, statement: str) -> list[dict[str, Any]]:
        """What comes out until the files are read."""
        found: list[dict[str, Any]] = []
        writer = ceql.spark.sql(self.spark, statement).writeStream.foreachBatch(
            lambda batch, _: found.extend(row.asDict() for row in batch.collect())
        )
        query = writer.option("checkpointLocation", str(self.folder / "kept")).trigger(availableNow=True).start()
        query.awaitTermination()
        self.late = sum(
            metrics["late_rows"]
            for progress in query.recentProgress
            for name, metrics in progress["observedMetrics"].items()
        )
        return found


def test_a_stream_gives_its_matches_when_no_row_can_change_them(spark: SparkSession, tmp_path: Path) -> None:
    """With rows out of order and late ones, a condition on a row to come, keys that wait, and a restart."""
    clause = """MATCH_RECOGNIZE (
      PARTITION BY symbol ORDER BY at
      MEASURES MATCH_NUMBER() AS n, FIRST(at) AS begin, LAST(down.price) AS low, NEXT(LAST(price)) AS later
      PATTERN (top down+ up+) WITHIN INTERVAL '20' SECOND
      DEFINE down AS price < PREV(price) AND price < top.price, up AS price > PREV(price) AND NEXT(price) IS NOT NULL)
    """
    statement = (
        f"SELECT m.symbol, n, low, later, name AS then FROM ticks {clause} AS m JOIN names ON m.symbol = names.symbol"
    )
    spark.createDataFrame([("a", "Alpha"), ("b", "Beta")], ["symbol", "name"]).createOrReplaceTempView("names")
    ticks = Ticks(spark, tmp_path)
    ticks.add(
        [("a", 2, 7), ("b", 1, 5), ("a", 0, 9)],
        [("a", 1, 8), ("b", 2, 3), ("b", 3, 4), ("b", 4, 4), ("b", 7, 4)],
        [("a", 9, 8), ("b", 9, 4), ("a", 10, 3)],
    )
    first = ticks.run(statement)
    assert first == [{"symbol": "b", "n": 1, "low": 3, "later": 4, "then": "Beta"}]
    ticks.add([("a", 11, 5), ("a", 12, 1), ("a", 3, 100)], [("a", 20, 2)], [("a", 60, 2), ("a", 61, 1)], [("b", 90, 1)])
    second = ticks.run(statement)
    assert ticks.late == 1
    expected = ceql.match_recognize(
        f"SELECT symbol, n, low, later FROM ticks {clause}",
        ticks.table([row for row in ticks.rows if row != ("a", 3, 100)]),
        dialect="spark",
    ).to_pylist()
    given = [{key: value for key, value in row.items() if key != "then"} for row in first + second]
    assert sorted(given, key=repr) == sorted(expected, key=repr)
    assert [row["n"] for row in given if row["symbol"] == "a"] == [1, 2]


def test_tables_have_times_and_other_types(spark: SparkSession) -> None:
    """HOUR is that of the session's zone, as in Spark."""
    rows = "(1, TIMESTAMP '2026-01-01 23:30:00', 1.25BD, true), (2, TIMESTAMP '2026-01-02 00:30:00', NULL, false)"
    spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, at, price, flag)").createOrReplaceTempView("typed")
    found = ceql.spark.sql(
        spark,
        """SELECT *, hour(begin) AS same FROM typed MATCH_RECOGNIZE (ORDER BY at
             MEASURES FIRST(at) AS begin, HOUR(FIRST(at)) AS h, SUM(price) AS s, LAST(flag) AS f,
               DAYOFWEEK(FIRST(at)) AS d, REPLACE(CLASSIFIER(), 'B', 'b') AS label
             PATTERN (A B) DEFINE B AS at - A.at = INTERVAL '1' HOUR)""",
    )
    (row,) = found.collect()
    assert (row.h, row.same, row.s, row.f, row.d, row.label) == (23, 23, Decimal("1.25"), False, 5, "b")


def test_what_a_stream_cannot_decide_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.readStream.format("rate").load().createOrReplaceTempView("ticks")
    with pytest.raises(ceql.SchemaError, match="needs a watermark"):
        ceql.spark.sql(spark, "SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY timestamp PATTERN (A) DEFINE A AS true)")
    Ticks(spark, tmp_path).add([("a", 0, 1)])
    for clause, wrong in (
        ("ORDER BY at DESC PATTERN (A)", "begins with 'at', ascending"),
        ("PATTERN (A)", "begins with 'at', ascending"),
        ("ORDER BY at PATTERN (A B$)", r"\$ never holds"),
        ("ORDER BY at ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A)", "WITH UNMATCHED ROWS is not evaluated"),
    ):
        with pytest.raises(ceql.QueryError, match=wrong):
            ceql.spark.sql(spark, f"SELECT * FROM ticks MATCH_RECOGNIZE ({clause} DEFINE A AS price = 1)")


def test_random_statements_give_what_backtracking_gives(spark: SparkSession) -> None:
    rnd = random.Random(5)
    assert check_together(spark, [draw_case(rnd, plain=bool(k % 2)) for k in range(10)]) > 5


def test_functions_of_the_user_and_the_current_time(spark: SparkSession) -> None:
    table = pa.table({"ts": [datetime(2024, 1, 1, hour) for hour in (1, 2, 3)], "x": [2, 3, 9]})
    spark.createDataFrame(table).createOrReplaceTempView("t")
    statement = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES twice(FIRST(x)) AS twice, COUNT(*) AS n
        PATTERN (A+) DEFINE A AS spread(x) < 5 AND ts < CURRENT_TIMESTAMP)"""
    functions: dict[str, Any] = {"twice": lambda values: pc.multiply(values, 2), "spread": "x -> MAX(x) - MIN(x)"}
    now = datetime(2024, 1, 1, 4)
    found = ceql.spark.sql(spark, statement, functions=functions, now=now)
    assert [tuple(row) for row in found.collect()] == [(4, 2), (18, 1)]
    with pytest.raises(ceql.QueryError, match="twice is not evaluated"):
        ceql.spark.sql(spark, statement, now=now)
