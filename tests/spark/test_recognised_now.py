"""`emit="now"`: events in order by key give what the engine gives, however far keys are behind one another."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import ceql
import generators
import hand_made
from ceql.spark import errors, match
from test_restart import END, QUERY, Stream

EXAMPLES = settings(suppress_health_check=list(HealthCheck), max_examples=60)


@settings(EXAMPLES)
@given(generators.uncorrelated_cases(), st.randoms(use_true_random=False))
def test_random_cases(case: generators.Generated, draw: random.Random) -> None:
    hand_made.check_now(case, draw)


@settings(EXAMPLES)
@given(generators.correlated_cases() | generators.conditioned_cases(), st.randoms(use_true_random=False))
def test_random_correlated_cases(case: generators.Generated, draw: random.Random) -> None:
    hand_made.check_now(case, draw)


@settings(EXAMPLES)
@given(generators.uncorrelated_cases(named=True) | generators.aggregated_cases(), st.randoms(use_true_random=False))
def test_random_cases_of_streams_and_totals(case: generators.Generated, draw: random.Random) -> None:
    hand_made.check_now(case, draw)


def test_matches_come_with_their_last_event(spark: SparkSession, tmp_path: Path) -> None:
    """One key is far behind the other; only what is behind its own key is late."""
    stream = Stream(spark, tmp_path)
    stream.add(
        [("A", 1000, "x", 0), ("B", 1005, "x", 1), ("A", 1, "y", 2)],
        [("B", 5, "y", 3), ("B", 1004, "x", 4)],  # the watermark is at 995: y is behind it
        [("A", 1100, "x", 5)],
        [("B", 1096, "z", 6), ("B", 1101, "x", 7), ("A", 1099, "x", 8)],
    )
    first = stream.run(stream.match(emit="now", late="late"))
    assert first.found == {(0, 1): 1, (5, 7): 1}
    late = {number: {row["late"] for row in rows if row["late"]} for number, rows in first.by_batch.items()}
    assert {number: ids for number, ids in late.items() if ids} == {1: {3, 4}, 3: {8}}
    assert any(row["events"] == [0, 1] for row in first.by_batch[0])
    stream.add([("B", 1102, "x", 9)], [END])
    second = stream.run(stream.match(emit="now", late="late"))
    assert second.found == {(5, 9): 1}
    assert second.kept()[-1] == 1, "only the terms of the checkpoint are left"
    stream.add([("A", 2 * 10**6, "x", 10)])
    with pytest.raises(ceql.DataError, match="was made with emit='now', not with emit='watermark'"), errors():
        stream.run(stream.match(late="late"))


def test_what_time_decides_cannot_come_now(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    (tmp_path / "source").mkdir()
    with pytest.raises(ceql.ArgumentError, match="decided by time passing"):
        match(stream.read(), "SELECT a WHERE A AS a ; NOT B PARTITION BY k WITHIN 1 SECOND", emit="now")
    with pytest.raises(ceql.ArgumentError, match="'watermark' or 'now'"):
        match(stream.read(), QUERY, emit="soon")
    with pytest.raises(ValueError, match="emit= is for streaming"):
        match(spark.createDataFrame([], stream.read().schema), QUERY, emit="now")
