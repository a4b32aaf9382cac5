"""MATCH_RECOGNIZE over a streaming DataFrame: its rows are matched in order of the watermarked time.

    rows ─► pack ─► shuffle by bucket ─► step (state: the rows that may still be of a match) ─► unpack ─► result

This is the way of `streaming`, with `row_patterns.stream` in the stateful step. A row waits until the watermark has
passed its time. Rows that come later still, and rows without a time, are counted under `observedMetrics` in the
query's progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)
from pyspark.sql.types import StructType

from ceql.errors import DataError
from ceql.recognition.snapshot import to_ipc
from ceql.spark.extras import KIND, LATE, MATCHES, REJECTED
from ceql.spark.guard_columns import quoted
from ceql.spark.packing import BUCKET, CLOCK, PACKED, ROWS, SEAL, Packing, pack
from ceql.spark.packing import DATA as BLOB
from ceql.spark.prepare import WATERMARK
from ceql.spark.streaming import STATE, from_ipc, step_row, stepped, unpacker
from ceql.spark.task_metrics import observed_name
from ceql.spark.task_report import reported
from ceql.spark.worker_errors import message_alone

if TYPE_CHECKING:
    from ceql.row_patterns.plan import Plan
    from ceql.row_patterns.stream import Stream

BUCKETS = 8
"""The number of states that the keys are divided into."""
_STATEMENT = b"statement"


@dataclass(frozen=True)
class StreamTask:
    """What the stateful step needs: the statement, from which a worker makes the plan, and the rows' columns."""

    sql: str
    make: Callable[[list[str]], Plan]
    schema: pa.Schema
    result: pa.Schema
    time: str

    def stream(self, kept: bytes | None) -> Stream:
        """The stream that goes on from what was kept."""
        from ceql.row_patterns.stream import Stream

        if kept is None:
            return Stream(self._plan, self.schema, self.time)
        table = pa.Table.from_batches(from_ipc(kept))
        if (table.schema.metadata or {}).get(_STATEMENT) != self.sql.encode():
            raise DataError("the checkpoint is of another statement with MATCH_RECOGNIZE: start with a new checkpoint")
        return Stream(self._plan, self.schema, self.time, table.replace_schema_metadata(None))

    def kept(self, stream: Stream) -> bytes:
        table = stream.kept.replace_schema_metadata({_STATEMENT: self.sql.encode()})
        return to_ipc(table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)])

    @cached_property
    def _plan(self) -> Plan:
        return self.make(self.schema.names)


def matched(rows: DataFrame, task: StreamTask, schema: StructType, partition: list[str]) -> DataFrame:
    """The result of a clause over a streaming DataFrame."""
    delay = int(rows.schema[task.time].metadata[WATERMARK])
    keys = [F.col(quoted(name)) for name in partition]
    bucket = F.pmod(F.hash(*keys), F.lit(BUCKETS)) if keys else F.lit(0)
    shipped = rows.select(bucket.alias(BUCKET), *(F.col(quoted(name)) for name in rows.columns))
    clock = F.lit(None).cast("timestamp").alias(CLOCK, metadata={WATERMARK: delay})
    division = Packing(BUCKET, tuple((name, name) for name in rows.columns), range(BUCKETS if keys else 1))
    packing = reported("pack", partial(pack, (division,)))
    blobs = shipped.mapInArrow(packing, PACKED).withColumn(CLOCK, clock)
    found = stepped(blobs, RowPatternStep(task))

    def count(kind: int, name: str) -> Any:
        return F.coalesce(F.sum(F.when(F.col(KIND) == kind, F.col(ROWS))), F.lit(0)).alias(name)

    counts = (count(LATE, "late_rows"), count(REJECTED, "rejected_rows"), count(MATCHES, "rows"))
    counted = found.observe(observed_name(), *counts)
    return counted.mapInArrow(unpacker(schema), schema)


class RowPatternStep(StatefulProcessor):
    """The stateful step, as transformWithState calls it."""

    states: tuple[str, ...] = ("state",)

    def __init__(self, task: StreamTask) -> None:
        self._task = task

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.begin(handle, handle.getValueState("state", STATE))

    def begin(self, handle: StatefulProcessorHandle, state: ValueState) -> None:
        """Work with this state from now on."""
        self._handle = handle
        self._state = state

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        if key[0] == SEAL:
            return iter(())
        return self._run([bytes(row[BLOB]) for row in rows if row[BLOB] is not None], timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        return self._run([], timerValues)

    def close(self) -> None:
        """Nothing is left open."""

    def _run(self, arrived: list[bytes], timers: TimerValues) -> Iterator[Row]:
        before, clock = self._state.get(), max(0, timers.getCurrentWatermarkInMs())
        task = self._task
        with message_alone():
            stream = task.stream(None if before is None else bytes(before[0]))
            batches = [batch for blob in arrived for batch in from_ipc(blob)]
            rows = pa.Table.from_batches(batches).cast(task.schema) if batches else task.schema.empty_table()
            found = stream.step(rows, clock * 1000 if clock else None)
            if found.num_rows:
                yield step_row(MATCHES, found.num_rows, to_ipc(found.cast(task.result).combine_chunks().to_batches()))
        for kind, count in ((LATE, stream.late), (REJECTED, stream.rejected)):
            if count:
                yield step_row(kind, count, None)
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        if not stream.kept.num_rows:
            self._state.clear()
            return
        self._state.update((task.kept(stream),))
        wakes = stream.wakes_at()
        if wakes is not None:
            self._handle.registerTimer(max(-(-wakes // 1000), clock + 1))
