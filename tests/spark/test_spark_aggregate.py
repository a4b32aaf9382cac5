"""Totals over all matches on Spark are those of the engine, however the work is divided."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import ceql
import ceql.spark
import ways

T = datetime(2026, 1, 1)
COUNT = 60
EVENTS = pa.table(
    {
        "type": ["ABC"[k * 7 % 3] for k in range(COUNT)],
        "time": pa.array([T + timedelta(seconds=2 * k) for k in range(COUNT)], pa.timestamp("us", "UTC")),
        "k": [k % 2 for k in range(COUNT)],
        "v": [None if k % 11 == 0 else k * k - 100 for k in range(COUNT)],
        "f": [k / 4 for k in range(COUNT)],
        "s": [f"s{k * 31 % 17}" for k in range(COUNT)],
        "d": pa.array([Decimal(k * 31 % 100) / 4 for k in range(COUNT)], pa.decimal128(9, 2)),
    }
)
ASKED = {
    "n": "COUNT(*)", "events": "COUNT(b)", "known": "COUNT(b.v)", "total": "SUM(b.v)", "mean": "AVG(b.v)",
    "least": "MIN(b.v)", "f": "SUM(b.f)", "most": "MAX(b.s)", "last": "MAX(b.time)",
    "different": "COUNT(DISTINCT b.s)", "times": "COUNT(DISTINCT b.time)", "median": "MEDIAN(b.f)",
    "spread": "STDDEV(b.v)", "exact": "SUM(b.d)", "exact_mean": "AVG(b.d)", "exact_median": "MEDIAN(b.d)",
}  # fmt: skip


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(EVENTS).repartition(3)


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that compare: whole numbers as such, times without a zone."""

    def value(one: Any) -> Any:
        if isinstance(one, datetime):
            return one.timestamp()
        if isinstance(one, float):
            return pytest.approx(one)
        return int(one) if isinstance(one, Decimal) and one == int(one) else one

    return [{name: value(one) for name, one in row.items()} for row in rows]


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("SELECT * WHERE A ; B AS b ; C PARTITION BY k WITHIN 30 SECONDS", {"by": "k", "every": "20 seconds"}),
        ("SELECT * WHERE A ; B+ AS b ; C WITHIN 8 EVENTS", {"every": timedelta(minutes=1)}),
        ("SELECT * WHERE A AS a ; B AS b FILTER a.v < b.v", {}),
        ("SELECT b WHERE A ; B AS b ; NOT C WITHIN 5 SECONDS", {}),
        ("SELECT b WHERE D AS b PARTITION BY k", {}),
        ("SELECT b WHERE D AS b PARTITION BY k", {"by": "k"}),
    ],
    ids=["by key", "in chunks", "in one task", "absent", "nothing", "nothing by key"],
)
def test_like_the_engine(spark: SparkSession, frame: DataFrame, text: str, groups: dict[str, Any]) -> None:
    with ways.interpreted(spark):
        found = ceql.spark.aggregate(frame, text, ASKED, partitions=3, **groups).toArrow()
    wanted = ceql.match(text, EVENTS).aggregate(ASKED, **groups)
    order = [(name, "ascending") for name in wanted.column_names[: len(wanted.column_names) - len(ASKED)]]
    found = found.sort_by(order) if order else found
    assert plain(found.to_pylist()) == plain(wanted.to_pylist())
    assert found.schema.field("n").type == pa.decimal128(38, 0)


def test_errors(spark: SparkSession, frame: DataFrame) -> None:
    with pytest.raises(ceql.SchemaError, match="no column 'w'"):
        ceql.spark.aggregate(frame, "SELECT * WHERE A AS a", n="SUM(a.w)")
    with pytest.raises(ceql.SchemaError, match="no key of PARTITION BY"):
        ceql.spark.aggregate(frame, "SELECT * WHERE A AS a", n="COUNT(*)", by="k")
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "time")
    with pytest.raises(ceql.CeqlError, match="aggregate is for batches"):
        ceql.spark.aggregate(stream, "SELECT * FROM rate WHERE rate AS a", n="COUNT(*)")


def test_aggregates_are_those_of_spark_sql(frame: DataFrame) -> None:
    """Values and types, of matches that are single events."""
    texts = {
        "different": "COUNT(DISTINCT {}s)", "total": "SUM({}d)", "mean": "AVG({}d)", "least": "MIN({}d)",
        "spread": "STDDEV({}v)", "variance": "VARIANCE({}f)", "decimal": "STDDEV({}d)", "median": "MEDIAN({}v)",
        "share": "PERCENTILE({}v, 0.9)",
    }  # fmt: skip
    asked = {name: text.format("b.") for name, text in texts.items()}
    found = ceql.spark.aggregate(frame, "SELECT b WHERE B AS b", asked)
    spark = frame.filter("type = 'B'").selectExpr(*(f"{text.format('')} AS {name}" for name, text in texts.items()))
    types = {field.name: field.dataType.simpleString() for field in found.schema.fields}
    wanted = {field.name: field.dataType.simpleString() for field in spark.schema.fields}
    assert types == wanted | {"different": "decimal(38,0)"}
    assert plain([found.first().asDict()]) == [spark.first().asDict()]  # type: ignore[union-attr]
