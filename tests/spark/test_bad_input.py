"""What is wrong is said by the driver, before any job starts, in words that help."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, TimestampType

import ceql
import ceql.spark

SCHEMA = "type string, k int, v double, s string, list array<int>, ts timestamp"
START = datetime.datetime(2024, 5, 1, 12)


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    rows = [(t, 1, 1.0, "a", [1], START + datetime.timedelta(seconds=i)) for i, t in enumerate("ABAB")]
    return spark.createDataFrame(rows, SCHEMA)


@pytest.mark.parametrize(
    ("query", "options", "error", "said"),
    [
        ("SELECT * WHERE A ;", {}, ceql.QueryError, "line 1"),
        ("SELECT * WHERE A FILTER A[price > 1]", {}, ceql.SchemaError, "'price'"),
        ("SELECT * WHERE A FILTER A[v = 'x']", {}, ceql.SchemaError, "holds numbers"),
        ("SELECT * WHERE A PARTITION BY kk", {}, ceql.SchemaError, "Did you mean 'k'"),
        ("SELECT * WHERE A PARTITION BY list", {}, ceql.SchemaError, "cannot be a key"),
        ("SELECT x[vv] WHERE A AS x", {}, ceql.SchemaError, "'vv'"),
        ("SELECT * WHERE A", {"time": "time"}, ceql.SchemaError, "have no order of their own: pass time="),
        ("SELECT * WHERE A", {"time": "when"}, ceql.SchemaError, "no column 'when'"),
        ("SELECT * WHERE A", {"time": "s"}, ceql.SchemaError, "which is no time"),
        ("SELECT * WHERE A", {"type": "kind"}, ceql.SchemaError, "no column 'kind'"),
        ("SELECT * WHERE A", {"type": "v"}, ceql.SchemaError, "must be text"),
        ("SELECT * WHERE A WITHIN 1 SECOND", {"time": "v"}, ceql.SchemaError, "time_unit"),
        ("SELECT * WHERE A", {"order_by": "sequence"}, ceql.SchemaError, "given as order_by="),
        ("SELECT * WHERE A", {"events": "ids"}, ceql.SchemaError, "needs id="),
        ("SELECT * WHERE A", {"events": "ids", "id": "nr"}, ceql.SchemaError, "given as id="),
        ("SELECT * WHERE A", {"events": "all"}, ValueError, "'rows', 'ids' or 'columns'"),
        ("SELECT * WHERE A", {"id": "k"}, ValueError, "goes with events='ids'"),
        ("SELECT * WHERE A", {"late": "late"}, ValueError, "late= is for streaming"),
        ("SELECT * FROM S, T WHERE A", {}, ceql.DataError, "a DataFrame for each of S, T"),
        ("SELECT * WHERE A AS x ; B AS y FILTER x.v < y.s", {}, ceql.SchemaError, "cannot compare column 'x.v'"),
        ("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.s", {}, ceql.SchemaError, "'k'"),
        ("SELECT * WHERE A+ AS x FILTER x[v > PREV.vv]", {}, ceql.SchemaError, "Did you mean 'v'"),
        ("SELECT * WHERE (A ; B PARTITION BY list)", {}, ceql.SchemaError, "column 'list'"),
    ],
)
def test_wrong_queries_and_columns(df: DataFrame, query: str, options: Any, error: type, said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        ceql.spark.match(df, query, **{"time": "ts", **options})


def test_arguments_in_the_wrong_order(df: DataFrame) -> None:
    query = "SELECT * WHERE A"
    called: list[Any] = [ceql.spark.match, ceql.spark.explain, ceql.spark.aggregate, ceql.spark.result_schema]
    for call in called:
        name = call.__name__
        with pytest.raises(ceql.ArgumentError, match=re.escape(f"{name}(df, query). The first argument has a str")):
            call(query, df)
        with pytest.raises(ceql.ArgumentError, match=re.escape(f"{name}(df, query). The first argument has a Query")):
            call({"one": ceql.compile(query)}, df)
        with pytest.raises(ceql.ArgumentError, match="not another one"):
            call(df, df)


def test_wrong_dictionaries_of_streams(df: DataFrame) -> None:
    query = "SELECT * FROM S, T WHERE A"
    with pytest.raises(ceql.DataError, match="no DataFrame for stream 'T'"):
        ceql.spark.match({"S": df}, query, time="ts")
    with pytest.raises(ceql.DataError, match="lists no stream 'U'"):
        ceql.spark.match({"S": df, "U": df}, query, time="ts")
    with pytest.raises(ceql.DataError, match="has no FROM clause"):
        ceql.spark.match({"S": df, "T": df}, "SELECT * WHERE A", time="ts")


def test_columns_that_spark_cannot_tell_apart(spark: SparkSession) -> None:
    df = spark.createDataFrame([("A", 1, 2)], "type string, v int, time int").withColumnRenamed("v", "Type")
    with pytest.raises(ceql.SchemaError, match="differ in case alone"):
        ceql.spark.match(df, "SELECT * WHERE A")


def failing(df: DataFrame, query: str, **options: Any) -> str:
    with pytest.raises(PythonException) as caught:
        ceql.spark.match(df, query, time="ts", **options).collect()
    return str(caught.value)


def test_an_event_without_a_time(df: DataFrame) -> None:
    holes = df.withColumn("ts", F.when(F.col("type") == "A", F.col("ts")))
    for query in ("SELECT * WHERE A ; B PARTITION BY k", "SELECT * WHERE A ; B WITHIN 1 SECOND"):
        assert "an event has no time" in failing(holes, query)


def test_events_without_a_key_belong_to_no_substream(df: DataFrame) -> None:
    empty = df.withColumn("k", F.lit(None).cast("int"))
    assert ceql.spark.match(empty, "SELECT * WHERE A ; B PARTITION BY k", time="ts").count() == 0


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("SELECT * WHERE A ; B PARTITION BY k", True),  # which of A and B is first?
        ("SELECT * WHERE A ; A", False),  # the same set of events either way
        ("SELECT * WHERE A AS x ; A AS y", True),
        ("SELECT * WHERE A+", False),
        ("SELECT NEXT * WHERE A+", True),
        ("SELECT * WHERE A ; C", False),
        ("SELECT * WHERE A : C", True),
        ("SELECT * WHERE A ; C WITHIN 2 EVENTS", True),
        ("SELECT * WHERE A ; C WITHIN 2 SECONDS", False),
        ("SELECT * WHERE A ; C LIMIT 1", True),
        ("SELECT * WHERE A OR B", False),
        ("SELECT * WHERE A AS x ; C AS y FILTER x.k = y.k", False),  # a substream for each k
        ("SELECT * WHERE A AS x ; C AS y FILTER x.s != y.s", True),  # it is not known what commutes
    ],
)
def test_ties_are_refused_where_they_could_change_the_result(spark: SparkSession, query: str, refused: bool) -> None:
    """Two A's and a B at the same time, then a C."""
    rows = [(t, 1, 1.0, str(i), [1], START + datetime.timedelta(seconds=t == "C")) for i, t in enumerate("AABC")]
    df = spark.createDataFrame(rows, SCHEMA)
    if refused:
        message = failing(df, query)
        assert "have the same time" in message
        assert "order_by=" in message
    else:
        ceql.spark.match(df, query, time="ts").collect()
    in_order = ceql.spark.match(df, query, time="ts", order_by="s", events="ids", id="s").collect()
    table = df.drop("list").orderBy("ts", "s").toArrow()
    whole = [tuple(m.events) for m in ceql.match(query, table, time="ts")]
    assert sorted(tuple(int(e) for e in row.events) for row in in_order) == sorted(whole)


def test_ties_of_different_keys_do_not_matter(spark: SparkSession) -> None:
    rows = [(t, k, 1.0, "", [1], START) for k in range(5) for t in "A"]
    df = spark.createDataFrame(rows, SCHEMA)
    assert ceql.spark.match(df, "SELECT NEXT * WHERE A PARTITION BY k", time="ts").count() == 5


def test_ties_that_order_by_does_not_break(spark: SparkSession) -> None:
    df = spark.createDataFrame([(t, 1, 1.0, "same", [1], START) for t in "AB"], SCHEMA)
    assert "and the same s" in failing(df, "SELECT * WHERE A ; B", order_by="s")


def test_nulls_of_order_by_tell_events_apart(spark: SparkSession) -> None:
    rows = [("A", START, 7, None), ("B", START, None, 7)]
    tied = spark.createDataFrame(rows, "type string, time timestamp, a int, b int")
    found = ceql.spark.match(tied, "SELECT NEXT * WHERE A ; B OR B ; A", order_by=["a", "b"])
    assert found.count() == 1
    ceql.spark.register(spark)
    tied.createOrReplaceTempView("tied")
    query = "SELECT NEXT * WHERE A ; B OR B ; A"
    table = spark.sql(
        f"SELECT * FROM ceql_match(TABLE(tied), query => '{query}', whole_table => true, order_by => array('a', 'b'))"
    )
    assert table.count() == 1


# --- collations ---


@pytest.mark.parametrize(
    ("query", "options", "said"),
    [
        ("SELECT * WHERE A PARTITION BY k", {}, "column 'k' is a key and has the collation UTF8_LCASE"),
        ("SELECT * WHERE (A ; B PARTITION BY k)", {}, "column 'k' is a key"),
        ("SELECT * WHERE A FILTER A[k = 'a']", {}, "column 'k' is compared and has the collation UTF8_LCASE"),
        ("SELECT * WHERE A FILTER A[k RLIKE 'a']", {}, "column 'k' is compared"),
        ("SELECT * WHERE A AS a ; B AS b FILTER a.k = b.k", {}, "column 'k' is compared"),
        ("SELECT * WHERE A+ AS a FILTER a[k = PREV.k]", {}, "column 'k' is compared"),
        ("SELECT MIN(a.k) AS m WHERE A+ AS a", {}, "column 'k' is compared"),
        ("SELECT * WHERE A FILTER A[o.k = 'a']", {}, "column 'o.k' is compared"),
        ("SELECT * WHERE A", {"order_by": "k"}, "column 'k' orders events"),
        ("SELECT * WHERE A", {"type": "k"}, "column 'k' has the events' types"),
        ({"one": "SELECT * WHERE A FILTER A[k = 'a']"}, {}, "query 'one': column 'k' is compared"),
    ],
)
def test_a_collation_is_refused_where_it_would_count(spark: SparkSession, query: Any, options: Any, said: str) -> None:
    with pytest.raises(ceql.SchemaError, match=re.escape(said)) as refused:
        ceql.spark.match(collated(spark), query, **options)
    assert "'UTF8_BINARY'" in str(refused.value)


def collated(spark: SparkSession) -> DataFrame:
    text = StringType("UTF8_LCASE")
    nested = StructType().add("k", text)
    schema = StructType().add("type", StringType()).add("time", TimestampType()).add("k", text).add("o", nested)
    moments = [START + datetime.timedelta(seconds=i) for i in range(4)]
    return spark.createDataFrame([("A", t, k, (k,)) for t, k in zip(moments, "aAbB", strict=True)], schema)


def test_a_collation_that_does_not_count_is_no_trouble(spark: SparkSession) -> None:
    df = collated(spark)
    shown = ceql.spark.match(df, "SELECT a, a.k AS k, UPPER(a.k) AS u WHERE A AS a")
    assert sorted((row.k, row.u, row.a[0].k) for row in shown.collect()) == [
        ("A", "A", "A"),
        ("B", "B", "B"),
        ("a", "A", "a"),
        ("b", "B", "b"),
    ]
    plain = df.withColumn("k", F.lower(F.collate("k", "UTF8_BINARY")))  # as the message says
    found = ceql.spark.match(plain, "SELECT * WHERE A ; A PARTITION BY k")
    assert sorted(row.k for row in found.collect()) == ["a", "b"]
    df.createOrReplaceTempView("collated")
    ceql.spark.register(spark)
    with pytest.raises(Exception, match="column 'k' is a key and has the collation UTF8_LCASE"):
        spark.sql(
            "SELECT * FROM ceql_match(TABLE(collated), query => 'SELECT * WHERE A PARTITION BY k', whole_table => true)"
        )


# --- streams ---


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(tmp_path_factory.mktemp("in")))


def test_a_stream_needs_a_watermark_on_its_time(stream: DataFrame) -> None:
    query = "SELECT * WHERE A ; B"
    with pytest.raises(ceql.SchemaError, match="needs a watermark"):
        ceql.spark.match(stream, query, time="ts")
    other = stream.withColumn("seen", F.col("ts")).withWatermark("seen", "1 second")
    with pytest.raises(ceql.SchemaError, match="the watermark is on 'seen', but time='ts'"):
        ceql.spark.match(other, query, time="ts")
    with pytest.raises(ceql.SchemaError, match="a stream's must be a timestamp"):
        ceql.spark.match(stream.withWatermark("ts", "1 second"), query, time="v", time_unit="s")


def test_an_aggregation_upstream_makes_append_impossible(stream: DataFrame) -> None:
    counted = stream.withWatermark("ts", "1 second").groupBy("type").agg(F.max("ts").alias("ts"))
    with pytest.raises(ceql.SchemaError, match="aggregates a stream"):
        ceql.spark.match(counted, "SELECT * WHERE A", time="ts")
    by_time = stream.withWatermark("ts", "1 second").groupBy(F.window("ts", "1 minute"), "type").count()
    with pytest.raises(ceql.SchemaError, match="aggregates a stream"):
        ceql.spark.match(by_time.withColumn("ts", F.window_time("window")), "SELECT * WHERE A", time="ts")


def test_a_join_of_streams_upstream_comes_too_late(stream: DataFrame, df: DataFrame) -> None:
    good = stream.withWatermark("ts", "1 second")
    other = stream.select(F.col("k"), F.col("ts").alias("other")).withWatermark("other", "1 second")
    with pytest.raises(ceql.SchemaError, match="joins two streams"):
        ceql.spark.match(good.join(other, "k"), "SELECT * WHERE A", time="ts")
    named = good.join(df.select("k", F.lit("name").alias("name")), "k")  # with a table it is no trouble
    assert "name" in ceql.spark.match(named, "SELECT * WHERE A", time="ts").schema["events"].simpleString()


def test_a_second_watermark_would_wait_for_itself(stream: DataFrame) -> None:
    query = "SELECT * WHERE A ; B PARTITION BY k"
    good = stream.withWatermark("ts", "1 second")
    found = ceql.spark.match(good, query, time="ts")
    derived = found.select("k", found.end_time).where("k IS NOT NULL").withColumn("late", F.col("end_time"))
    together = ceql.spark.match(good, {"one": query}, time="ts")
    for frame in (found, derived, found.transform(ceql.spark.matches_to_rows), together):
        with pytest.raises(ceql.ArgumentError, match="would give nothing, ever"):
            frame.withWatermark("end_time", "1 second")
    assert derived.columns == ["k", "end_time", "late"]
    assert derived.groupBy("k").count().isStreaming


def test_options_of_the_other_kind_are_refused(stream: DataFrame) -> None:
    good = stream.withWatermark("ts", "1 second")
    with pytest.raises(ValueError, match="a stream has buckets="):
        ceql.spark.match(good, "SELECT * WHERE A", time="ts", partitions=3)
    with pytest.raises(ValueError, match="at least 1"):
        ceql.spark.match(good, "SELECT * WHERE A", time="ts", buckets=0)
    with pytest.raises(ceql.SchemaError, match="already a column"):
        ceql.spark.match(good, "SELECT * WHERE A", time="ts", late="A")


def test_streams_and_tables_do_not_mix(stream: DataFrame, df: DataFrame) -> None:
    frames = {"S": stream.withWatermark("ts", "1 second"), "T": df}
    with pytest.raises(ceql.SchemaError, match="make them all one kind"):
        ceql.spark.match(frames, "SELECT * FROM S, T WHERE A", time="ts")
