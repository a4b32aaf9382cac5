"""Streaming on Spark gives what the engine gives: the corpus and random cases, in files that arrive out of order."""

from __future__ import annotations

from pathlib import Path

import pytest
import ways
from pyspark.sql import SparkSession

import corpus

CASES = [case for case in corpus.load() if not case.correlated and case.error is None]
GROUPS = ways.batched(CASES, 20)


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_corpus(spark: SparkSession, group: int, tmp_path: Path) -> None:
    cases = GROUPS[group]
    examples = [ways.Example.of(case.query, case.events, **case.keywords) for case in cases]
    found = ways.run_stream(spark, examples, tmp_path, seed=group)
    for case, example, got in zip(cases, examples, found, strict=True):
        assert got == example.expected(timed=False), str(case)
