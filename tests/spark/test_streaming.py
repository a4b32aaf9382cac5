"""Streaming on Spark gives what the engine gives: the corpus and random cases, in files that arrive out of order.

Cases go through a bucket in `test_bucket`, and in `test_batch` through all that the JVM does but for the hashing of
keys. So of the cases with keys a quarter, and of those without a sixteenth, is enough here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import ceql
import corpus
import generators
import hand_made
import ways
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query

ALL = [case for case in corpus.load() if case.error is None and not hand_made.waits_for_events(parse(case.query))]
KEYED = [case for case in ALL if ceql.compile(case.query).plan.partition]
CASES = corpus.some(KEYED, 4) + corpus.some([case for case in ALL if case not in KEYED], 16)
GROUPS = ways.batched(CASES, 60)


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_corpus(spark: SparkSession, group: int, tmp_path: Path) -> None:
    cases = GROUPS[group]
    examples = [ways.Example.of(case.query, case.events, **case.keywords) for case in cases]
    examples = [example for example in examples if not hand_made.reads_plain_times(example)]
    with ways.interpreted(spark):
        found = ways.run_stream(spark, examples, tmp_path, seed=group)
    for example, got in zip(examples, found, strict=True):
        assert got == example.expected(timed=False), str(example.query)


@settings(max_examples=1, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        generators.uncorrelated_cases()
        | generators.correlated_cases()
        | generators.conditioned_cases()
        | generators.aggregated_cases(),
        min_size=20,
        max_size=20,
    ),
    st.integers(100, 1 << 30),
)
def test_random_cases(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    cases: list[generators.Generated],
    seed: int,
) -> None:
    examples = [ways.Example.of(print_query(case.query), case.events) for case in cases]
    examples = [example for example in examples if not hand_made.reads_plain_times(example)]
    with ways.interpreted(spark):
        found = ways.run_stream(spark, examples, tmp_path_factory.mktemp("stream"), seed)
    for example, got in zip(examples, found, strict=True):
        assert got == example.expected(timed=False), str(example.query)
