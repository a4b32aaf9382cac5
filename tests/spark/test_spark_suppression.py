"""Suppressed alerts on Spark, in batch and streaming, from a checkpoint as well: those of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import ceql
from ceql import Suppression
from ceql.spark import match
from test_restart import END, START, Stream, some

RULES = {
    "pair": "SELECT a, b WHERE A AS a ; B AS b PARTITION BY k WITHIN 50 MILLISECONDS",
    "keyless": "SELECT * WHERE A AS a ; B AS b WITHIN 9 MILLISECONDS",
    "all": "SELECT b WHERE B AS b PARTITION BY k",
}
PER = {"pair": "2 per 20 milliseconds", "keyless": "1 per 5 milliseconds"}


def test_the_same_alerts_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    numbers = iter(range(300))
    stream.add(*(some(numbers, begin, count=9) for begin in (0, 8, 30)))
    ordered = sorted(
        [*stream.events, *(later := [e for b in (34, 60, 70, 120) for e in some(numbers, b, count=9)]), END],
        key=lambda e: (e[1], e[3]),
    )
    table = pa.table({
        "type": [e[0] for e in ordered], "time": pa.array([(START + e[1]) * 1000 for e in ordered], pa.timestamp("us")),
        "k": [e[2] for e in ordered], "id": [e[3] for e in ordered],
    })  # fmt: skip
    ids = [e[3] for e in ordered]
    kept = Suppression(PER).of(ceql.compile_all(RULES).run(table)).to_pylist()
    expected = sorted(
        (row["query"], tuple(ids[p] for p in row["events"]), row["suppressed"] if row["query"] in PER else None)
        for row in kept
    )
    assert any(told for _, _, told in expected)

    options: dict[str, Any] = {"order_by": "id", "suppress": PER, "events": "ids", "id": "id"}
    first = stream.run(match(stream.read(), RULES, buckets=3, **options)).rows
    for begin in range(0, len(later), 9):
        stream.add(later[begin : begin + 9])
    stream.add([END])
    rows = first + stream.run(match(stream.read(), RULES, buckets=3, **options)).rows
    assert sorted((row["query"], tuple(row["events"]), row["suppressed"]) for row in rows) == expected

    frame = spark.read.parquet(str(stream.folder / "source"))
    batch = match(frame, RULES, **options).collect()
    assert sorted((row["query"], tuple(row["events"]), row["suppressed"]) for row in batch) == expected
    for name, per in PER.items():
        alone = match(frame, RULES[name], match_id="alert", **(options | {"suppress": per}))
        assert alone.columns[:2] == ["alert", "suppressed"]
        found = sorted((name, tuple(row["events"]), row["suppressed"]) for row in alone.collect())
        assert found == [one for one in expected if one[0] == name]


def test_what_makes_no_sense_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "type string, time timestamp, k string")
    joined = "SELECT * WHERE A AS a ; B AS b FILTER a.k = b.k"
    for query, per, message in [
        (RULES["pair"], "hourly", "a number and a period"),
        (joined, "1 per hour", "write PARTITION BY k"),
        (RULES, {"pairs": "1 per hour"}, "names 'pairs'"),
        ("SELECT suppressed WHERE A AS suppressed", "1 per hour", "has a column 'suppressed'"),
    ]:
        with pytest.raises(ceql.CeqlError, match=message):
            match(frame, query, suppress=per)  # type: ignore[arg-type]
