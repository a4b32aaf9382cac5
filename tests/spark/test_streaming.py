"""Streaming on Spark gives what the engine gives: the corpus and random cases, in files that arrive out of order.

Cases go through a bucket in `test_bucket`, and in `test_batch` through all that the JVM does but for the hashing of
keys. So of the cases with keys, and of those without, one for each construct of the language is enough here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import corpus
import generators
import hand_made
import ways
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query

GROUPS = len(ways.batched(corpus.some(corpus.load(), 24), 80))


@cache  # when it is asked for: it takes seconds of whoever only collects the tests
def chosen() -> list[corpus.Case]:
    cases = [case for case in corpus.load() if case.error is None]
    cases = [case for case in cases if not hand_made.waits_for_events(parse(case.query))]
    keyed = [case for case in cases if "PARTITION BY" in case.query]
    return corpus.covering(keyed, 1) + corpus.covering([case for case in cases if case not in keyed], 1)


@pytest.mark.parametrize("group", range(GROUPS))
def test_corpus(spark: SparkSession, group: int, tmp_path: Path) -> None:
    examples = [ways.Example.of(case.query, case.events, **case.keywords) for case in chosen()[group::GROUPS]]
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
