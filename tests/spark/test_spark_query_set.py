"""Many queries over one DataFrame: the matches of each are those that it finds by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import ceql
from ceql.spark import match

QUERIES = {
    "keyed": "SELECT * WHERE A AS x ; B AS y FILTER y.v > 30 PARTITION BY k WITHIN 3 SECONDS",
    "keyed too": "SELECT y, MAX(y.v) AS most WHERE B+ AS y ; C PARTITION BY k WITHIN 400 MILLISECONDS",
    "hidden key": "SELECT * WHERE A AS x ; C AS y FILTER x.k = y.k WITHIN 1 SECOND",
    "by s": "SELECT * WHERE A ; A PARTITION BY s WITHIN 200 MILLISECONDS",
    "counted": "SELECT * WHERE A ; C PARTITION BY k WITHIN 5 EVENTS",
    "chunks": "SELECT * WHERE A AS x ; B AS y FILTER x.v > 40 AND y.s = 'b' WITHIN 100 MILLISECONDS",
    "longer chunks": "SELECT * WHERE C AS x : D AS y WITHIN 300 MILLISECONDS",
    "event chunks": "SELECT * WHERE A ; D WITHIN 3 EVENTS",
    "measured": "SELECT * WHERE A ; B PARTITION BY k WITHIN 2 [v]",
    "single": "SELECT NEXT * WHERE A AS x ; D AS y FILTER x.v > 45",
    "single keys": "SELECT * WHERE A AS x ; D AS y FILTER x.v > 45 PARTITION BY k WITHIN 1 SECOND CONSUME BY ANY",
    "nothing": "SELECT * WHERE Z PARTITION BY k",
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    random, n = np.random.default_rng(5), 600
    return pa.table(
        {
            "type": random.choice(["A", "B", "C", "D", "E"], n),
            "time": pa.array(np.arange(n) * 10_000, pa.timestamp("us", "UTC")),
            "k": random.integers(0, 5, n),
            "s": random.choice(["a", "b"], n),
            "v": np.sort(random.integers(0, 50, n)),
            "pos": np.arange(n),
        }
    )


@pytest.fixture(scope="module")
def frame(spark: SparkSession, table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = Path(tmp_path_factory.mktemp("many")) / "events.parquet"
    pq.write_table(table, path, row_group_size=200)
    return spark.read.parquet(str(path))


def test_each_query_finds_what_it_finds_alone(frame: DataFrame, table: pa.Table) -> None:
    rules = ceql.compile_all(QUERIES)
    found: dict[str, list[Any]] = {name: [] for name in rules}
    for row in match(frame, rules).collect():
        bindings = {name: [event.pos for event in events] for name, events in row.bindings.items()}
        found[row.query].append(([event.pos for event in row.events], bindings, dict(row.measures), row.k, row.s))
    for name in rules:
        expected = [
            (
                list(m.events),
                {variable: list(events) for variable, events in m.bindings.items()},
                {measure: str(value) for measure, value in m.measures.items()},
                m.partition.get("k"),
                m.partition.get("s"),
            )
            for m in rules[name].run(table)
        ]
        assert expected or name == "nothing"
        assert sorted(found[name], key=str) == sorted(expected, key=str), name


def test_columns_and_one_scan_for_one_key(frame: DataFrame) -> None:
    rules = {name: QUERIES[name] for name in ("keyed", "keyed too", "hidden key", "counted")}
    result = match(frame, rules, events="ids", id="pos", partitions=2)
    assert result.columns == ["query", "k", "start_time", "end_time", "bindings", "measures", "events"]
    plan = result._jdf.queryExecution().executedPlan().toString()
    assert plan.count("FileScan") == 1
    assert plan.count("Exchange") == 1
    row = result.where("query = 'keyed'").orderBy("events").first()
    assert row is not None
    assert {name: row.bindings[name] for name in "xy"} == {"x": row.events[:1], "y": row.events[1:]}


def test_errors_name_the_query(frame: DataFrame) -> None:
    with pytest.raises(ceql.SchemaError, match=r"query 'b': the events have no column 'w'"):
        match(frame, {"a": "SELECT * WHERE A", "b": "SELECT * WHERE A AS x FILTER x.w > 3"})
    with pytest.raises(ceql.QueryError, match="query 'b'"):
        match(frame, {"a": "SELECT * WHERE A", "b": "SELECT"})
