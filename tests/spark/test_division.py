"""How batch work is divided: chunks of time, keys, one task; and that nothing runs before it is asked for."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ceql
import ceql.spark
from ceql.plan import make_plan
from ceql.recognition.options import Options
from ceql.spark.match_options import MatchArguments
from ceql.spark.prepare import prepare
from ceql.spark.time_chunks import edges, segment

ROWS = 20_000


def stream(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Events with uneven times: busy hours and quiet ones."""
    random = np.random.default_rng(seed)
    gaps = random.integers(1, 50, rows) * np.where(np.arange(rows) % 5_000 < 4_000, 1, 40)
    return pa.table(
        {
            "type": pa.array(np.array(list("ABCD"))[random.integers(0, 4, rows)]),
            "v": random.integers(0, 20, rows),
            "k": random.integers(0, 30, rows),
            "id": pa.array(np.arange(rows)),
            "ts": pa.array(1_700_000_000_000 + np.cumsum(gaps), pa.timestamp("ms", "UTC")),
        }
    )


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return stream()


@pytest.fixture(scope="module")
def df(spark: SparkSession, events: pa.Table) -> DataFrame:
    return spark.createDataFrame(events).repartition(5).cache()


def ids(rows: list[Any]) -> list[tuple[int, ...]]:
    return sorted(tuple(row["events"]) for row in rows)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x[v < 3] AND z[v > 17] WITHIN 2 SECONDS",
        "SELECT * WHERE A ; B+ ; C FILTER A[v = 1] AND B[v < 4] AND C[v = 3] WITHIN 1 SECOND",
        "SELECT * WHERE A : B : C WITHIN 1 SECOND",
        "SELECT NEXT * WHERE A ; B+ ; C FILTER C[v < 3] WITHIN 500 MILLISECONDS",
        "SELECT MAX * WHERE A+ ; D FILTER D[v = 5] WITHIN 300 MILLISECONDS",
        "SELECT * WHERE A ; B ; C FILTER A[v < 3] AND C[v < 3] WITHIN 60 EVENTS",
        "SELECT STRICT * WHERE A ; B ; C WITHIN 40 EVENTS",
        "SELECT LAST * WHERE A ; B FILTER B[v < 2] WITHIN 30 EVENTS LIMIT 2",
        "SELECT ANY x WHERE A AS x ; B FILTER B[v < 2] WITHIN 300 [id]",
        "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x.k = y.k AND y.v < z.v AND z[v > 15] WITHIN 2 SECONDS",
        "SELECT MAX * WHERE A AS x ; B+ AS y FILTER y[v > PREV.v] AND x[v < 3] WITHIN 12 EVENTS",
    ],
)
@pytest.mark.parametrize("chunks", [3, 16])
def test_chunks_of_time_give_what_one_run_gives(df: DataFrame, events: pa.Table, query: str, chunks: int) -> None:
    whole = sorted(tuple(m.events) for m in ceql.match(query, events, time="ts"))
    assert len(whole) > 50
    result = ceql.spark.match(df, query, time="ts", order_by="id", events="ids", id="id", partitions=chunks)
    assert ids(result.collect()) == whole


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x[v < 9] AND z[v > 9] PARTITION BY k WITHIN 20 SECONDS",
        "SELECT NEXT * WHERE A : B+ ; C PARTITION BY k WITHIN 10 SECONDS",
        "SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k AND x.v < y.v WITHIN 2 SECONDS",
    ],
)
def test_skewed_keys_are_cut_by_time(df: DataFrame, events: pa.Table, query: str) -> None:
    skewed: dict[str, Any] = {"time": "ts", "skewed": True, "partitions": 7}
    said = " ".join(ceql.spark.explain(df, query, **skewed).split())
    assert "In at most 7 chunks of time" in said
    assert "the keys are skewed" in said
    whole = sorted(tuple(m.events) for m in ceql.match(query, events, time="ts"))
    assert len(whole) > 50
    assert ids(ceql.spark.match(df, query, order_by="id", events="ids", id="id", **skewed).collect()) == whole


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE A ; B PARTITION BY k",
        "SELECT * WHERE A ; B PARTITION BY k WITHIN 5 EVENTS",
        "SELECT * WHERE A ; B PARTITION BY k WITHIN 1 SECOND CONSUME BY PARTITION",
    ],
)
def test_skewed_keys_that_cannot_be_cut_stay_whole(df: DataFrame, query: str) -> None:
    assert "By key" in ceql.spark.explain(df, query, time="ts", skewed=True)


def test_a_row_without_a_time_is_told_of_in_chunks(df: DataFrame) -> None:
    holes = df.withColumn("ts", F.when(F.col("id") != 7_777, F.col("ts")))
    with pytest.raises(PythonException, match="an event has no time"):
        ceql.spark.match(holes, "SELECT * WHERE A : B WITHIN 1 SECOND", time="ts", partitions=3).collect()


def test_streams_order_events_of_the_same_time(spark: SparkSession) -> None:
    def tables(right: list[int]) -> dict[str, pa.Table]:
        return {"L": pa.table({"t": [1, 2, 4]}), "R": pa.table({"t": right})}

    def on_spark(right: list[int]) -> list[tuple[int, ...]]:
        frames = {name: spark.createDataFrame(table) for name, table in tables(right).items()}
        return ids(ceql.spark.match(frames, query, time="t", events="ids", id="t").collect())

    query = "SELECT ANY * FROM L, R WHERE L ; R"
    assert on_spark([2, 3]) == [(2, 2), (2, 3)]
    assert ceql.match(query, tables([2, 3]), time="t").count() == 2
    with pytest.raises(PythonException, match="have the same time"):
        on_spark([2, 2])


def test_what_always_holds_is_not_shipped(df: DataFrame) -> None:
    def shipped(query: str) -> list[str]:
        arguments = MatchArguments(Options(None, "ts"), ids=True, id=("ts",))
        return prepare(df, make_plan(query), arguments).frame.columns

    assert shipped("SELECT a FROM E WHERE E AS a : E AS b FILTER a.v < b.v PARTITION BY k") == ["time", "key0", "a_v"]
    assert shipped("SELECT a FROM E WHERE E AS a : E AS b FILTER b[v > 3] PARTITION BY k") == ["time", "bits0", "key0"]


def test_the_time_column_itself_may_be_the_windows_attribute(df: DataFrame, events: pa.Table) -> None:
    numbered = df.withColumn("n", F.col("id") * 2)
    query = "SELECT * WHERE A ; B FILTER A[v = 2] AND B[v = 2] WITHIN 200 [n]"
    whole = ceql.match(query, events.append_column("n", pa.array(np.arange(ROWS) * 2)), time="n").count()
    assert "chunks of time" in ceql.spark.explain(numbered, query, time="n")
    assert ceql.spark.match(numbered, query, time="n", partitions=5).count() == whole > 50


def test_chunks_are_of_like_size_whatever_the_times_are() -> None:
    table = stream()
    pieces = [piece for batch in table.select(["ts"]).to_batches(max_chunksize=3_000) for piece in segment([batch])]
    segments = pa.Table.from_batches(pieces)
    low = segments["low"].cast(pa.int64()).to_numpy()
    cuts = edges(low, segments["rows"].to_numpy(), 8)
    times = table["ts"].cast(pa.int64()).to_numpy()
    sizes = np.diff([0, *np.searchsorted(times, cuts), len(times)])
    assert len(sizes) == 8
    assert sizes.max() < 1.5 * ROWS / 8


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * WHERE A ; B PARTITION BY k", "By key"),
        ("SELECT * WHERE A ; B WITHIN 1 SECOND", "chunks of time"),
        ("SELECT * WHERE A ; B WITHIN 1 SECOND", "In one task: on so few cores"),
        ("SELECT * WHERE A ; B WITHIN 10 EVENTS", "chunks of time"),
        ("SELECT * WHERE A ; B", "In one task: without WITHIN"),
        ("SELECT * WHERE A ; B WITHIN 10 [v]", "In one task: a window over 'v'"),
        ("SELECT * WHERE A ; B PARTITION BY k CONSUME BY ANY", "In one task: CONSUME BY ANY"),
        ("SELECT * WHERE A ; B WITHIN 1 SECOND CONSUME BY PARTITION", "In one task: CONSUME BY"),
        ("SELECT * WHERE A ; B FILTER A[v < 3]", "Events that satisfy no condition are dropped"),
        ("SELECT * WHERE A : B", "No event is dropped: contiguity"),
        ("SELECT * WHERE A ; B WITHIN 3 EVENTS", "No event is dropped: WITHIN counts"),
        ("SELECT * WHERE A FILTER A[type RLIKE '(ab)+']", "decided in Python, from type"),
        ("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k", "By key"),
        ("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.v", "all events of a match agree in k, v"),
        ("SELECT * WHERE A AS x ; B AS y FILTER x.v < y.v WITHIN 1 SECOND", "chunks of time"),
        ("SELECT * WHERE A AS x ; B AS y FILTER x.v < y.k", "several events is decided in Python, from k, v."),
        ("SELECT * WHERE (A : B PARTITION BY k)", "In one task"),  # contiguous in the whole stream
    ],
)
def test_explain_says_how_the_work_is_divided(df: DataFrame, query: str, said: str) -> None:
    text = ceql.spark.explain(df, query, time="ts")
    assert said in " ".join(text.split())


def test_nothing_runs_before_an_action(spark: SparkSession, df: DataFrame) -> None:
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("lazy", "match alone")
    for query in ("SELECT * WHERE A ; B PARTITION BY k", "SELECT * WHERE A ; B WITHIN 1 SECOND"):
        ceql.spark.match(df, query, time="ts", order_by="id").filter("end_time IS NOT NULL")
    assert not tracker.getJobIdsForGroup("lazy")


def test_rows_of_the_result(spark: SparkSession) -> None:
    begin = datetime.datetime(2024, 5, 1, 12)
    rows = [("A", 1, 5, "x"), ("B", 1, 6, "y"), ("A", None, 7, "z"), ("B", None, 8, "w")]
    events = [(name, k, v, s, begin + datetime.timedelta(seconds=i)) for i, (name, k, v, s) in enumerate(rows)]
    df = spark.createDataFrame(events, "type string, k int, v int, s string, time timestamp_ntz")
    result = ceql.spark.match(df, "SELECT a[v], b WHERE A AS a ; B AS b PARTITION BY k WITHIN 1 MINUTE")
    assert [f.simpleString() for f in result.schema.fields] == [
        "k:int",
        "start_time:timestamp_ntz",
        "end_time:timestamp_ntz",
        "a:array<struct<v:int>>",
        "b:array<struct<type:string,k:int,v:int,s:string,time:timestamp_ntz>>",
        "events:array<struct<type:string,k:int,v:int,s:string,time:timestamp_ntz>>",
    ]
    (row,) = result.collect()
    assert (row.k, row.start_time, row.end_time) == (1, begin, begin + datetime.timedelta(seconds=1))
    assert row.a[0].v == 5
    assert row.b[0].asDict() == {"type": "B", "k": 1, "v": 6, "s": "y", "time": row.end_time}
    assert [e.v for e in row.events] == [5, 6]
    assert row.events[0].s is None  # a shows v alone


def test_matcher_chains(df: DataFrame, events: pa.Table) -> None:
    query = "SELECT * WHERE A ; D FILTER A[v = 1] AND D[v = 1] PARTITION BY k WITHIN 1 MINUTE"
    matches = df.transform(ceql.spark.matcher(query, time="ts", order_by="id"))
    row = matches.groupBy("k").count().agg(F.sum("count")).first()
    assert row is not None
    assert row[0] == ceql.match(query, events, time="ts").count()


def test_parquet_reads_what_the_query_needs(spark: SparkSession, events: pa.Table, tmp_path: Any) -> None:
    spark.createDataFrame(events).write.parquet(str(tmp_path / "events"))
    stored = spark.read.parquet(str(tmp_path / "events"))
    result = ceql.spark.match(
        stored, "SELECT * WHERE A ; B FILTER A[v > 18]", time="ts", events="ids", id="id", order_by="id"
    )
    plan = result._jdf.queryExecution().executedPlan().toString()
    scan = next(line for line in plan.splitlines() if "FileScan" in line or "BatchScan" in line)
    assert "k#" not in scan
    assert "EqualTo(type,A)" in scan
    assert "GreaterThan" in scan


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * WHERE A ; B FILTER A[v > 2]", []),
        ("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k AND x[v > 2]", []),  # k is a key
        ("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k AND x.v < y.v", ["v"]),
        ("SELECT * WHERE A AS x ; B AS y FILTER x.k < y.v WITHIN 1 SECOND", ["k", "v"]),
        ("SELECT * WHERE A ; B+ AS y FILTER y[id = PREV.id + 1] PARTITION BY k", []),  # the id is shown anyhow
    ],
)
def test_only_what_is_compared_is_shipped(df: DataFrame, query: str, columns: list[str]) -> None:
    arguments = MatchArguments(Options(time="ts"), (), True, ("id",))
    assert list(prepare(df, ceql.compile(query).plan, arguments).spec.attributes) == ["id", *columns]


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_skewed_key_and_many_matches_stream_out(spark: SparkSession, tasks: int) -> None:
    """One key has all but a few rows, and a few hundred thousand matches come from one task."""
    rows = 1_500
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "type": pa.array(np.array(list("AB"))[random.integers(0, 2, rows)]),
            "k": pa.array(np.where(np.arange(rows) % 300 == 7, 2, 1)),
            "time": pa.array(np.arange(rows), pa.int64()),
        }
    )
    query = "SELECT * WHERE A ; B PARTITION BY k"
    frame = ceql.spark.match(spark.createDataFrame(table), query, events="ids", id="time", partitions=tasks)
    assert frame.count() == ceql.match(query, table).count() > 250_000
