"""Checks a streaming DataFrame before its query starts, and what is done with its matches.

Spark has one watermark for a streaming query: the least of all that `withWatermark` asks for. One on the matches begins
with the first match, and the first match waits for the watermark to begin: each waits for the other, and nothing ever
comes, without an error. Spark itself refuses a second watermark behind a stateful step, but only once the watermark has
begun.

So the DataFrame that `match` gives, and those that are derived from it by its own methods, refuse `withWatermark`.
None is needed where every match is decided by its last event: `end_time` carries the watermark of the events then
(`streaming.opened`).

Views and unions get around it. Then the stateful step sees that events wait though no watermark has begun, which it
logs: it might be another stream without any event so far, so that it is no error.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

from pyspark.sql import DataFrame
from pyspark.sql.types import TimestampNTZType, TimestampType

from ceql.errors import ArgumentError, SchemaError
from ceql.spark.frame_methods import with_methods
from ceql.spark.prepare import WATERMARK, Frames


def check_streaming(frames: Frames, time: str) -> int | None:
    """The watermark's delay in milliseconds, None for batch.

    `SchemaError` where a stream has no watermark, or can append nothing.
    """
    listed = list(frames.values()) if isinstance(frames, Mapping) else [frames]
    streaming = [df for df in listed if df.isStreaming]
    if not streaming:
        return None
    if len(streaming) < len(listed):
        raise SchemaError("some of the streams are streaming DataFrames and some are not; make them all one kind")
    for df in streaming:
        _check_upstream(df)
    # `prepare` complains of a missing column
    return max([_delay(df, time) for df in streaming if time in df.columns], default=0)


def _delay(df: DataFrame, time: str) -> int:
    field = df.schema[time]
    if not isinstance(field.dataType, TimestampType | TimestampNTZType):
        raise SchemaError(
            f"the time column '{time}' is {field.dataType.simpleString()}; a stream's must be a timestamp, as a "
            f"watermark needs: df.withColumn('{time}', timestamp_millis('{time}')), for example"
        )
    if WATERMARK in field.metadata:
        return int(field.metadata[WATERMARK])
    others = [f.name for f in df.schema.fields if WATERMARK in f.metadata]
    if others:
        raise SchemaError(
            f"the watermark is on '{others[0]}', but time='{time}': pass time='{others[0]}', or put the watermark on "
            f"'{time}'"
        )
    raise SchemaError(
        f"a streaming DataFrame needs a watermark, which says how late events may come: "
        f"df.withWatermark('{time}', '10 seconds') before match()"
    )


def _check_upstream(df: DataFrame) -> None:
    """Refuse what gives its rows only when the watermark has passed them, or never: they would all be late."""
    logical = _analyzed(df)
    for node in _nodes(logical) if logical is not None else ():
        if node.nodeName() == "Aggregate" and node.isStreaming():
            raise SchemaError(
                "the DataFrame aggregates a stream: its rows come when the watermark has passed them, or never. This is"
                " too late for match(), which could append nothing; match the events first, and aggregate the matches"
            )
        if node.nodeName() == "Join" and all(node.children().apply(k).isStreaming() for k in range(2)):
            raise SchemaError(
                "the DataFrame joins two streams: its rows may come when the watermark has passed them, too late for "
                "match(); match the events of both streams (FROM a, b), or join the matches"
            )


def _analyzed(df: DataFrame) -> Any:
    """The analysed plan; None through Spark Connect, where Spark itself refuses the query when it starts."""
    try:
        return df._jdf.queryExecution().analyzed()
    except AttributeError:
        return None


def _nodes(node: Any) -> Any:
    yield node
    children = node.children()
    for k in range(children.size()):
        yield from _nodes(children.apply(k))


WHAT_TO_DO = (
    "Write the matches to a table or a topic and put the watermark into a second streaming query that reads it, or add "
    "the matches up in foreachBatch()"
)
_YEAR = 366 * 86_400 * 10**6
_log = logging.getLogger("ceql")


def refusing(found: DataFrame, waits: bool) -> DataFrame:
    """The DataFrame itself, from now on without `withWatermark`; `waits`: some matches are decided after their end."""
    refuse = _refuse_any if waits else _refuse_needless
    return with_methods(found, lambda name, method: refuse if name == "withWatermark" else method)


_NOTHING = (
    "behind match() would give nothing, ever: Spark has one watermark for a streaming query, the least of all, so that "
    "match() would wait for its own matches. "
)


def _refuse_needless(eventTime: str, delayThreshold: str) -> NoReturn:
    raise ArgumentError(
        f"withWatermark({eventTime!r}, {delayThreshold!r}) {_NOTHING}Leave it out: end_time carries the watermark of "
        "the events, and windows, joins and dropDuplicatesWithinWatermark can go by it"
    )


def _refuse_any(eventTime: str, delayThreshold: str) -> NoReturn:
    raise ArgumentError(
        f"withWatermark({eventTime!r}, {delayThreshold!r}) {_NOTHING}{WHAT_TO_DO} (NOT at the end and AFTER MATCH "
        "decide a match some time after its last event, so that its end_time may be behind the watermark)"
    )


def tell_if_held_back(earliest: int) -> None:
    """Log that events wait without any watermark, though earlier micro-batches had events; `earliest` is the time of
    the first of them in microseconds. Soon after 1970 there is none for a while."""
    if earliest > _YEAR:
        _tell()


@cache
def _tell() -> None:
    _log.warning(
        "events came in an earlier micro-batch, and there is still no watermark. If another stream of the query had no "
        "event so far, this will pass. If a withWatermark() stands behind match(), in a view or a union, there "
        "will never be any match. %s",
        WHAT_TO_DO,
    )
