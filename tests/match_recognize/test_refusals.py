"""What cannot be kept is refused by name and place; and where a check refuses, the query would find something else."""

from __future__ import annotations

import pytest

import ceql
import row_pattern_oracle as oracle
from ceql.row_patterns.as_query import translate
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
    ("A* B?", "B AS x > 1", "no rows at all", "A*"),
    ("A B*?", "B AS x > 1", "these rows are never taken", "B*?"),
    ("A{500} B", "B AS x > 1", "too large", "A"),
    ("() | A", "A AS x > 1", "the empty pattern ()", "()"),
    ("A ()", "A AS x > 1", "the empty pattern ()", "()"),
    (" ", "A AS x > 1", "PATTERN is empty", "PATTERN ( )"),
    ("A B", "B AS ARBITRARY(x) > 1", "not translated: ARBITRARY(x)", "ARBITRARY"),
    ("A B", "B AS MAX_BY(x, y) > 1", "not translated: MAX_BY(x, y)", "MAX_BY(x, y)"),
    ("A B", "B AS CASE WHEN x > 1 THEN y END > 1", "not translated: CASE WHEN x > 1 THEN y END", "CASE"),
    ("A B", "B AS x > 1 AND CAST(y AS BIGINT) > 1", "not translated: CAST(y AS BIGINT)", "CAST"),
    ("A B", "B AS ts - PREV(ts) < INTERVAL '1' YEAR", "not translated: INTERVAL '1' YEAR", "INTERVAL"),
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
        (statement("A B", "B AS x > 1", "TO B"), "AFTER MATCH SKIP TO B is not translated"),
        (statement("A B", "B AS x > 1").replace("ts", "ts, x", 1), "one column, ascending: x"),
        ("WITH q AS (SELECT 1) " + statement("A B", "B AS x > 1") + " ORDER BY 1", "without ORDER BY and WITH"),
        (statement("A B", "B AS x > 1") + " UNION ALL " + statement("A B", "B AS x > 1"), "has 2 MATCH_RECOGNIZE"),
        (statement("A B", "B AS x > 1") + ", " + statement("A B", "B AS x > 1")[14:], "has 2 MATCH_RECOGNIZE"),
        ("CREATE TABLE u AS " + statement("A B", "B AS x > 1"), "nothing around it"),
        (statement("(" * 3000 + "A" + ")" * 3000, "A AS x > 1"), "nested too deeply"),
    ],
)
def test_clauses_that_cannot_be_kept_are_named(sql: str, message: str) -> None:
    with pytest.raises(ceql.QueryError) as caught:
        ceql.from_match_recognize(sql)
    assert message in caught.value.message


def test_all_reasons_are_told_at_once() -> None:
    sql = statement(
        "^ A B+ $",
        "A AS x / 2 > 1 AND NEXT(x) > AVG(B.x), C AS x > 1",
        "TO LAST B",
        "MEASURES CLASSIFIER() AS c, MATCH_NUMBER() AS n",
    )
    with pytest.raises(ceql.QueryError) as caught:
        ceql.from_match_recognize(sql.replace("ORDER BY ts", "ORDER BY ts DESC"))
    reasons = [
        "one column, ascending", "CLASSIFIER()", "MATCH_NUMBER()", "SKIP TO LAST B", "anchor ^", "anchor $",
        "x / 2", "NEXT(x)", "AVG(B.x)", "no variable 'C'",
    ]  # fmt: skip
    told = [reason.splitlines()[0] for reason in str(caught.value).split("\n\nAlso: ")]
    assert [reason in line for reason, line in zip(reasons, told, strict=True)] == [True] * len(reasons)


def test_reasons_of_the_pattern_are_told_together() -> None:
    sql = statement("A (B | C) D+", "A AS x > PREV(x), D AS x > 1")
    with pytest.raises(ceql.QueryError) as caught:
        ceql.from_match_recognize(sql)
    for reason in ("PREV looks at the row before", "'B' or 'C' depends", "depends on rows after it"):
        assert reason in str(caught.value)


ONES = [{"ts": i, "x": 1} for i in range(4)]


@pytest.mark.parametrize(
    ("dialect", "found"),
    [
        (None, [(0, 1), (2, 3)]),
        ("trino", [(0, 1), (2, 3)]),
        ("oracle", [(0, 1), (2, 3)]),
        ("snowflake", [(0, 1), (2, 3)]),
        ("duckdb", [(0, 1), (2, 3)]),
        ("flink", [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_where_the_search_goes_on_by_default_is_said_by_the_dialect(
    dialect: str | None, found: list[tuple[int, int]]
) -> None:
    sql = "SELECT * FROM T MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B) DEFINE A AS x = 1, B AS x = 1)"
    query = ceql.from_match_recognize(sql, dialect=dialect)
    assert [m.events for m in query.run(ONES, type=None, time="ts")] == found


def test_a_default_that_is_not_known_has_to_be_written() -> None:
    sql = "SELECT * FROM T MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B) DEFINE B AS x = 1)"
    with pytest.raises(ceql.QueryError, match="AFTER MATCH is missing"):
        ceql.from_match_recognize(sql, dialect="databricks")
    query = ceql.from_match_recognize(sql.replace("PATTERN", "AFTER MATCH SKIP TO NEXT ROW PATTERN"), "databricks")
    assert len(query.run(ONES, type=None, time="ts").to_arrow()) == 3
    with pytest.raises(ceql.ArgumentError, match=r"dialect= is one of trino, .* not 'mysql'"):
        ceql.from_match_recognize(sql, dialect="mysql")


@pytest.mark.parametrize(
    ("dialect", "pattern", "variables"),
    [
        (None, 'A "a"', {"A": (0,), "a": (1,)}),
        (None, 'a "A"', {"A": (0, 1)}),
        (None, "a A", {"A": (0, 1)}),
        ("trino", '"b" b', {"b": (0,), "B": (1,)}),
        ("flink", "A a", {"A": (0,), "a": (1,)}),
        ("duckdb", 'A "a"', {"A": (0, 1)}),
        (None, "start end", {"START": (0,), "END": (1,)}),
    ],
)
def test_labels_that_differ_in_case(dialect: str | None, pattern: str, variables: dict[str, tuple[int, ...]]) -> None:
    sql = f"SELECT * FROM T MATCH_RECOGNIZE (ORDER BY ts AFTER MATCH SKIP PAST LAST ROW PATTERN ({pattern}))"
    query = ceql.from_match_recognize(sql, dialect=dialect)
    assert next(iter(query.run(ONES, type=None, time="ts"))).bindings == variables


def test_conditions_and_measures_follow_the_case_of_labels() -> None:
    sql = """SELECT * FROM T MATCH_RECOGNIZE (ORDER BY ts MEASURES "a".x AS second, a.x AS first
        PATTERN (A "a") DEFINE "a" AS "a".x > A.x, a AS a.x = 1)"""
    rows = [{"ts": i, "x": x} for i, x in enumerate([1, 1, 2, 3])]
    found = ceql.from_match_recognize(sql).run(rows, type=None, time="ts")
    assert [m.measures for m in found] == [{"second": 2, "first": 1}]


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
