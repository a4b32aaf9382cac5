"""The engine holds to the oracle: the corpus and random cases, on every path."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ceql
import ceql.plan
import corpus
import generators
import oracle
import paths
from ceql.engine.groups.machine import JoinMachine
from ceql.engine.states.machine import Machine
from ceql.syntax import tree
from ceql.syntax.printer import print_query
from rule_oracle import RuleCase, by_atom, rule_cases

CASES = corpus.load()
EXAMPLES = settings(deadline=None, suppress_health_check=list(HealthCheck))


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


OPTIONS = {"time_unit": "ms"}


def check_whole(case: generators.Generated) -> tuple[ceql.Query, generators.Generated, list[oracle.Match]]:
    """Run and count in one go; the query, the case with its events in merged order, and the matches."""
    streams = case.query.streams
    if len(streams) > 1:  # merged order: time, then the order of FROM
        case = case._replace(events=sorted(case.events, key=lambda e: (e["time"], streams.index(e[paths.BOOKKEEPING]))))
    query = ceql.compile(print_query(case.query))
    whole = paths.run_whole(query, case.events, **OPTIONS)
    oracle.check(case.query, case.events, whole)
    assert query.run(paths.inputs(query, case.events), **OPTIONS).count() == len(whole)
    return query, case, whole


def check_case(case: generators.Generated, data: st.DataObject) -> None:
    """Every execution path."""
    query, case, whole = check_whole(case)
    rows = data.draw(st.integers(1, 4), label="rows per batch")
    assert paths.run_in_batches(query, case.events, rows, **OPTIONS) == whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(case.events)), max_size=4), label="cuts"))
    restored = data.draw(st.sets(st.integers(0, 5)), label="restored after")
    assert paths.run_in_pieces(query, case.events, cuts, restored.__contains__, **OPTIONS) == whole


@settings(EXAMPLES, max_examples=300)
@given(generators.uncorrelated_cases(), st.data())
def test_random_cases(case: generators.Generated, data: st.DataObject) -> None:
    check_case(case, data)


@settings(EXAMPLES, max_examples=200)
@given(generators.correlated_cases(), st.data())
def test_random_correlated_cases(case: generators.Generated, data: st.DataObject) -> None:
    check_case(case, data)


@pytest.fixture
def unsplit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave it to the second loop to find what events have in common: no substreams but those of the clause."""
    monkeypatch.setattr(ceql.plan, "split_off", lambda shape, query: ((), shape))


@settings(EXAMPLES, max_examples=100)
@given(generators.correlated_cases(), st.data())
def test_random_correlated_cases_without_substreams(
    unsplit: None, case: generators.Generated, data: st.DataObject
) -> None:
    check_case(case, data)


@pytest.mark.parametrize("case", [case for case in CASES if case.correlated and case.error is None], ids=str)
def test_corpus_without_substreams(unsplit: None, case: corpus.Case) -> None:
    query = ceql.compile(case.query)
    found = paths.run_whole(query, case.events, **case.keywords)
    case.verify(found)
    oracle.check(query.plan.query, case.events, found, **case.keywords)


@settings(EXAMPLES, max_examples=150)
@given(rule_cases(), st.data())
def test_random_rules(case: RuleCase, data: st.DataObject) -> None:
    query = case.compile()
    assert sorted(by_atom(query, paths.run_whole(query, case.events, **OPTIONS))) == sorted(case.expected())
    check_case(generators.Generated(query.plan.query, case.events), data)


@settings(EXAMPLES, max_examples=60)
@given(generators.uncorrelated_cases(named=True), st.data())
def test_random_cases_of_two_streams(case: generators.Generated, data: st.DataObject) -> None:
    check_case(case, data)


def use_tiny_buffers() -> None:
    """Make buffers so small that every reason to come back from the loop occurs: full, blocks, collect, grow."""
    for kind in (Machine, JoinMachine):
        kind.__init__ = functools.partialmethod(kind.__init__, matches=3, entries=5, nodes=8)


@contextmanager
def suppress_falling_attributes(tiny: bool, case: generators.Generated) -> Iterator[None]:
    """An attribute window may fall to where memory has been given back, which tiny buffers do early."""
    try:
        yield
    except ceql.DataError as error:
        if not (tiny and "went back" in str(error) and isinstance(case.query.window, tree.AttributeWindow)):
            raise


def check_tiny_case(case: generators.Generated, data: st.DataObject) -> None:
    with suppress_falling_attributes(True, case):
        check_case(case, data)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Machine, JoinMachine):
        monkeypatch.setattr(kind, "__init__", kind.__init__)  # restored afterwards
    use_tiny_buffers()


@settings(EXAMPLES, max_examples=150)
@given(generators.uncorrelated_cases(), st.data())
def test_random_cases_in_tiny_buffers(tiny: None, case: generators.Generated, data: st.DataObject) -> None:
    check_tiny_case(case, data)


@settings(EXAMPLES, max_examples=100)
@given(generators.correlated_cases(), st.data())
def test_random_correlated_cases_in_tiny_buffers(tiny: None, case: generators.Generated, data: st.DataObject) -> None:
    check_tiny_case(case, data)


@pytest.mark.parametrize("case", [case for case in CASES if case.error is None], ids=str)
def test_corpus_in_tiny_buffers(tiny: None, case: corpus.Case) -> None:
    query = ceql.compile(case.query)
    with suppress_falling_attributes(True, generators.Generated(query.plan.query, case.events)):
        found = paths.run_whole(query, case.events, **case.keywords)
        case.verify(found)
        oracle.check(query.plan.query, case.events, found, **case.keywords)
