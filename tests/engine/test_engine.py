"""The engine holds to the oracle: the corpus and random cases, on every path."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ceql
import ceql.plan
import checks
import corpus
import generators
import oracle
import paths
from absent_cases import absent_cases, later_cases
from free_cases import free_cases
from rule_oracle import RuleCase, rule_cases

CASES = corpus.load()
EXAMPLES = settings(suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_corpus(case: corpus.Case) -> None:
    options = case.keywords
    if case.error is not None:
        with pytest.raises(ceql.CeqlError, match=re.escape(case.error)):
            list(ceql.compile(case.query).run(paths.table(case.events), **options))
        return
    query = ceql.compile(case.query)
    tree = query.plan.query
    whole = paths.run_whole(query, case.events, **options)
    case.verify(whole)
    oracle.check(tree, case.events, whole, **options)
    assert paths.run_in_batches(query, case.events, 2, **options) == whole
    cuts = list(range(1, len(case.events)))
    assert paths.run_in_pieces(query, case.events, cuts, lambda k: k % 2 == 0, **options) == whole
    assert query.run(paths.inputs(query, case.events), **options).count() == len(whole)


@settings(EXAMPLES, max_examples=300)
@given(generators.uncorrelated_cases(), st.data())
def test_random_cases(case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


@settings(EXAMPLES, max_examples=200)
@given(generators.correlated_cases(), st.data())
def test_random_correlated_cases(case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


@settings(EXAMPLES, max_examples=120)
@given(generators.conditioned_cases(), st.data())
def test_random_conditions_between_events(case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


@settings(EXAMPLES, max_examples=120)
@given(generators.aggregated_cases(), st.data())
def test_random_aggregates_in_filters(case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


@pytest.fixture
def unsplit(monkeypatch: pytest.MonkeyPatch) -> None:
    checks.use_no_substreams(monkeypatch.setattr)


@settings(EXAMPLES, max_examples=100)
@given(generators.correlated_cases(), st.data())
def test_random_correlated_cases_without_substreams(
    unsplit: None, case: generators.Generated, data: st.DataObject
) -> None:
    checks.check_case(case, data)


@settings(EXAMPLES, max_examples=60)
@given(generators.conditioned_cases(), st.data())
def test_random_conditions_without_substreams(unsplit: None, case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


@pytest.mark.parametrize("case", corpus.some([c for c in CASES if c.correlated and c.error is None], 2), ids=str)
def test_corpus_without_substreams(unsplit: None, case: corpus.Case) -> None:
    query = ceql.compile(case.query)
    found = paths.run_whole(query, case.events, **case.keywords)
    case.verify(found)
    oracle.check(query.plan.query, case.events, found, **case.keywords)


@settings(EXAMPLES, max_examples=100)
@given(rule_cases(), st.data())
def test_random_rules(case: RuleCase, data: st.DataObject) -> None:
    checks.check_rule(case, data)


@settings(EXAMPLES, max_examples=60)
@given(generators.uncorrelated_cases(named=True), st.data())
def test_random_cases_of_two_streams(case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


@settings(EXAMPLES, max_examples=100)
@given(absent_cases(named=False) | absent_cases(named=True) | later_cases(), st.data())
def test_random_absences(case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


@settings(EXAMPLES, max_examples=80)
@given(free_cases(named=False) | free_cases(named=True), st.data())
def test_random_free_events(case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    checks.use_tiny_buffers(monkeypatch.setattr)


@settings(EXAMPLES, max_examples=100)
@given(generators.uncorrelated_cases(), st.data())
def test_random_cases_in_tiny_buffers(tiny: None, case: generators.Generated, data: st.DataObject) -> None:
    checks.check_tiny_case(case, data)


@settings(EXAMPLES, max_examples=70)
@given(generators.correlated_cases(), st.data())
def test_random_correlated_cases_in_tiny_buffers(tiny: None, case: generators.Generated, data: st.DataObject) -> None:
    checks.check_tiny_case(case, data)


@settings(EXAMPLES, max_examples=25)
@given(generators.conditioned_cases(), st.data())
def test_random_conditions_in_tiny_buffers(tiny: None, case: generators.Generated, data: st.DataObject) -> None:
    checks.check_tiny_case(case, data)


@settings(EXAMPLES, max_examples=30)
@given(free_cases(), st.data())
def test_random_free_events_in_tiny_buffers(tiny: None, case: generators.Generated, data: st.DataObject) -> None:
    checks.check_tiny_case(case, data)


@settings(EXAMPLES, max_examples=60)
@given(absent_cases() | later_cases(), st.data())
def test_random_absences_in_tiny_buffers(tiny: None, case: generators.Generated, data: st.DataObject) -> None:
    checks.check_tiny_case(case, data)


@pytest.mark.parametrize("case", corpus.some([c for c in CASES if c.error is None], 2), ids=str)
def test_corpus_in_tiny_buffers(tiny: None, case: corpus.Case) -> None:
    query = ceql.compile(case.query)
    with checks.suppress_falling_attributes(True, generators.Generated(query.plan.query, case.events)):
        found = paths.run_whole(query, case.events, **case.keywords)
        case.verify(found)
        oracle.check(query.plan.query, case.events, found, **case.keywords)
