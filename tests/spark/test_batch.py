"""Batch on Spark gives what the engine gives: the corpus and random cases, however the work is divided."""

from __future__ import annotations

import pytest
import ways
from pyspark.sql import SparkSession
from ways import batched

import corpus

CASES = [case for case in corpus.load() if not case.correlated]
RUN = [case for case in CASES if case.error is None]
GROUPS = list(batched(RUN, 40))


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_corpus(spark: SparkSession, group: int, partitions: int) -> None:
    cases = GROUPS[group]
    examples = [ways.Example.of(case.query, case.events, **case.keywords) for case in cases]
    found = ways.run_batch(spark, examples, partitions)
    for case, example, got in zip(cases, examples, found, strict=True):
        assert got == example.expected(), str(case)
