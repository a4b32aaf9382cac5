"""The table function gives what `match` gives, in whatever way the TABLE argument is divided, or refuses."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import ceql.spark

QUERY = "SELECT * WHERE Payment AS p ; Withdrawal AS w FILTER p[amount > 5] WITHIN 10 MINUTES"
KEYED = QUERY.replace("WITHIN", "PARTITION BY [card] WITHIN")
JOINED = QUERY.replace("p[amount > 5]", "p.card = w.card AND p.amount > w.amount")
BEGIN = datetime(2026, 3, 1, 12)


@pytest.fixture(scope="module", autouse=True)
def payments(spark: SparkSession) -> DataFrame:
    """400 events of 30 cards, of which one has no number, in no order; `pos` tells events of the same time apart."""
    draw = random.Random(7)
    rows = [
        (
            k,
            draw.choice(["Payment", "Withdrawal", "Login"]),
            draw.choice([None, *(f"c{n}" for n in range(30))]),
            float(draw.randrange(10)),
            BEGIN + timedelta(seconds=20 * (k // 2)),
        )
        for k in range(400)
    ]
    draw.shuffle(rows)
    df = spark.createDataFrame(rows, "pos long, type string, card string, amount double, time timestamp").repartition(3)
    df.createOrReplaceTempView("payments")
    ceql.spark.register(spark)
    return df


def call(spark: SparkSession, division: str, query: str, **options: Any) -> DataFrame:
    given = "".join(f", {name} => {value!r}" for name, value in options.items())
    return spark.sql(f"SELECT * FROM ceql_match(TABLE(payments) {division}, query => :query {given})", {"query": query})


def rows(df: DataFrame) -> Counter[str]:
    return Counter(str(row) for row in df.collect())


DIVIDED = "PARTITION BY card ORDER BY (time, pos)"


@pytest.mark.parametrize(
    ("division", "query", "options"),
    [
        (DIVIDED, KEYED, {}),
        ("PARTITION BY (upper(card), 1) ORDER BY (time, pos)", KEYED, {}),
        ("PARTITION BY true ORDER BY (time, pos)", QUERY, {}),
        ("", KEYED, {"whole_table": True}),
        ("", QUERY, {"whole_table": True}),
        ("", KEYED + " CONSUME BY ANY", {"whole_table": True}),
        ("", JOINED, {"whole_table": True}),
        (DIVIDED, JOINED, {}),
        (DIVIDED, KEYED.replace("*", "p[pos], w[pos, card]"), {}),
        (DIVIDED, KEYED, {"events": "ids", "id": "pos"}),
    ],
)
def test_equals_match(spark: SparkSession, payments: DataFrame, division: str, query: str, options: Any) -> None:
    shown = {name: value for name, value in options.items() if name != "whole_table"}
    expected = ceql.spark.match(payments, query, order_by="pos", **shown)
    found = call(spark, division, query, order_by="pos", **options)
    assert found.schema == expected.schema
    assert rows(found) == rows(expected)
    assert rows(found)


def test_the_partitions_of_sql_are_streams(spark: SparkSession, payments: DataFrame) -> None:
    """Without keys of its own the query is run over every partition by itself, that of NULL included."""
    found = call(spark, DIVIDED, QUERY, order_by="pos", events="ids", id="pos")
    with_null = payments.selectExpr("pos", "type", "coalesce(card, '') AS card", "amount", "time")
    expected = ceql.spark.match(with_null, KEYED, order_by="pos", events="ids", id="pos").drop("card")
    assert found.columns == expected.columns
    assert rows(found) == rows(expected)


def test_long_and_short_partitions(spark: SparkSession) -> None:
    """Partitions longer than what is recognised at once, among many short ones."""
    table = "SELECT id AS pos, IF(id % 7 = 0, 'A', IF(id % 1000 = 1, 'B', 'C')) AS type, id AS time, id % 3 AS k, "
    table += "IF(id < 1000, id DIV 3, -(id % 2)) AS g FROM range(200000)"
    query = "SELECT * WHERE A AS a ; B AS b WITHIN 20 [time]"
    keyed = query.replace("WITHIN", "PARTITION BY [g] WITHIN")
    found = spark.sql(
        f"SELECT * FROM ceql_match(TABLE({table}) PARTITION BY g ORDER BY time, query => '{query}', "
        "events => 'ids', id => 'pos')"
    )
    expected = ceql.spark.match(spark.sql(table), keyed, events="ids", id="pos").drop("g")
    assert rows(found) == rows(expected)
    assert rows(found)


def test_select_join_and_view(spark: SparkSession) -> None:
    spark.sql(f"""
        CREATE OR REPLACE TEMPORARY VIEW withdrawn AS
        SELECT card, end_time, size(events) AS n, w[0].amount AS amount FROM ceql_match(
            TABLE(SELECT * FROM payments WHERE amount < 9) {DIVIDED}, query => '{KEYED}', order_by => 'pos')""")
    joined = spark.sql("""
        SELECT v.n, o.owner, count(*) AS matches FROM withdrawn v JOIN VALUES ('c1', 'Ada') AS o(card, owner)
        USING (card) GROUP BY ALL""").collect()
    expected = spark.sql("SELECT count(*) FROM withdrawn WHERE card = 'c1'").collect()[0][0]
    assert expected
    assert [tuple(row) for row in joined] == [(2, "Ada", expected)]


def test_names_of_columns(spark: SparkSession) -> None:
    """Positional arguments, and columns of other names; plain numbers are times with a unit."""
    spark.sql("""
        CREATE OR REPLACE TEMPORARY VIEW odd AS
        SELECT * FROM VALUES ('A', 1, 'x'), ('B', 3, 'x'), ('B', 9, 'x') AS t(`a kind`, `at.s`, k)""")
    found = spark.sql("""
        SELECT start_time, end_time FROM ceql_match(TABLE(odd) PARTITION BY (k) ORDER BY (`at.s`),
        'SELECT * WHERE A ; B WITHIN 5 SECONDS', type => 'a kind', time => 'at.s', time_unit => 's')""")
    assert [tuple(row) for row in found.collect()] == [(1, 3)]


@pytest.mark.parametrize(
    ("query", "options", "expected"),
    [
        ("SELECT * WHERE Payment AND", {}, "  SELECT * WHERE Payment AND\n"),
        (QUERY.replace("amount", "amuont"), {}, "Did you mean 'amount'?"),
        (QUERY, {"time": "tiem"}, "the events have no column 'tiem'"),
        (QUERY, {"order_by": "tiem"}, "Did you mean 'time'?"),
        (QUERY, {"events": "ids"}, "events='ids' needs id="),
        (QUERY, {"time": 3}, "the argument 'time' must be text"),
        (QUERY, {"whole_table": "yes"}, "'whole_table' must be true or false"),
        (QUERY.replace("WHERE", "FROM S, T WHERE"), {}, "FROM names 2 streams"),
    ],
)
def test_what_is_wrong_is_said_before_the_job(spark: SparkSession, query: str, options: Any, expected: str) -> None:
    with pytest.raises(AnalysisException) as error:
        call(spark, DIVIDED, query, **options)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("division", "options", "expected"),
    [
        ("", {}, "write PARTITION BY ... ORDER BY time after TABLE(...), or pass whole_table => true"),
        ("WITH SINGLE PARTITION ORDER BY time", {}, "write PARTITION BY ... ORDER BY time after TABLE(...)"),
        ("PARTITION BY card", {}, "not in order of 'time': write PARTITION BY ... ORDER BY time"),
        ("PARTITION BY 1 ORDER BY time", {}, "two events of one substream have the same time"),
        ("PARTITION BY 1 ORDER BY (time, amount)", {"order_by": "pos"}, "ORDER BY (time, pos)"),
    ],
)
def test_rows_that_would_give_wrong_matches(spark: SparkSession, division: str, options: Any, expected: str) -> None:
    found = call(spark, division, QUERY, **options)
    with pytest.raises(PySparkException) as error:
        found.limit(1).collect()  # even a job that looks at the first task alone
    assert expected in str(error.value)


def test_partition_by_where_the_function_divides_itself(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="specified the WITH SINGLE PARTITION or PARTITION BY clause"):
        call(spark, DIVIDED, QUERY, whole_table=True)
