"""The backtracking matcher for AFTER MATCH: the examples of the language, and what must hold of any case."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

import generators
import next_cases
import oracle
import preferred_oracle
from ceql.syntax import tree
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query

PAST, NEXT = "PAST LAST EVENT", "TO NEXT EVENT"


def word(letters: str) -> list[dict[str, object]]:
    return [{"type": letter, "time": i} for i, letter in enumerate(letters)]


# the formula, its stream, where it goes on, and for each match where it is decided and its events
EXAMPLES = [
    ("A+ ; B", "ABAB", PAST, [(4, (0, 2, 3))]),
    ("A+? ; B", "ABAB", PAST, [(1, (0, 1)), (3, (2, 3))]),
    ("A->+ -> B", "ABAB", PAST, [(4, (0, 2, 3))]),
    ("A:+", "XAAXA", PAST, [(3, (1, 2)), (5, (4,))]),
    ("A:+", "XAAXA", NEXT, [(3, (1, 2)), (3, (2,)), (5, (4,))]),
    ("A:+ WITHIN 1 EVENT", "AAAAA", PAST, [(1, (0, 1)), (3, (2, 3)), (5, (4,))]),
    ("A{2,3}", "AAAAAAA", PAST, [(2, (0, 1, 2)), (5, (3, 4, 5))]),
    ("A{2,3}?", "AAAAAAA", PAST, [(1, (0, 1)), (3, (2, 3)), (5, (4, 5))]),
    ("X ; B* ; C", "XCBC", PAST, [(4, (0, 2, 3))]),
    ("X ; B*? ; C", "XCBC", PAST, [(1, (0, 1))]),
    ("X ; (A OR B)", "XBA", PAST, [(1, (0, 1))]),
    ("X : (A ; B OR A)", "XAB", PAST, [(2, (0, 1, 2))]),
    ("V -> (C -> (P)?)?", "VVCPVC", PAST, [(3, (0, 2, 3)), (6, (4, 5))]),
    ("A ; NOT N ; B", "ANBAB", PAST, [(4, (3, 4))]),
    ("(A ; B)+?", "ABAB", NEXT, [(1, (0, 1)), (3, (2, 3))]),
    ("A ; B ; C", "ABABC", "TO LAST B", [(4, (0, 1, 4)), (4, (2, 3, 4))]),
    ("A ; B AS b ; A ; C", "ABABABAC", "TO b", [(7, (0, 1, 2, 7)), (7, (2, 3, 4, 7)), (7, (4, 5, 6, 7))]),
    ("A AS a : A AS b", "AAAA", "TO b", [(1, (0, 1)), (2, (1, 2)), (3, (2, 3))]),
]


@pytest.mark.parametrize(("formula", "letters", "skip", "expected"), EXAMPLES)
def test_example(formula: str, letters: str, skip: str, expected: list[tuple[int, tuple[int, ...]]]) -> None:
    query = parse(f"SELECT * WHERE {formula} AFTER MATCH SKIP {skip}")
    assert [(d.at, d.match.events) for d in preferred_oracle.decided(query, word(letters))] == expected


@pytest.mark.parametrize(("formula", "skip"), [("A AS a ; B", "TO a"), ("A : B? : C", "TO B"), ("A ; B", "TO FIRST A")])
def test_going_nowhere_is_an_error(formula: str, skip: str) -> None:
    query = parse(f"SELECT * WHERE {formula} AFTER MATCH SKIP {skip}")
    with pytest.raises(preferred_oracle.NoProgress):
        preferred_oracle.matches(query, word("ABAC"))


CASES = [generators.uncorrelated_cases, generators.conditioned_cases]


@pytest.mark.parametrize("cases", CASES)
def test_every_start_with_a_match_has_the_preferred_one(cases: next_cases.Cases) -> None:
    @settings(max_examples=60, deadline=None)
    @given(next_cases.preferred_cases(cases)())
    def run(case: generators.Generated) -> None:
        assert parse(print_query(case.query)) == case.query
        every = oracle.candidates(replace(case.query, after_match=None), case.events)
        query = replace(case.query, after_match=tree.AfterMatch(tree.Skip.TO_NEXT))
        chosen = preferred_oracle.matches(query, case.events)
        assert set(chosen) <= set(every)
        assert sorted(m.start for m in chosen) == sorted({m.start for m in every})

    run()


def test_what_is_decided_stays() -> None:
    """What is decided after some events is what those events alone say, and comes in the same order."""

    @settings(max_examples=60, deadline=None)
    @given(next_cases.preferred_cases(generators.uncorrelated_cases)())
    def run(case: generators.Generated) -> None:
        assume(len(case.events) > 2)
        whole = preferred_oracle.decided(case.query, case.events)
        for end in range(1, len(case.events)):
            early = preferred_oracle.decided(case.query, case.events[:end])
            assert [d for d in whole if d.at < end] == [d for d in early if d.at < end]

    run()
