"""Checks of a streaming DataFrame, on the driver, before the query starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import TimestampNTZType, TimestampType

from ceql.errors import SchemaError
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
