"""Totals over all matches on Spark: each task adds up its own, and one more stage adds up what they found.

A task gives partial totals, a row for each group. They are shuffled by group, since the matches of a group may be
spread over tasks, and added up. So as many rows are shuffled as there are groups in each task, however many matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from ceql.analysis.aggregates import read_summaries
from ceql.errors import ArgumentError
from ceql.io.schemas import one_batch
from ceql.jit import Array
from ceql.plan import make_plan
from ceql.query import Query
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.graph_totals import follow
from ceql.recognition.options import Options
from ceql.recognition.totals import Totals
from ceql.recognition.totals_table import Every, Layout, Request
from ceql.spark.batch import rows_in_tasks
from ceql.spark.match_options import MatchArguments
from ceql.spark.prepare import Frames, check_order, prepare
from ceql.spark.result_rows import spark_type
from ceql.spark.task_recognizer import Task, TaskRecognizer, task_of
from ceql.spark.task_report import reported
from ceql.spark.task_spec import TaskSpec, key_column, own_name

WHOLE = pa.decimal128(38, 0)
"""The type of whole numbers: Spark has none that is wider, and must know it beforehand."""


def aggregate(
    df: Frames,
    query: str | Query,
    columns: Mapping[str, str] | None = None,
    /,
    *,
    by: Sequence[str] | str = (),
    every: Every = None,
    type: str = "type",
    time: str = "time",
    time_unit: str | None = None,
    order_by: str | Sequence[str] = (),
    partitions: int | None = None,
    memory: int = 4 << 30,
    max_states: int = 1 << 16,
    **more: str,
) -> DataFrame:
    """Totals over all matches of a query, as a lazy DataFrame: `ceql.Matches.aggregate` on Spark, for batches.

    `aggregate(payments, query, n="COUNT(*)", total="SUM(b.amount)", by=["card"], every="1 minute")`. A column that is
    called like an argument is given in a dict: `aggregate(payments, query, {"time": "MAX(b.time)"})`.

    Whole numbers are DECIMAL(38, 0); one that has more digits is a `DataError`. The other arguments are those of
    `match`.
    """
    check_order("aggregate", df, query)
    plan = query.plan if isinstance(query, Query) else make_plan(query)
    keys = (by,) if isinstance(by, str) else tuple(by)
    request = Request(read_summaries(plan.query, {**(columns or {}), **more}), keys, every)
    if any(frame.isStreaming for frame in (df.values() if isinstance(df, Mapping) else [df])):
        raise ArgumentError(
            "aggregate is for batches: of a stream, take match(), and add its rows up in foreachBatch() or in a second "
            "streaming query that reads them"
        )
    options = Options(type, time, time_unit, memory=memory, max_states=max_states)
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    prepared = prepare(df, plan, MatchArguments(options, order, read=request.attributes))
    layout = Aggregation(request, prepared.bound).layout
    layout = replace(
        layout,
        keys=tuple(map(spark_type, layout.keys)),
        time=None if layout.time is None else spark_type(layout.time),
        types=tuple(map(spark_type, layout.types)),
    )
    rows = rows_in_tasks(prepared, partitions)
    shipped = replace(request, by=tuple(own_name(key_column(prepared.spec.keys.index(key))) for key in keys))
    task = task_of(partial(_Adding, prepared.spec, shipped, layout))
    parts = rows.mapInArrow(reported("aggregate", task), _spark_schema(layout.partial_schema))
    groups = [name for name, _ in layout.groups]
    if groups:
        parts = parts.repartition(*groups)
    else:  # if nothing matches, there is a row all the same
        nothing = [tuple(layout.partial(Totals(request.slots)).to_pylist()[0].values())]
        parts = parts.unionAll(parts.sparkSession.createDataFrame(nothing, parts.schema)).repartition(1)
    return parts.mapInArrow(
        reported("unite", _uniting(layout)), _spark_schema(layout.table(Totals(request.slots), WHOLE).schema)
    )


def _spark_schema(schema: pa.Schema) -> StructType:
    return StructType([StructField(field.name, from_arrow_type(field.type)) for field in schema])


class _Adding(TaskRecognizer):
    """Adds up the matches of a task, for a request over the view and the layout of the whole result."""

    def __init__(self, spec: TaskSpec, request: Request, layout: Layout, schema: pa.Schema) -> None:
        super().__init__(spec, schema)
        self._layout = layout
        self.aggregation = Aggregation(request, self.recognition.bound)
        follow(self.aggregation, self.recognition, self._take)

    def _take(self, positions: Array) -> pa.RecordBatch:
        return one_batch(self.rows.take(positions))

    def _find_main(self, main: pa.Array) -> None:
        super()._find_main(main)
        self.aggregation.begin = self._emit_from

    def _results(self, number: int, found: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield from ()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What is left to do, and then the totals."""
        yield from super().finish()
        yield self._partial()

    def _partial(self) -> pa.RecordBatch:
        """The totals, under the names and types of the result."""
        own = self.aggregation.layout.partial(self.aggregation.totals)
        wanted = self._layout.partial_schema
        columns = [column.cast(field.type) for column, field in zip(own.columns, wanted, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _uniting(layout: Layout) -> Task:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        totals = Totals(layout.request.slots)
        for batch in batches:
            layout.add_partial(totals, batch)
        yield from layout.table(totals, WHOLE).to_batches()

    return run
