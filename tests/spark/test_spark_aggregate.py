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
    }
)
ASKED = {
    "n": "COUNT(*)", "events": "COUNT(b)", "known": "COUNT(b.v)", "total": "SUM(b.v)", "mean": "AVG(b.v)",
    "least": "MIN(b.v)", "f": "SUM(b.f)", "most": "MAX(b.s)", "last": "MAX(b.time)",
}  # fmt: skip


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(EVENTS).repartition(3)


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that compare: whole numbers as such, times without a zone."""

    def value(one: Any) -> Any:
        if isinstance(one, datetime):
            return one.timestamp()
        return int(one) if isinstance(one, Decimal) else one

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
