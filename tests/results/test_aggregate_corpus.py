"""Totals over all matches: the corpus of `aggregate`, by the oracle and on every way to run a query."""

from __future__ import annotations

import pytest

import ceql
import corpus
import oracle
import paths
from ceql.syntax.parser import parse
from oracle_totals import alike, totals


@pytest.mark.parametrize("case", corpus.load_totals(), ids=str)
def test_oracle(case: corpus.TotalsCase) -> None:
    matches = oracle.matches(parse(case.query), case.events)
    wanted = [{**dict.fromkeys(case.asked), **row} for row in case.rows]
    assert alike(totals(case.asked, case.by, case.every, case.events, matches), wanted)


@pytest.mark.parametrize("case", corpus.load_totals(), ids=str)
def test_engine(case: corpus.TotalsCase) -> None:
    query = ceql.compile(case.query)
    wanted = [{**dict.fromkeys(case.asked), **row} for row in case.rows]
    events = paths.inputs(query, case.events)
    for batch_rows in (1 << 17, 1, 3):
        matches = query.run(events, time_unit="ms", batch_rows=batch_rows)
        assert alike(matches.aggregate(case.asked, by=case.by, every=case.every).to_pylist(), wanted)
