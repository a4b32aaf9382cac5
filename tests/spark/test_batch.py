"""Batch on Spark gives what the engine gives: the corpus and random cases, however the work is divided."""

from __future__ import annotations

import pytest
import ways
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import corpus
import generators
import paths
from ceql.syntax.printer import print_query

CASES = [case for case in corpus.load() if not case.correlated and case.error is None]
GROUPS = ways.batched(CASES, 60)


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_corpus(spark: SparkSession, group: int, partitions: int) -> None:
    cases = GROUPS[group]
    examples = [ways.Example.of(case.query, case.events, **case.keywords) for case in cases]
    with ways.interpreted(spark):
        found = ways.run_batch(spark, examples, partitions)
    for case, example, got in zip(cases, examples, found, strict=True):
        assert got == example.expected(), str(case)


def in_merged_order(case: generators.Generated) -> generators.Generated:
    streams = case.query.streams
    if len(streams) < 2:
        return case
    return case._replace(events=sorted(case.events, key=lambda e: (e["time"], streams.index(e[paths.BOOKKEEPING]))))


@settings(deadline=None, max_examples=2, suppress_health_check=list(HealthCheck))
@given(
    st.lists(generators.uncorrelated_cases() | generators.uncorrelated_cases(named=True), min_size=15, max_size=15),
    st.sampled_from([1, 2, 7, None]),
)
def test_random_cases(spark: SparkSession, cases: list[generators.Generated], partitions: int | None) -> None:
    cases = [in_merged_order(case) for case in cases]
    examples = [ways.Example.of(print_query(case.query), case.events) for case in cases]
    with ways.interpreted(spark):
        found = ways.run_batch(spark, examples, partitions)
    for case, example, got in zip(cases, examples, found, strict=True):
        assert got == example.expected(), case
