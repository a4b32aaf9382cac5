"""The table function for SQL: `ceql_match(TABLE(payments) PARTITION BY card ORDER BY time, query => '...')`.

Spark calls `Match.analyze` while it analyses the SQL, with the columns of the TABLE argument and the constant
arguments. `analyze` answers with the columns of the result and with the columns to ship, under the names of
`task_spec`. It finds whatever is wrong with a query or a schema. The tasks get Arrow batches. `arrow_udtf` refuses
functions with an `analyze` method (SPARK-53286), but only where it makes the function: Spark itself, and `register`,
take them.

A task could silently get the wrong rows. Without PARTITION BY it gets any rows in any order, and Spark does not tell
`analyze`. So the shipped columns include an expression that Spark folds away where the rows have the column that
PARTITION BY adds, and that raises an error at the first row where they have not. With `whole_table => true` the
function asks for partitions and order itself. In every case the task checks the order of the rows as they come.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import DataType, StringType, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, OrderingColumn, PartitioningColumn, SelectedColumn
from pyspark.util import PythonEvalType

from ceql.errors import SchemaError
from ceql.plan import make_plan
from ceql.plans import Plan
from ceql.recognition.bound_plan import BoundPlan, compared_attributes
from ceql.spark.collations import collations, refuse_collations
from ceql.spark.fields import refuse_fields
from ceql.spark.guard_columns import quoted
from ceql.spark.key_expressions import key_text, keys_as_text, order_text
from ceql.spark.match_options import MatchArguments, read_match
from ceql.spark.prepare import (
    arrow_schema,
    check_time,
    require_column,
    shown_attributes,
)
from ceql.spark.result_types import result_schema
from ceql.spark.table_task import PARTITION, SortColumns, TableTask
from ceql.spark.task_spec import ORDER, TIME, TaskSpec, attribute_column, key_column
from ceql.spark.worker_errors import by_message
from ceql.syntax import tree as t

_BUCKETS = 256
"""The number of partitions into which the keys of a whole table are divided."""
_ADDED = "partition_by_0"
"""The column that Spark adds to the rows of a TABLE argument with PARTITION BY."""


def register(spark: SparkSession, name: str = "ceql_match") -> None:
    """Make the table function known to `spark.sql` under this name.

        SELECT end_time, size(events) FROM ceql_match(
            TABLE(payments) PARTITION BY card ORDER BY time,
            query => 'SELECT * WHERE Payment AS p ; Withdrawal AS w WITHIN 10 MINUTES')

    Further arguments, by name: `type`, `time`, `time_unit`, `order_by`, `events` and `id` as in `ceql.spark.match`;
    `whole_table => true` reads a TABLE without PARTITION BY as one stream. The columns of the result are those of
    `ceql.spark.match`.
    """
    function: Any = udtf(Match)
    function.evalType = PythonEvalType.SQL_ARROW_UDTF
    spark.udtf.register(name, function)


@dataclass
class Analysis(AnalyzeResult):
    """The answer of `analyze`, together with the task that Spark sends to its workers."""

    task: TableTask | None = None


class Match:
    """The table function; Spark makes one for every partition of the TABLE argument, the tasks' work is shared."""

    def __init__(self, analysis: Analysis) -> None:
        assert analysis.task is not None
        self._task = analysis.task

    @staticmethod
    def analyze(
        table: AnalyzeArgument,
        query: AnalyzeArgument,
        type: AnalyzeArgument | None = None,
        time: AnalyzeArgument | None = None,
        time_unit: AnalyzeArgument | None = None,
        order_by: AnalyzeArgument | None = None,
        events: AnalyzeArgument | None = None,
        id: AnalyzeArgument | None = None,
        whole_table: AnalyzeArgument | None = None,
    ) -> Analysis:
        """The columns of the result, and what is to be shipped; `QueryError` and `SchemaError` say what is wrong."""
        if not table.isTable or not isinstance(table.dataType, StructType):
            raise SchemaError("the first argument must be a table: write TABLE(name) or TABLE(SELECT ...)")
        given = {
            "type": _text(type, "type") or "type",
            "time": _text(time, "time") or "time",
            "time_unit": _text(time_unit, "time_unit"),
            "order_by": _texts(order_by, "order_by"),
            "events": _text(events, "events") or "rows",
            "id": _text(id, "id"),
        }
        arguments = read_match(given)
        source = _text(query, "query")
        if source is None:
            raise SchemaError("the argument 'query' is NULL: pass the text of a query")
        whole = _constant(whole_table, "whole_table") if whole_table is not None else False
        if not isinstance(whole, bool):
            raise SchemaError("the argument 'whole_table' must be true or false")
        return analyse(table.dataType, make_plan(source), arguments, whole)

    def eval(self, table: pa.RecordBatch, *constants: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        """Rows of one partition."""
        return by_message(self._task.add(table))

    def terminate(self) -> Iterator[pa.RecordBatch]:
        """The partition has no more rows.

        Small partitions are recognised together with those that follow. That is a hundred times faster when there are
        many, but Spark does not say whether others follow: its caller here does. Where the caller is unknown, no
        partition waits.
        """
        others = sys._getframe(1).f_code.co_name == "_process_arrow_batch_by_partitions"
        return by_message(self._task.end(others))

    def cleanup(self) -> None:
        """The end of the task: nothing may be left that waits."""
        if self._task.waits and sys.exc_info()[0] is None:
            raise RuntimeError("partitions were left unrecognised: this version of Spark is not supported by ceql")


def analyse(columns: StructType, plan: Plan, arguments: MatchArguments, whole: bool) -> Analysis:
    """Bind a query to the columns of a TABLE argument."""
    if len(plan.query.streams) > 1:
        raise SchemaError(
            f"FROM names {len(plan.query.streams)} streams, and the function has one table: unite them in "
            "TABLE(SELECT ... UNION ALL SELECT ...) with a column of types, or use ceql.spark.match"
        )
    if f"{_ADDED}:" in columns.simpleString():
        raise SchemaError(f"a column is called '{_ADDED}', as one that Spark adds to the table; rename it")
    schema = arrow_schema(columns, "UTC")
    refuse_fields(schema, arguments.options.nested(plan.dotted))
    check_time(arguments.options, schema)
    names = plan.query.streams or (None,)
    untyped = arguments.options.untyped([schema])
    bound = BoundPlan(plan, schema, tuple(names), arguments.options, untyped=untyped)
    refuse_collations(collations([columns]), bound, arguments.order_by)
    types: dict[str, DataType] = {
        f.name: StringType() if isinstance(f.dataType, StringType) else f.dataType for f in columns.fields
    }
    shown = shown_attributes(arguments, plan, schema)
    for name in arguments.order_by:
        require_column(name, schema, "order_by")
    keys = [key_text(part, k, bound, 0, types) for k, part in enumerate(plan.partition)]
    reads = bound.needed_columns()
    spec = TaskSpec(
        query=plan.source,
        options=replace(arguments.options, lateness=0),
        attributes=tuple(dict.fromkeys([*shown, *reads])),
        keys=tuple(name for name, _ in bound.result.keys),
        key_columns=(*map(key_column, range(len(keys))), PARTITION),
        compared=compared_attributes(plan),
        keys_as_text=keys_as_text(plan, types),
        shown=shown,
        ids=arguments.ids,
        exact=(),
        undecided=tuple(range(len(plan.guards))),
        type=bound.type,
        streams=tuple(names),
        untyped=untyped,
        ordered_by=arguments.order_by,
        flat=arguments.flat,
    )
    time = str(arguments.options.time)
    sort = SortColumns(time, arguments.order_by, given=whole)
    alone = plan.query.consume is t.Consume.ANY  # it forgets the events of all substreams
    analysis = Analysis(
        schema=result_schema(bound, spec, types),
        select=_shipped(spec, time, keys, arguments.order_by, whole),
        task=TableTask(spec, tuple(reads), sort, together=not alone),
    )
    if whole:
        if keys and not alone:
            analysis.partitionBy = [PartitioningColumn(f"pmod(xxhash64({', '.join(keys)}), {_BUCKETS})")]
        else:
            analysis.withSinglePartition = True
        analysis.orderBy = [OrderingColumn(quoted(name)) for name in (time, *arguments.order_by)]
    return analysis


def _shipped(
    spec: TaskSpec, time: str, keys: list[str], order_by: tuple[str, ...], whole: bool
) -> list[SelectedColumn]:
    """The shipped columns, each with its expression."""
    columns = [SelectedColumn(quoted(time), TIME)]
    columns += [SelectedColumn(key, key_column(k)) for k, key in enumerate(keys)]
    if order_by:
        columns.append(SelectedColumn(order_text(order_by), ORDER))
    columns += [SelectedColumn(quoted(name), attribute_column(name)) for name in spec.attributes]
    if not whole:
        columns += [SelectedColumn(quoted(name), f"o_{k}") for k, name in enumerate(order_by)]
        message = (
            f"the function does not know which rows of its TABLE argument make up a stream: write PARTITION BY ... "
            f"ORDER BY {time} after TABLE(...), or pass whole_table => true, for a table that is one stream, without "
            "WITH SINGLE PARTITION"
        )
        columns.append(
            SelectedColumn(f"assert_true(typeof(struct(*)) LIKE '%,{_ADDED}:%', '{message}')", "partitioned")
        )
    return columns


def _constant(argument: AnalyzeArgument, name: str) -> Any:
    if not argument.isConstantExpression:
        raise SchemaError(f"the argument '{name}' must be a constant")
    return argument.value


def _text(argument: AnalyzeArgument | None, name: str) -> str | None:
    value = _constant(argument, name) if argument is not None else None
    if value is not None and not isinstance(value, str):
        raise SchemaError(f"the argument '{name}' must be text, not {value!r}")
    return value


def _texts(argument: AnalyzeArgument | None, name: str) -> tuple[str, ...]:
    value = _constant(argument, name) if argument is not None else None
    texts = (value,) if isinstance(value, str) else tuple(value or ())
    if not all(isinstance(text, str) for text in texts):
        raise SchemaError(f"the argument '{name}' must be the name of a column, or array('a', 'b') of several")
    return texts
