"""Backfill, then live: history in a batch and the rest in a stream give what there is in all, each match once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import ceql
import ceql.spark
from ceql.spark import Seed, match, state_of
from test_restart import END, QUERY, START, Event, Stream, expected

SILENT = "SELECT a WHERE A AS a ; NOT B PARTITION BY k WITHIN 9 MILLISECONDS"
OPTIONS: dict[str, Any] = {"order_by": "id", "events": "ids", "id": "id", "buckets": 4}
EVENTS: list[Event] = [("AB"[n % 3 == 1], 5 * n, "xyz"[n * n % 5 % 3], n) for n in range(60)]
CUT = 30


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """The second half of the events, after some that history has already."""
    stream = Stream(spark, tmp_path)
    stream.add(EVENTS[CUT - 8 : CUT + 10], EVENTS[CUT + 10 :], [END])
    return stream


def history(stream: Stream) -> DataFrame:
    rows = [(kind, datetime.fromtimestamp((START + at) / 1000, UTC), key, id) for kind, at, key, id in EVENTS[:CUT]]
    return stream.spark.createDataFrame(rows, "type string, time timestamp, k string, id long")


@pytest.mark.parametrize("query", [QUERY, SILENT])
@pytest.mark.parametrize("emit", ["watermark", "now"])
def test_no_gap_and_no_repeat(stream: Stream, query: str, emit: str, tmp_path: Path) -> None:
    if emit == "now" and query == SILENT:
        pytest.skip("what time decides cannot come now")
    before = state_of(history(stream), query, emit=emit, **OPTIONS)
    assert before.until == datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=START + EVENTS[CUT - 1][1])
    first = Counter(tuple(row["events"]) for row in before.matches.collect())
    assert first
    before.states.write.parquet(str(tmp_path / "seed"))
    seed = Seed(stream.spark.read.parquet(str(tmp_path / "seed")), before.until)
    second = stream.run(match(stream.read(), query, seed=seed, emit=emit, **OPTIONS)).found
    assert first + second == expected([*EVENTS, END], query)
    assert any(min(ids) < CUT <= max(ids) for ids in second) or query == SILENT


def test_a_set_goes_on_from_history(stream: Stream) -> None:
    queries = {"pair": QUERY, "all": "SELECT NEXT * WHERE B AS x ; A AS y"}
    before = state_of(history(stream), queries, **OPTIONS)
    second = stream.run(match(stream.read(), queries, seed=before, **OPTIONS))
    stream.add([("A", 10**6 + 20, "x", 100)], [("Z", 10**8, "x", 101)])
    third = stream.run(match(stream.read(), queries, seed=before, **OPTIONS))
    rows = [*before.matches.collect(), *second.rows, *third.rows]
    for name, query in queries.items():
        found = Counter(tuple(row["events"]) for row in rows if row["query"] == name)
        assert found == expected([*EVENTS, END, ("A", 10**6 + 20, "x", 100)], query)


def test_what_does_not_fit_is_refused(stream: Stream) -> None:
    with pytest.raises(ceql.ArgumentError, match="takes history as a batch"):
        state_of(stream.read(), QUERY, **OPTIONS)
    with pytest.raises(ceql.ArgumentError, match="needs a time zone"):
        state_of(history(stream), QUERY, datetime(2024, 1, 1), **OPTIONS)
    with pytest.raises(ceql.DataError, match="pass until="):
        state_of(history(stream).limit(0), QUERY, **OPTIONS)
    other = state_of(history(stream), "SELECT a WHERE A AS a ; A PARTITION BY k", **OPTIONS)
    with pytest.raises(ceql.DataError, match="was made by another query"), ceql.spark.errors():
        stream.run(match(stream.read(), QUERY, seed=other, **OPTIONS))
    with pytest.raises(ValueError, match="seed= is for streaming"):
        match(history(stream), QUERY, seed=other)
