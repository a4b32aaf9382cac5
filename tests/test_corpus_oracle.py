"""The corpus holds for the oracle: what was worked out by hand is what the definitions give."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given, settings

import corpus
import generators
import oracle
from ceql.errors import CeqlError
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query

CASES = corpus.load()


def test_titles_are_unique() -> None:
    titles = [str(case) for case in CASES]
    assert sorted(set(titles)) == sorted(titles)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: corpus.Case) -> None:
    if case.error is not None:
        with pytest.raises((CeqlError, ValueError), match=re.escape(case.error)):
            oracle.matches(parse(case.query), case.events, **case.keywords)
        return
    query = parse(case.query)
    got = oracle.matches(query, case.events, **case.keywords)
    case.verify(got)
    oracle.check(query, case.events, got, **case.keywords)


def test_decimals_are_exact() -> None:
    """With more digits than Python's decimals keep unless told to."""
    tiny, huge = Decimal("0.000000000000000001"), Decimal("12345678901234567890.000000000000000001")
    events = [{"type": "A", "d": huge}, {"type": "B", "d": tiny}]
    for text, holds in {"a.d + b.d > a.d": True, "a.d - b.d = a.d": False, "-a.d < -a.d + b.d": True}.items():
        query = parse(f"SELECT * WHERE A AS a ; B AS b FILTER {text}")
        assert bool(oracle.matches(query, events)) == holds, text


@pytest.mark.parametrize("named", [False, True], ids=["one stream", "two streams"])
@pytest.mark.parametrize(
    "cases",
    [
        generators.uncorrelated_cases, generators.correlated_cases, generators.conditioned_cases,
        generators.aggregated_cases,
    ],
)  # fmt: skip
def test_generated_cases_are_valid(cases: generators.Cases, named: bool) -> None:
    """What is generated can be written down, and the oracle has an answer that it admits itself."""

    @settings(max_examples=100)
    @given(cases(named))
    def run(case: generators.Generated) -> None:
        assert parse(print_query(case.query)) == case.query
        oracle.check(case.query, case.events, oracle.matches(case.query, case.events))

    run()


def test_most_generated_conditions_hold_somewhere() -> None:
    """A condition that is never satisfied would not show an engine that finds too little."""
    matched: list[bool] = []

    @settings(max_examples=150)
    @given(generators.conditioned_cases())
    def run(case: generators.Generated) -> None:
        matched.append(bool(oracle.matches(case.query, case.events)))

    run()
    assert sum(matched) > len(matched) / 2
