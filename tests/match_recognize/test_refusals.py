"""What a query of CEQL cannot say is refused by name and place, all of it at once."""

from __future__ import annotations

import pytest

import ceql

REFUSED = [
    ("A B", "A AS x > PREV(x)", "'A' may begin a match, and PREV looks at the row before the match", "PREV(x)"),
    ("A? B C", "C AS x > A.x", "may have no row of 'A' before 'C'", "A.x"),
    ("(A B)+ C", "A AS x = 1, B AS x = 2, C AS C.x = A.x", "'A' may have rows in several places", "A.x"),
    ("A B", "B AS AVG(A.x) > 1", "an aggregate of the rows so far", "AVG(A.x"),
    ("A B+ C", "B AS B.x < LAST(B.x, 1), C AS x > 3", "an offset", "LAST(B.x, 1"),
    ("A B", "B AS x > PREV(x, 2)", "another row than the one right before it", "PREV(x, 2"),
    ("A B", "B AS NEXT(x) > 1", "looks at a row after", "NEXT(x"),
    ("A B", "B AS x / 2 > 1", "without a remainder", "x / 2"),
    ("A B", "B AS y.x > 1", "PATTERN has no variable 'Y'", "y.x"),
    ("A B", "C AS x > 1", "PATTERN has no such variable", "DEFINE C"),
    ("A B", "B AS x > MATCH_NUMBER()", "MATCH_NUMBER() has no plain form", "MATCH_NUMBER"),
    ("A B", "B AS CLASSIFIER() = 'B'", "CLASSIFIER() has no plain form", "CLASSIFIER"),
    ("A B", "B AS x > MAX(x) OVER ()", "a window function has no plain form", None),
    ("PERMUTE(A, B, C, D, E)", "B AS x > 1", "PERMUTE of so many parts", "PERMUTE"),
    ("^ A B", "B AS x > 1", "the anchor ^ has no plain form", "^"),
    ("A* B?", "B AS x > 1", "may match no rows at all", None),
    ("() | A", "A AS x > 1", "the empty pattern ()", "()"),
    ("A ()", "A AS x > 1", "the empty pattern ()", "()"),
    (" ", "A AS x > 1", "PATTERN is empty", "PATTERN ( )"),
    ("A B", "B AS CASE WHEN x > 1 THEN y END > 1", "CASE has no plain form", "x > 1"),
    ("A B", "B AS x > 1 AND CAST(y AS BIGINT) > 1", "CAST has no plain form", "y AS BIGINT"),
    ("A B", "B AS ts - PREV(ts) < INTERVAL '1' YEAR", "an interval of this form", "'1' YEAR"),
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
        (statement("A B", "B AS x > 1") + " WHERE x > 2", "around MATCH_RECOGNIZE there is WHERE"),
        (statement("A B", "B AS x > 1").replace("FROM T", "FROM (SELECT * FROM T)"), "from a table, by its name"),
        (statement("A B", "B AS x > 1", rest="MEASURES CLASSIFIER() AS c"), "CLASSIFIER() has no plain form"),
        (statement("A B", "B AS x > 1", rest="MEASURES PREV(A.x) AS c"), "PREV and NEXT have no plain form"),
        (statement("A B", "A AS x > 1", rest="MEASURES FIRST(x, 1) AS c"), "an offset into all rows"),
        (statement("A B", "B AS x > 1", rest="MEASURES ARRAY_AGG(x) AS c"), "ARRAYAGG has no plain form"),
        (statement("(A | B)+", "B AS x > 1", rest="MEASURES x AS c"), "not the same in each match"),
        (statement("(A B)+", "B AS x > 1", rest="MEASURES A.y AS c"), "'y' may be NULL in a row of 'A'"),
        (statement("A B", "B AS x > 1", rest="MEASURES A.x AS a ALL ROWS PER MATCH"), "rows so far"),
        (statement("A B", "B AS x > 1", rest="ALL ROWS PER MATCH WITH UNMATCHED ROWS"), "WITH UNMATCHED ROWS"),
        (statement("A {- B -} C", "B AS x > 1", rest="ALL ROWS PER MATCH"), "excluded rows"),
        (statement("A B", "B AS x > 1").replace("ORDER BY ts", "ORDER BY ts DESC"), "ascending"),
        (statement("A B", "B AS x > 1").replace(") DEFINE", ") WITHIN INTERVAL '1' YEAR DEFINE"), "an interval"),
        (statement("A B", "B AS x > "), "this cannot be read"),
        (statement("A B)", "B AS x > 1"), "cannot be read"),
        (statement("A | | B", "B AS x > 1"), "expected a variable"),
        (statement("A B", "B AS x > 1").replace("ts", "ts, x", 1), "one column, ascending"),
        ("WITH q AS (SELECT 1) " + statement("A B", "B AS x > 1") + " ORDER BY 1", "there is WITH"),
        (statement("A B", "B AS x > 1") + " UNION ALL " + statement("A B", "B AS x > 1"), "has 2 MATCH_RECOGNIZE"),
        (statement("A B", "B AS x > 1") + ", " + statement("A B", "B AS x > 1")[14:], "has 2 MATCH_RECOGNIZE"),
        ("CREATE TABLE u AS " + statement("A B", "B AS x > 1"), "there is CREATE"),
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
        "A AS x / 2 > 1 AND NEXT(x) > AVG(B.x), B AS LOG(x) > 1",
        rest="MEASURES CLASSIFIER() AS c, MATCH_NUMBER() AS n",
    )
    with pytest.raises(ceql.QueryError) as caught:
        ceql.from_match_recognize(sql.replace("ORDER BY ts", "ORDER BY ts DESC"))
    reasons = [
        "one column, ascending", "CLASSIFIER()", "MATCH_NUMBER()", "anchor ^", "anchor $", "without a remainder",
        "a row after", "aggregate", "LOG",
    ]  # fmt: skip
    told = [reason.splitlines()[0] for reason in str(caught.value).split("\n\nAlso: ")]
    assert [reason in line for reason, line in zip(reasons, told, strict=True)] == [True] * len(reasons)
    assert str(caught.value).endswith("ceql.match_recognize runs the statement as it is.")


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
