"""A stream without keys, cut into chunks of time that are recognised side by side.

A match that ends in a chunk begins at most a window before the chunk. So a warm-up of that length precedes each chunk;
its own matches belong to the chunk before. Together the chunks give the same matches as one run over everything.

The bounds come from the data. A first, narrow pass sends segments (least time, greatest time, number of rows) of sorted
pieces of the time column. One small task turns them into a table of chunks with about equal numbers of rows, which is
broadcast to the second pass. A window of time is the same wherever chunks begin, so that one row of 128 says enough.
For `n EVENTS` all rows are looked at, and the warm-up begins where whole segments with n rows lie between it and the
chunk, which is never too late. All of this is part of Spark's plan: nothing runs before an action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from ceql.errors import DataError
from ceql.io.sort_keys import bounds, decode, encode
from ceql.jit import Array
from ceql.spark.prepare import Prepared
from ceql.spark.task_recognizer import NO_TIME, larger
from ceql.spark.task_report import reported
from ceql.spark.task_spec import CHUNK, MAIN, TIME
from ceql.syntax import tree as t

_SEGMENT_ROWS = 512
_MOST_CHUNKS = 256
_SAMPLED = 128
_FEW_CORES = 2
"""Up to so many cores, one task is faster than chunks. `python -m bench.spark`, ten million rows on two cores: 905,000
rows a second in chunks, 1,460,000 in one task, with half of the processor seconds."""


def chunked(prepared: Prepared, chunks: int | None) -> DataFrame:
    """The shipped rows by chunk, in which the column `main` tells those of the chunk from its warm-up."""
    frame = prepared.frame
    count = chunk_count(prepared, chunks)
    if count == 1:
        return frame.repartition(1)
    time = frame.schema[TIME].dataType
    times = frame.select(TIME)
    if not isinstance(prepared.plan.query.window, t.EventsWindow):
        number = F.monotonically_increasing_id()  # begins anew in each partition, so that none is left out
        times = times.where((number.bitwiseAND(_SAMPLED - 1) == 0) | F.col(TIME).isNull())
    segments = times.mapInArrow(
        reported("segments", segment),
        StructType([StructField("low", time), StructField("high", time), StructField("rows", LongType())]),
    )
    cut = cutter(prepared, count)
    table = StructType(
        [StructField(CHUNK, IntegerType())] + [StructField(name, time) for name in ("warm", "begin", "stop")]
    )
    bounds_table = segments.repartition(1).mapInArrow(reported("chunks", cut), table)
    inside = (F.col("warm").isNull() | (F.col(TIME) >= F.col("warm"))) & (
        F.col("stop").isNull() | (F.col(TIME) < F.col("stop"))
    )
    main = F.col("begin").isNull() | (F.col(TIME) >= F.col("begin"))
    rows = frame.join(F.broadcast(bounds_table), inside).withColumn(MAIN, main)
    return rows.repartitionById(count, F.col(CHUNK))


def chunk_count(prepared: Prepared, asked: int | None) -> int:
    """How many chunks to make at most."""
    if asked:
        return asked
    cores = parallelism(prepared)
    return 1 if cores <= _FEW_CORES and not prepared.keys else min(_MOST_CHUNKS, 2 * cores)


def parallelism(prepared: Prepared) -> int:
    """How many tasks run side by side, as far as the session tells."""
    session = prepared.frame.sparkSession
    try:
        return int(session.sparkContext.defaultParallelism)
    except AttributeError:  # Spark Connect has no context
        return min(16, int(session.conf.get("spark.sql.shuffle.partitions") or 16))


def segment(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sorted pieces of the time column as segments."""
    for batch in larger(batches):
        times = batch.column(0)
        if times.null_count:
            raise DataError(NO_TIME)
        values = times.take(pa.array(np.argsort(encode(times, TIME), kind="stable")))
        first = np.arange(0, len(values), _SEGMENT_ROWS)
        last = np.minimum(first + _SEGMENT_ROWS, len(values))
        yield pa.RecordBatch.from_arrays(
            [values.take(pa.array(first)), values.take(pa.array(last - 1)), pa.array(last - first)],
            names=["low", "high", "rows"],
        )


def cutter(prepared: Prepared, count: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that makes the table of chunks from all segments: `[begin, stop)` each, warmed up from `warm` on."""
    window = prepared.plan.query.window
    events = window.count if isinstance(window, t.EventsWindow) else None
    size = prepared.bound.window.size
    assert size is not None

    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return
        table = pa.Table.from_batches(given)
        kind = table.schema.field("low").type
        low, high = (encode(_whole(table.column(name)), TIME) for name in ("low", "high"))
        rows = table.column("rows").to_numpy()
        begin = edges(low, rows, count)
        if events is None:
            warm = bounds(begin, kind, size)
        else:
            warm = np.array([_back(low, high, rows, int(edge), events) for edge in begin], np.int64)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.arange(len(begin) + 1, dtype=np.int32)),
                _shifted(warm, kind, 1),
                _shifted(begin, kind, 1),
                _shifted(begin, kind, 0),
            ],
            names=[CHUNK, "warm", "begin", "stop"],
        )

    return cut


def edges(low: Array, rows: Array, count: int) -> Array:
    """Times that cut the rows into at most `count` parts of about the same size.

    >>> edges(np.array([0, 10, 20, 30]), np.array([5, 5, 5, 5]), 2).tolist()
    [20]
    """
    order = np.argsort(low, kind="stable")
    before = np.cumsum(rows[order]) - rows[order]
    wanted = np.arange(1, count) * (rows.sum() / count)
    at = np.minimum(np.searchsorted(before, wanted), len(low) - 1)
    found: Array = np.unique(low[order][at])
    later: Array = found[found > low.min()]
    return later


def _back(low: Array, high: Array, rows: Array, edge: int, events: int) -> int:
    """A time such that at least `events` rows lie between it and `edge`, or the very first."""
    inside = high < edge
    order = np.argsort(-low[inside], kind="stable")
    enough = int(np.searchsorted(np.cumsum(rows[inside][order]), events))
    return int(low[inside][order][enough]) if enough < len(order) else int(low.min())


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks)


def _shifted(values: Array, kind: pa.DataType, by: int) -> pa.Array:
    """The times as a column with a NULL before the first (`by` 1) or after the last (0)."""
    taken = pa.array([None, *range(len(values))] if by else [*range(len(values)), None], pa.int64())
    return decode(values, kind).take(taken)
