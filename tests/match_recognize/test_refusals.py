"""What cannot be kept is refused by name and place; and where a check refuses, the query would find something else."""

from __future__ import annotations

import pytest

import ceql
import row_pattern_oracle as oracle
from ceql.match_recognize import translate
from row_pattern_oracle import Rep, Seq, Var

REFUSED = [
    ("A B+", "B AS x > 1", "depends on rows after it", "B"),
    ("A B?", "B AS x > 1", "depends on rows after it", "B"),
    ("A B* C", "B AS x > 1", "a row can be 'B' as well as 'C'", "C"),
    ("A (B C | B D)", "B AS x = 1, C AS x = 2, D AS x = 3", "a row can be 'B' as well as 'B'", "B"),
    ("A B", "A AS x > PREV(x)", "PREV looks at the row before the match", "A"),
    ("A? B C", "C AS x > A.x", "may have no row of 'A' before 'C'", "A.x"),
    ("(A B)+ C", "A AS x = 1, B AS x = 2, C AS C.x = A.x", "'A' has several rows", "A.x"),
    ("A B", "B AS AVG(A.x) > 1", "an aggregate of the rows so far", "AVG(A.x"),
    ("A B+ C", "B AS B.x < LAST(B.x, 1), C AS x > 3", "an offset", "LAST(B.x, 1"),
    ("A B", "B AS x > PREV(x, 2)", "only the row right before", "PREV(x, 2"),
    ("A B", "B AS NEXT(x) > 1", "looks at a row after", "NEXT(x"),
    ("A B", "B AS x / 2 > 1", "without a remainder", "x / 2"),
    ("A B", "B AS y.x > 1", "PATTERN has no variable 'y'", "y.x"),
    ("A B", "C AS x > 1", "PATTERN has no variable 'C'", "C AS x > 1"),
    ("PERMUTE(A, B)", "B AS x > 1", "PERMUTE", "PERMUTE"),
    ("^ A B", "B AS x > 1", "anchor", "^"),
    ("A {- B -} C", "B AS x > 1", "excluded rows", "{-"),
    ("A* B?", "B AS x > 1", "no rows at all", None),
    ("A B*?", "B AS x > 1", "these rows are never taken", "B*?"),
    ("A{500} B", "B AS x > 1", "too large", "A"),
]


def statement(pattern: str, define: str, skip: str = "TO NEXT ROW", rest: str = "") -> str:
    return (
        f"SELECT * FROM T MATCH_RECOGNIZE (ORDER BY ts {rest} AFTER MATCH SKIP {skip} "
        f"PATTERN ({pattern}) DEFINE {define})"
    )


@pytest.mark.parametrize(("pattern", "define", "message", "place"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_cannot_be_kept_is_named(pattern: str, define: str, message: str, place: str | None) -> None:
    sql = statement(pattern, define)
    with pytest.raises(ceql.QueryError) as caught:
        ceql.from_match_recognize(sql)
    assert message in caught.value.message
    if place is not None:
        assert caught.value.column is not None
        assert sql[caught.value.column - 1 :].startswith(place)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM T", "there is no MATCH_RECOGNIZE"),
        (statement("A B", "B AS x > 1") + " WHERE x > 2", "without WHERE"),
        (statement("A B", "B AS x > 1").replace("FROM T", "FROM (SELECT * FROM T)"), "from a table, by its name"),
        (statement("A B", "B AS x > 1", "TO LAST B"), "SKIP TO LAST B"),
        (statement("A B", "B AS x > 1", rest="MEASURES CLASSIFIER() AS c"), "not translated: CLASSIFIER()"),
        (statement("A B", "B AS x > 1", rest="MEASURES A.x AS a ALL ROWS PER MATCH"), "rows so far"),
        (statement("A B", "B AS x > 1").replace("ORDER BY ts", "ORDER BY ts DESC"), "ascending"),
        (statement("A B", "B AS x > 1").replace(") DEFINE", ") SUBSET S = (A, B) DEFINE"), "SUBSET"),
        (statement("A B", "B AS x > 1").replace(") DEFINE", ") WITHIN INTERVAL '1' YEAR DEFINE"), "this interval"),
        (statement("A B", "B AS x > "), "the SQL cannot be read"),
        (statement("A B)", "B AS x > 1"), "the SQL cannot be read"),
        (statement("A | | B", "B AS x > 1"), "expected a variable"),
    ],
)
def test_clauses_that_cannot_be_kept_are_named(sql: str, message: str) -> None:
    with pytest.raises(ceql.QueryError) as caught:
        ceql.from_match_recognize(sql)
    assert message in caught.value.message


def test_a_match_that_overtakes_another_is_refused_for_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = statement("A B* C", "A AS k = 1, B AS x <= A.x, C AS x > A.x", "PAST LAST ROW")
    with pytest.raises(ceql.QueryError, match="a match that starts later could end earlier"):
        ceql.from_match_recognize(sql)
    monkeypatch.setattr(translate, "check_no_overtaking", lambda *_: None)
    rows = [{"ts": i, "k": k, "x": x} for i, (k, x) in enumerate([(1, 5), (1, 0), (0, 3), (0, 6)])]
    found = [m.events for m in ceql.from_match_recognize(sql).run(rows, type=None, time="ts")]
    conditions: dict[str, oracle.Condition] = {
        "A": lambda rows, i, _: rows[i]["k"] == 1,
        "B": lambda rows, i, bound: rows[i]["x"] <= rows[bound[0][1]]["x"],
        "C": lambda rows, i, bound: rows[i]["x"] > rows[bound[0][1]]["x"],
    }
    pattern = Seq((Var("A"), Rep(Var("B"), 0, None, True), Var("C")))
    by_definition = [tuple(range(m.start, m.end + 1)) for m in oracle.matches(pattern, conditions, rows, True)]
    assert (found, by_definition) == ([(1, 2)], [(0, 1, 2, 3)])


def test_all_rows_and_columns_of_the_select() -> None:
    sql = statement("A B", "B AS x > A.x", rest="MEASURES A.x AS low, B.x AS high")
    chosen = ceql.from_match_recognize(sql.replace("SELECT *", "SELECT M.high AS top"))
    rows = [{"ts": i, "x": x} for i, x in enumerate([1, 2, 1])]
    assert [m.measures for m in chosen.run(rows, type=None, time="ts")] == [{"top": 2}]
    every = ceql.from_match_recognize(statement("A B", "B AS x > A.x", rest="ALL ROWS PER MATCH"))
    assert every.run(rows, type=None, time="ts").to_arrow(events="long")["row"].to_pylist() == [0, 1]


def test_names_in_quotes_and_of_the_table_itself() -> None:
    sql = 'SELECT * FROM A MATCH_RECOGNIZE (ORDER BY `ts` PATTERN (A "big one") DEFINE "big one" AS "big one".x > a.x)'
    query = ceql.from_match_recognize(sql)
    rows = [{"ts": i, "x": x} for i, x in enumerate([1, 2, 1])]
    assert [m.bindings for m in query.run(rows, type=None, time="ts")] == [{"A": (0,), "big one": (1,)}]


def test_a_variable_that_is_never_taken() -> None:
    sql = statement(
        "(A | B) C", "A AS x IS NOT NULL AND y IS NOT NULL, B AS x > 1 AND y > 1, C AS x = 3", "PAST LAST ROW"
    )
    query = ceql.from_match_recognize(sql)
    rows = [{"ts": i, "x": x, "y": y} for i, (x, y) in enumerate([(2, 2), (3, None), (3, 3), (3, 3)])]
    assert [m.bindings["A"] for m in query.run(rows, type=None, time="ts")] == [(0,), (2,)]
