"""What is read from the checkpoint of a stream that has stopped; and how a query goes on under another one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import ceql
from ceql.spark import emitted_until, end_of_input, errors, match, metrics
from test_restart import JOINED, START, Stream, expected, some

SILENT = "SELECT a, b WHERE A AS a ; B AS b ; NOT C PARTITION BY k WITHIN 50 MILLISECONDS"


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def test_what_a_stream_owes_at_its_end(stream: Stream) -> None:
    """And that a query can go on with other buckets under another checkpoint, and what is refused under the first."""
    numbers = iter(range(100))
    stream.add(*(some(numbers, begin) for begin in (0, 14, 40)))
    checkpoint = str(stream.folder / "checkpoint")
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        emitted_until(stream.spark, checkpoint)
    run = stream.run(stream.match(JOINED))
    rest = end_of_input(stream.read(), JOINED, checkpoint, order_by="id", events="ids", id="id")
    owed = Counter(tuple(row["events"]) for row in rest.collect())
    assert owed
    assert run.found + owed == expected(stream.events, JOINED)

    totals = [metrics(p) for p in run.progress]
    assert sum(t["events"] for t in totals) == len(stream.events)
    assert sum(t["shipped"] for t in totals) == len(stream.events)
    assert sum(t["matches"] for t in totals) == sum(run.found.values())
    assert 0 < sum(t["relevant"] for t in totals) < len(stream.events)  # some wait
    assert totals[-1]["groups"] > 0
    assert totals[-1]["state_bytes"] > 0

    stream.add([("A", 60, "x", 90), ("B", 61, "x", 91), ("Z", 10**6, "x", 92)])
    until = emitted_until(stream.spark, checkpoint)
    assert until is not None
    assert until.timestamp() * 1000 == START + 45 - 10  # the newest event, less the delay
    with (
        pytest.raises(ceql.DataError, match=r"^the checkpoint has its keys in 4 buckets, not in 3: pass buckets=4"),
        errors(),
    ):
        stream.run(stream.match(JOINED, buckets=3))
    anew = stream.run(stream.match(JOINED, buckets=3).where(F.col("end_time") > F.lit(until)), "another")
    assert run.found + anew.found == expected(stream.events, JOINED)


def test_a_stream_that_ends_in_silence(stream: Stream) -> None:
    """A match that ends with NOT is decided when its window is over, or the stream; flat results, of a stream too."""
    stream.add([("A", 0, "x", 0), ("B", 5, "x", 1), ("A", 0, "y", 2), ("B", 5, "y", 3), ("C", 9, "y", 4)])
    options: dict[str, str] = {"order_by": "id", "events": "columns"}
    run = stream.run(match(stream.read(), SILENT, **options))  # type: ignore[arg-type]
    assert run.rows == []
    rest = end_of_input(stream.read(), SILENT, str(stream.folder / "checkpoint"), **options)  # type: ignore[arg-type]
    assert [(row.a_id, row.b_id) for row in rest.collect()] == [(0, 1)]
