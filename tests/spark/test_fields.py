"""Fields of nested columns: `match` reads them; the table function says how to make columns of them."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import ceql.spark

ROWS = [("T", 1, ("/", (7,))), ("T", 2, ("/x", (8,))), ("S", 3, ("/", (7,)))]
SCHEMA = "type string, time long, ctx struct<path: string, user: struct<id: long>>"


@pytest.mark.parametrize(
    ("query", "times"),
    [
        ("SELECT * WHERE T AS t FILTER t[ctx.path = '/']", [(1, 1)]),
        ("SELECT * WHERE T AS t ; S AS s FILTER t.ctx.user.id = s.ctx.user.id", [(1, 3)]),
        ("SELECT * WHERE T AS t ; S AS s FILTER t.ctx.user.id > s.ctx.user.id", [(2, 3)]),
        ("SELECT * WHERE T ; S PARTITION BY `ctx.user.id`", [(1, 3)]),
    ],
)
def test_fields(spark: SparkSession, query: str, times: list[tuple[int, int]]) -> None:
    found = ceql.spark.match(spark.createDataFrame(ROWS, SCHEMA), query).collect()
    assert [(row.start_time, row.end_time) for row in found] == times


def test_the_table_function_says_what_to_do(spark: SparkSession) -> None:
    spark.createDataFrame(ROWS, SCHEMA).createOrReplaceTempView("calls")
    ceql.spark.register(spark)
    sql = "SELECT * FROM ceql_match(TABLE({}), query => :query, whole_table => true)"
    query = {"query": "SELECT * WHERE T AS t FILTER t[ctx.path = '/']"}
    with pytest.raises(AnalysisException, match=r"'ctx\.path' is a field, and the function reads columns"):
        spark.sql(sql.format("calls"), query)
    made = sql.format("SELECT *, ctx.path AS `ctx.path` FROM calls")
    assert [row.start_time for row in spark.sql(made, query).collect()] == [1]
