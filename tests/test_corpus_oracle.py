"""The corpus holds for the oracle: what was worked out by hand is what the definitions give."""

from __future__ import annotations

import corpus
import oracle
import pytest
from ceql.errors import CeqlError
from ceql.syntax.parser import parse

CASES = corpus.load()


def test_titles_are_unique() -> None:
    titles = [str(case) for case in CASES]
    assert sorted(set(titles)) == sorted(titles)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: corpus.Case) -> None:
    if case.error is not None:
        with pytest.raises((CeqlError, ValueError), match=case.error):
            oracle.candidates(parse(case.query), case.events, **case.keywords)
        return
    query = parse(case.query)
    got = oracle.matches(query, case.events, **case.keywords)
    case.verify(got)
    oracle.check(query, case.events, got, **case.keywords)
