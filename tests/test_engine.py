"""The engine holds to the oracle: the corpus and random cases, on every path."""

from __future__ import annotations

import functools
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ceql
import corpus
import generators
import oracle
import paths
from ceql.engine import machine
from ceql.syntax import tree
from ceql.syntax.printer import print_query

CASES = [case for case in corpus.load() if not case.correlated]
CORRELATED = [case for case in corpus.load() if case.correlated]
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


@pytest.mark.parametrize("case", CORRELATED, ids=str)
def test_correlated_queries_compile_and_say_what_they_need(case: corpus.Case) -> None:
    if case.error is not None:
        return
    query = ceql.compile(case.query)
    with pytest.raises(ceql.QueryError, match="compares events with each other"):
        query.run(paths.table(case.events))


def check_case(case: generators.Generated, data: st.DataObject) -> None:
    streams = case.query.streams
    if len(streams) > 1:  # merged order: time, then the order of FROM
        case = case._replace(events=sorted(case.events, key=lambda e: (e["time"], streams.index(e[paths.BOOKKEEPING]))))
    query = ceql.compile(print_query(case.query))
    options = {"time_unit": "ms"}
    whole = paths.run_whole(query, case.events, **options)
    oracle.check(case.query, case.events, whole)
    rows = data.draw(st.integers(1, 4), label="rows per batch")
    assert paths.run_in_batches(query, case.events, rows, **options) == whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(case.events)), max_size=4), label="cuts"))
    restored = data.draw(st.sets(st.integers(0, 5)), label="restored after")
    assert paths.run_in_pieces(query, case.events, cuts, restored.__contains__, **options) == whole
    assert query.run(paths.inputs(query, case.events), **options).count() == len(whole)


@settings(EXAMPLES, max_examples=300)
@given(generators.uncorrelated_cases(), st.data())
def test_random_cases(case: generators.Generated, data: st.DataObject) -> None:
    check_case(case, data)


@settings(EXAMPLES, max_examples=60)
@given(generators.uncorrelated_cases(named=True), st.data())
def test_random_cases_of_two_streams(case: generators.Generated, data: st.DataObject) -> None:
    check_case(case, data)


def use_tiny_buffers() -> None:
    """Make buffers so small that every reason to come back from the loop occurs: full, blocks, collect, grow."""
    machine.Machine.__init__ = functools.partialmethod(machine.Machine.__init__, matches=3, entries=5, nodes=8)


def check_tiny_case(case: generators.Generated, data: st.DataObject) -> None:
    try:
        check_case(case, data)
    except ceql.DataError as error:
        # an attribute may fall when memory has already been given back; nothing else may go wrong
        if "went back" not in str(error) or not isinstance(case.query.window, tree.AttributeWindow):
            raise


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.Machine, "__init__", machine.Machine.__init__)  # restored afterwards
    use_tiny_buffers()


@settings(EXAMPLES, max_examples=150)
@given(generators.uncorrelated_cases(), st.data())
def test_random_cases_in_tiny_buffers(tiny: None, case: generators.Generated, data: st.DataObject) -> None:
    check_tiny_case(case, data)
