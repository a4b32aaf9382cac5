"""AFTER MATCH as it is written, and what does not go with it."""

from __future__ import annotations

import pytest

from ceql.analysis.scopes import check
from ceql.errors import QueryError
from ceql.syntax import parse_query, print_query
from ceql.syntax.tree import AfterMatch, Skip

WRITTEN = [
    ("PAST LAST EVENT", AfterMatch(Skip.PAST_LAST)),
    ("to next event", AfterMatch(Skip.TO_NEXT)),
    ("TO FIRST x", AfterMatch(Skip.TO_FIRST, "x")),
    ("TO LAST x", AfterMatch(Skip.TO_LAST, "x")),
    ("TO x", AfterMatch(Skip.TO_LAST, "x")),
    ("TO last", AfterMatch(Skip.TO_LAST, "last")),
    ("TO FIRST `my x`", AfterMatch(Skip.TO_FIRST, "my x")),
    ("TO LAST next", AfterMatch(Skip.TO_LAST, "next")),
]


@pytest.mark.parametrize(("text", "expected"), WRITTEN)
def test_it_is_read_and_printed(text: str, expected: AfterMatch) -> None:
    query = parse_query(f"SELECT * WHERE A ; B WITHIN 5 MINUTES AFTER MATCH SKIP {text}")
    assert query.after_match == expected
    assert parse_query(print_query(query)) == query


def test_its_words_are_names_elsewhere() -> None:
    query = parse_query("SELECT after, skip WHERE after ; skip AS past FILTER past.match > 5 AFTER MATCH SKIP TO past")
    assert query.after_match == AfterMatch(Skip.TO_LAST, "past")


# what is refused, the place that the caret marks, words of the message and of the advice
REFUSED = [
    ("A+?", "A+?", "reluctant only beside AFTER MATCH", "Write (A+)?"),
    ("B ; (A ; C){2,3}?", "(A ; C){2,3}?", "reluctant only beside AFTER MATCH", "A* says too"),
    ("A ALL B AFTER MATCH SKIP TO NEXT EVENT", "A ALL B", "ALL does not go with AFTER MATCH", "A ; B OR B ; A"),
    ("A LIMIT 2 AFTER MATCH SKIP TO A", "AFTER MATCH SKIP TO A", "LIMIT does not go", "one match for each start"),
    ("A CONSUME BY ANY AFTER MATCH SKIP TO A", "AFTER MATCH SKIP TO A", "CONSUME BY does not go", "where to go on"),
    ("A ; B AFTER MATCH SKIP TO C", "AFTER MATCH SKIP TO C", "nothing in WHERE binds 'C'", "Bound are: A, B."),
    ("A ; NOT N ; B AFTER MATCH SKIP TO N", "AFTER MATCH SKIP TO N", "nothing in WHERE binds 'N'", "Bound are"),
]


@pytest.mark.parametrize(("text", "marked", "message", "advice"), REFUSED)
def test_what_does_not_go_with_it_is_refused(text: str, marked: str, message: str, advice: str) -> None:
    text = f"SELECT * WHERE {text}"
    with pytest.raises(QueryError) as caught:
        check(parse_query(text), text)
    assert message in caught.value.message
    assert advice in str(caught.value)
    assert caught.value.column == text.index(marked) + 1


@pytest.mark.parametrize("strategy", ["ANY", "NEXT", "LAST", "MAX", "STRICT"])
def test_strategies_do_not_go_with_it(strategy: str) -> None:
    with pytest.raises(QueryError, match=f"SELECT {strategy} does not go with AFTER MATCH"):
        parse_query(f"SELECT {strategy} * WHERE A AFTER MATCH SKIP TO NEXT EVENT")
