"""Batch on Spark gives what the engine gives: the corpus and random cases, however the work is divided."""

from __future__ import annotations

from functools import cache
from itertools import cycle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import ceql
import corpus
import generators
import hand_made
import paths
import ways
from ceql.syntax.printer import print_query

CASES = [case for case in corpus.load() if case.error is None]


def can_be_divided(case: corpus.Case) -> bool:
    plan = ceql.compile(case.query).plan
    return bool(plan.partition) or plan.query.window is not None


@cache  # when it is asked for: it takes seconds of whoever only collects the tests
def runs() -> list[tuple[corpus.Case, int]]:
    """Cases and their numbers of partitions; the others go through `test_bucket`."""
    division = cycle((2, 7))
    return [(case, next(division) if can_be_divided(case) else 1) for case in corpus.covering(CASES, 2)]


GROUPS = len(ways.batched(corpus.some(CASES, 10), 80))


@pytest.mark.parametrize("group", range(GROUPS))
def test_corpus(spark: SparkSession, group: int) -> None:
    cases, partitions = zip(*runs()[group::GROUPS], strict=True)
    examples = [ways.Example.of(case.query, case.events, **case.keywords) for case in cases]
    with ways.interpreted(spark):
        found = ways.run_batch(spark, examples, partitions)
    for case, number, example, got in zip(cases, partitions, examples, found, strict=True):
        assert got == example.expected(), f"{case}, {number} partitions"


@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        generators.uncorrelated_cases()
        | generators.uncorrelated_cases(named=True)
        | generators.correlated_cases()
        | generators.correlated_cases(named=True)
        | generators.conditioned_cases()
        | generators.aggregated_cases(),
        min_size=20,
        max_size=20,
    ),
    st.lists(st.sampled_from([1, 2, 7, None]), min_size=20, max_size=20),
)
def test_random_cases(spark: SparkSession, cases: list[generators.Generated], partitions: list[int | None]) -> None:
    examples = [ways.Example.of(print_query(c.query), c.events) for c in map(paths.in_merged_order, cases)]
    kept = [one for one in zip(examples, partitions, strict=True) if not hand_made.reads_plain_times(one[0])]
    with ways.interpreted(spark):
        found = ways.run_batch(spark, *zip(*kept, strict=True))
    for (example, _), got in zip(kept, found, strict=True):
        assert got == example.expected(), example
