"""MATCH_RECOGNIZE on Spark: a statement over tables and views in, a DataFrame out.

Spark runs what stands around MATCH_RECOGNIZE, and the rows that it reads. The clause itself is one exchange by the keys
of PARTITION BY, a sort in each task, and `row_patterns.plan` over the keys of a task, some at a time. The sort brings
the rows of a key together by a hash of the keys: Spark sorts one number by its digits, and compares rows where there
are several columns. The plan puts the rows of each key in order. The result is a temporary view, whose name stands in
the statement in the clause's place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa

from ceql.errors import QueryError
from ceql.spark.guard_columns import quoted
from ceql.spark.prepare import WATERMARK
from ceql.spark.streaming_checks import refusing
from ceql.spark.task_report import reported

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from ceql.row_patterns.dialects import Dialect, Function
    from ceql.row_patterns.plan import Plan
    from ceql.row_patterns.statement import Found, RowPattern, Statement

ROWS_AT_ONCE = 1_000_000
"""About so many rows are matched at a time in a task, and always all rows of a key."""
HASH = "\x1ehash"
"""The column of the hash of the keys; no column of a user is called so."""
_views = count(1)


def sql(
    spark: SparkSession,
    statement: str,
    *,
    dialect: str = "spark",
    functions: Mapping[str, Function] | None = None,
    now: datetime | None = None,
) -> DataFrame:
    """The result of a statement with MATCH_RECOGNIZE over the tables and views of a session, as a DataFrame.

    Everything around the clause is Spark's own SQL: joins, WITH, subqueries, GROUP BY. `dialect` says how the inside of
    MATCH_RECOGNIZE is read ("spark", "trino", "flink", "oracle", "snowflake", "databricks", "duckdb"). `functions` and
    `now` are those of `ceql.match_recognize`, for the inside of the clause. What cannot be evaluated is a
    `ceql.QueryError` that names all of it, before any job runs.

    Over a view of a streaming DataFrame with a watermark, ORDER BY begins with the watermarked time, and a match comes
    out once no row to come can change it. This needs sqlglot: pip install 'ceql[sql]'.
    """
    from ceql.row_patterns.clauses import read
    from ceql.row_patterns.dialects import dialect_of

    told = dialect_of(dialect, functions, now)
    parsed = read(statement, told)
    name = f"ceql_{uuid4().hex[:8]}_{next(_views)}"
    names = tuple(f"{name}_{number}" for number in range(1, len(parsed.found) + 1))
    around = type(parsed)(statement, parsed.dialect, parsed.found, names)
    for number, found in enumerate(parsed.found):
        _matched(spark, around, found, number, told).createOrReplaceTempView(names[number])
    result = spark.sql(around.around)
    return refusing(result, waits=True) if result.isStreaming else result


def _matched(spark: SparkSession, statement: Statement, found: Found, number: int, dialect: Dialect) -> DataFrame:
    """The result of one clause."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    from ceql.row_patterns.plan import Plan
    from ceql.row_patterns.rows import names_of
    from ceql.spark.result_types import arrow_types

    rows = spark.sql(f"{_with(statement, number)}SELECT * FROM {found.source.text}")
    if len(set(map(str.lower, rows.columns))) < len(rows.columns):
        raise QueryError("the rows have several columns of one name", statement.sql, found.source.span, "Rename one.")
    clause = found.clause
    given = arrow_types(rows.schema, spark.conf.get("spark.sql.session.timeZone") or "UTC")
    plan = Plan(clause, statement.sql, given.names)
    schema = from_arrow_schema(plan.check(given))
    partition, order = names_of(clause, given.names, statement.sql)
    if rows.isStreaming:
        return _streamed(rows, plan, given, partition, schema, partial(_plan_of, statement.sql, number, dialect))
    wanted = {*partition, *(name for name, _ in order), *_named(clause, given.names)}
    rows = rows.select(*(quoted(name) for name in given.names if name in wanted))
    if partition:
        hashed = rows.withColumn(HASH, f.hash(*(f.col(quoted(name)) for name in partition)))
        placed = hashed.repartition(HASH).sortWithinPartitions(HASH)
    else:
        placed = rows.repartition(1)
    task = _task(statement.sql, number, dialect, arrow_types(schema))
    return placed.mapInArrow(reported("MATCH_RECOGNIZE", task), schema)


def _named(clause: RowPattern, names: list[str]) -> list[str]:
    """The columns that the result or a condition may name, or the first: rows are counted by it."""
    from sqlglot import exp

    if clause.all_rows:
        return names
    within = () if clause.within is None else (clause.within,)
    trees = [*(measure.expression for measure in clause.measures), *clause.define.values(), *within]
    said = {each.name.lower() for tree in trees for each in tree.find_all(exp.Identifier, exp.Column, exp.Var)}
    return [name for name in names if name.lower() in said] or names[:1]


def _with(statement: Statement, number: int) -> str:
    """The common table expressions that the rows of a clause may name: those before it."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError

    if not re.match(r"\s*with\b", statement.around, re.IGNORECASE):
        return ""
    try:
        around = sqlglot.parse_one(statement.around, dialect="spark")
    except ParseError as error:
        text = error.errors[0].get("description") if error.errors else str(error)
        raise QueryError(f"the SQL around MATCH_RECOGNIZE cannot be read: {text}", statement.sql) from None
    own = around.args.get("with_")
    if own is None:
        return ""
    before = []
    for each in own.expressions:
        named = {table.name for table in each.find_all(exp.Table)}
        if named & set(statement.names[number:]):
            break
        before.append(each.sql("spark"))
    return f"WITH {', '.join(before)} " if before else ""


def _task(
    sql: str, number: int, dialect: Dialect, schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan: Plan | None = None
        for rows in whole_keys(batches):
            plan = plan or _plan_of(sql, number, dialect, rows.column_names)
            result = plan.run(rows)
            yield from result.cast(schema).to_batches(max_chunksize=100_000)

    return run


def _plan_of(sql: str, number: int, dialect: Dialect, columns: list[str]) -> Plan:
    """The plan of a clause, in a worker."""
    from ceql.row_patterns.clauses import read
    from ceql.row_patterns.plan import Plan

    return Plan(read(sql, dialect).found[number].clause, sql, columns)


def _streamed(
    rows: DataFrame, plan: Plan, given: pa.Schema, partition: list[str], schema: StructType, make: Callable[..., Plan]
) -> DataFrame:
    """The result of a clause over a streaming DataFrame."""
    from ceql.row_patterns.stream import check_stream
    from ceql.spark.result_types import arrow_types
    from ceql.spark.row_pattern_stream import StreamTask, matched
    from ceql.spark.streaming_checks import check_streaming

    order = plan.clause.order
    time = order[0].expression.name if order else next((f.name for f in rows.schema if WATERMARK in f.metadata), "")
    time = next((name for name in rows.columns if name.lower() == time.lower()), time)
    check_streaming(rows, time)
    check_stream(plan, time)
    task = StreamTask(plan.sql, make, given, arrow_types(schema), time)
    return matched(rows, task, schema, partition)


def whole_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows that are sorted by the hash of their keys, in tables that have all rows of each key that they have."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows < ROWS_AT_ONCE or HASH not in batch.schema.names or held[0][HASH][0] == batch[HASH][-1]:
            continue
        table = pa.Table.from_batches(held)
        hashes = table[HASH].to_numpy()
        cut = int(np.searchsorted(hashes, hashes[-1]))
        yield _without_hash(table.slice(0, cut))
        held = table.slice(cut).combine_chunks().to_batches()
        rows -= cut
    if rows:
        yield _without_hash(pa.Table.from_batches(held))


def _without_hash(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([HASH]) if HASH in rows.column_names else rows
