"""Episodes on Spark are those of `Matches.episodes`; streams and wrong arguments are refused with what to do."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import ceql
import ceql.spark

T = datetime(2026, 1, 1)
QUERY = "SELECT * WHERE A ; B PARTITION BY k WITHIN 20 SECONDS"
EVENTS = pa.table(
    {
        "type": ["ABC"[k * 7 % 3] for k in range(60)],
        "time": pa.array(
            [T + timedelta(seconds=k * k % 97 + 40 * (k // 20)) for k in range(60)], pa.timestamp("us", "UTC")
        ),
        "k": [k % 2 for k in range(60)],
        "id": list(range(60)),
    }
)


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> DataFrame:
    return ceql.spark.match(spark.createDataFrame(EVENTS).repartition(3), QUERY, events="ids", id="id", order_by="id")


@pytest.mark.parametrize("gap", [None, "3 seconds", timedelta(seconds=9)])
def test_episodes_are_those_of_the_engine(found: DataFrame, gap: Any) -> None:
    table = ceql.match(QUERY, EVENTS.sort_by([("time", "ascending"), ("id", "ascending")])).episodes(gap)
    wanted = [
        (row["k"], row["start_time"].timestamp(), row["end_time"].timestamp(), row["matches"], row["events"])
        for row in table.to_pylist()
    ]
    rows = ceql.spark.episodes(found, gap, by=["k"])
    assert rows.columns == ["k", "start_time", "end_time", "matches", "events"]
    got = [(row[0], row[1].timestamp(), row[2].timestamp(), row[3], row[4]) for row in rows.collect()]
    assert sorted(got) == sorted(wanted)


def test_wrong_arguments(spark: SparkSession, found: DataFrame) -> None:
    for arguments, says in [
        ({"gap": 5}, "gap= is a duration"),
        ({"gap": "soon"}, "not a duration"),
        ({"by": "kk"}, "no column 'kk'"),
        ({"by": "end_time"}, "which is a column of episodes"),
    ]:
        with pytest.raises(ceql.CeqlError, match=says):
            ceql.spark.episodes(found, **arguments)  # type: ignore[arg-type]
    stream = spark.readStream.format("rate").load().selectExpr("timestamp AS start_time", "timestamp AS end_time")
    with pytest.raises(ceql.ArgumentError, match="session_window"):
        ceql.spark.episodes(stream)
