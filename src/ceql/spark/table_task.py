"""The tasks of the table function for SQL (see `sql`): rows by partition, in order, to rows of the result.

Every partition of the TABLE argument is a stream by itself. A recogniser for each would cost milliseconds, too much for
many small partitions. So whole partitions wait until there are enough rows; then they are sorted by time and go through
one recogniser, to which the number of the partition is one more key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError
from ceql.io.schemas import take_rows
from ceql.io.sort_keys import encode
from ceql.io.soundness import check
from ceql.jit import Array
from ceql.recognition.snapshot import schema_to_text
from ceql.spark.task_recognizer import FEED_ROWS, TaskRecognizer
from ceql.spark.task_spec import TIME, TaskSpec

PARTITION = "partition"
"""The column of the partition's number, the last key."""
_Rows = tuple[int, pa.RecordBatch]
"""The number of a partition, and rows of it."""


@dataclass(frozen=True)
class SortColumns:
    """The columns that order the rows."""

    time: str
    order_by: tuple[str, ...]
    given: bool
    """Whether the function asked for the order itself, so that only a bug could break it."""


class TableTask:
    """The rows of one task, partition after partition."""

    def __init__(self, spec: TaskSpec, reads: tuple[str, ...], sort: SortColumns, together: bool) -> None:
        self._spec = spec
        self._reads = reads
        self._sort = sort
        self._together = together
        self._partition = 0
        self._whole: list[_Rows] = []  # rows of partitions that have ended
        self._current: list[_Rows] = []
        self._rows = 0  # in both
        self._long: TaskRecognizer | None = None  # the recogniser of the current partition, if it is a long one
        self._last: pa.RecordBatch | None = None  # the last row that went there

    @property
    def waits(self) -> bool:
        """Whether rows wait to be recognised."""
        return bool(self._rows)

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Further rows of the current partition."""
        self._current.append((self._partition, check(batch)))
        self._rows += batch.num_rows
        if self._rows >= FEED_ROWS:
            yield from self._recognise_whole()
        if self._rows >= FEED_ROWS:
            yield from self._recognise_current()

    def end(self, others: bool) -> Iterator[pa.RecordBatch]:
        """The end of the current partition; others may follow."""
        if self._long is not None:
            yield from self._recognise_current()
            yield from self._long.finish()
            self._long, self._last = None, None
        self._whole += self._current
        self._current = []
        self._partition += 1
        if self._rows >= FEED_ROWS or not (others and self._together):
            yield from self._recognise_whole()

    def _recognise_whole(self) -> Iterator[pa.RecordBatch]:
        """Recognise partitions that have ended, together."""
        if self._whole:
            batch = self._take(self._whole)
            order = np.argsort(encode(batch.column(TIME), TIME), kind="stable")
            recognizer = self._recognizer(batch)
            yield from recognizer.feed(self._keyed(take_rows(batch, pa.array(order))))
            yield from recognizer.finish()

    def _recognise_current(self) -> Iterator[pa.RecordBatch]:
        """Recognise rows of the current partition, which goes on."""
        if self._current:
            batch = self._take(self._current)
            self._last = batch.slice(batch.num_rows - 1)
            self._long = self._long or self._recognizer(batch)
            yield from self._long.feed(self._keyed(batch))

    def _take(self, waiting: list[_Rows]) -> pa.RecordBatch:
        """The rows that wait here, with the numbers of their partitions, if they are in order."""
        batch = pa.concat_batches([rows for _, rows in waiting])
        numbers = np.repeat([k for k, _ in waiting], [rows.num_rows for _, rows in waiting])
        batch = batch.append_column(PARTITION, pa.array(numbers, pa.int64()))
        waiting.clear()
        self._rows -= batch.num_rows
        self._check_order(batch if self._last is None else pa.concat_batches([self._last, batch]))
        return batch

    def _recognizer(self, batch: pa.RecordBatch) -> TaskRecognizer:
        """A recogniser; what the conditions read has the types of these columns."""
        place = self._spec.place
        fields = [pa.field(name, batch.schema.field(place[name]).type) for name in self._reads]
        return TaskRecognizer(replace(self._spec, schema=schema_to_text(pa.schema(fields))), batch.schema)

    def _check_order(self, batch: pa.RecordBatch) -> None:
        column = batch.column(TIME)
        if column.null_count:
            raise DataError(
                f"an event has no time: column '{self._sort.time}' is NULL; filter such rows out, or give them a time"
            )
        times = encode(column, TIME)
        numbers = batch.column(PARTITION).to_numpy()
        together: Array = numbers[1:] == numbers[:-1]
        if (together & (times[1:] < times[:-1])).any():
            raise DataError(
                f"the rows of a partition are not in order of '{self._sort.time}': write PARTITION BY ... ORDER BY "
                f"{', '.join((self._sort.time, *self._sort.order_by))}"
            )
        if self._sort.given or not self._sort.order_by:
            return
        tied: Array = together & (times[1:] == times[:-1])
        for k, name in enumerate(self._sort.order_by):
            values = batch.column(f"o_{k}")
            before, after = values[:-1], values[1:]
            # NULL comes first
            wrong = pc.fill_null(pc.greater(before, after), False)
            wrong = pc.or_(wrong, pc.and_(pc.is_valid(before), pc.is_null(after)))
            if (tied & _flags(wrong)).any():
                raise DataError(
                    f"rows of the same time are not in order of '{name}', which order_by names: write PARTITION BY ... "
                    f"ORDER BY ({', '.join((self._sort.time, *self._sort.order_by))})"
                )
            same = pc.fill_null(pc.equal(before, after), False)
            tied = tied & _flags(pc.or_(same, pc.and_(pc.is_null(before), pc.is_null(after))))

    def _keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Without the rows that belong to no substream: those with a key that is NULL or NaN."""
        kept: pa.Array | None = None
        for name in self._spec.key_columns:
            column = batch.column(name)
            there = pc.invert(pc.is_null(column, nan_is_null=True))
            kept = there if kept is None else pc.and_(kept, there)
        return batch if kept is None else batch.filter(kept)


def _flags(values: pa.Array) -> Array:
    return np.asarray(values.to_numpy(zero_copy_only=False))
