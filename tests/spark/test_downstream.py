"""Spark's own stateful operators behind `match`, in append mode: they go by `end_time`, which carries the watermark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ceql
from ceql.spark import match
from test_restart import QUERY, START, Event, Stream, expected

ENDS = [[("A", 10**6, "z", -1)], [("A", 10**8, "z", -2)]]
"""Events that end the stream; twice, since operators behind `match` are a micro-batch behind it. Spark filters events
before it looks at their times, so that they are of a type that is not filtered out."""


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """Pairs in files whose events are out of order as far as the watermark allows."""
    stream = Stream(spark, tmp_path)
    events = [
        ("AB"[number % 2], 7 * number - 8 * (number % 3 == 0), "xy"[number // 2 % 2], number) for number in range(60)
    ]
    stream.add(*(events[first : first + 12] for first in range(0, 60, 12)), *ENDS)
    return stream


def ends(events: list[Event]) -> Counter[int]:
    """When matches end, in milliseconds."""
    at = {event[3]: event[1] for event in events}
    found: Counter[int] = Counter()
    for ids, count in expected(events).items():
        found[at[ids[-1]]] += count
    return found


def collected(stream: Stream, result: DataFrame) -> list[Any]:
    return stream.run(result).rows


def since_start(column: str) -> Any:
    return (F.unix_millis(column) - F.lit(START)).cast("int")


def test_a_window_of_matches(stream: Stream) -> None:
    for found in (match(stream.read(), QUERY, order_by="id"), match(stream.read(), {"pair": QUERY}, order_by="id")):
        windows = found.groupBy(F.window("end_time", "20 milliseconds")).count()
        rows = Stream.run(
            stream, windows.select(since_start("window.start").alias("at"), "count"), found.columns[0]
        ).rows
        wanted: Counter[int] = Counter()
        for at, count in ends(stream.events).items():
            wanted[(START + at) // 20 * 20 - START] += count
        assert sum(wanted.values()) > 40
        assert Counter({row["at"]: row["count"] for row in rows}) == wanted


def test_one_match_for_each_end(stream: Stream) -> None:
    found = match(stream.read(), QUERY, order_by="id").select("k", "end_time")
    rows = collected(stream, found.dropDuplicatesWithinWatermark(["k", "end_time"]).select(since_start("end_time")))
    assert len(rows) == len(set(rows))
    assert {row[0] for row in rows} == set(ends(stream.events))


def test_matches_joined_with_events(stream: Stream) -> None:
    found = match(stream.read(), QUERY, order_by="id").select("k", "end_time")
    others = stream.read().where("type = 'A'").select(F.col("k").alias("of"), F.col("time").alias("at"), "id")
    near = F.expr("k = of AND at BETWEEN end_time - INTERVAL 10 MILLISECONDS AND end_time")
    rows = collected(stream, found.join(others, near).select(since_start("end_time"), "id"))
    wanted: Counter[Any] = Counter()
    key = {event[3]: event for event in stream.events}
    for ids, count in expected(stream.events).items():
        _, end, k, _ = key[ids[-1]]
        for kind, at, of, id in stream.events:
            if kind == "A" and of == k and end - 10 <= at <= end:
                wanted[end, id] += count
    assert wanted
    assert Counter(map(tuple, rows)) == wanted


def test_what_is_decided_late_carries_no_watermark(stream: Stream) -> None:
    for query in (
        "SELECT a WHERE A AS a ; NOT B PARTITION BY k WITHIN 9 MILLISECONDS",
        QUERY + " AFTER MATCH SKIP TO NEXT EVENT",
    ):
        found = match(stream.read(), query, order_by="id")
        assert not found.schema["end_time"].metadata
        with pytest.raises(ceql.ArgumentError, match="decide a match some time after its last event"):
            found.withWatermark("end_time", "1 second")
    with pytest.raises(ceql.ArgumentError, match="Leave it out: end_time carries the watermark"):
        match(stream.read(), QUERY).withWatermark("end_time", "1 second")
