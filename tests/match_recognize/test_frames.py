"""MATCH_RECOGNIZE as users call it: frames of any kind, dialects, SQL around the clause, errors that name all."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ceql
from ceql.row_patterns.run import explain

PRICES = pa.table(
    {"symbol": ["a", "a", "a", "a", "b", "b"], "day": [4, 3, 2, 1, 1, 2], "price": [9, 7, 10, 12, 3, None]}
)
CLAUSE = """MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY day
    MEASURES LAST(down.price) AS bottom, LAST(up.day) AS finish
    PATTERN (begin down+ up+)
    DEFINE down AS price < PREV(price), up AS price > PREV(price))"""
SQL = f"SELECT * FROM prices {CLAUSE}"
FOUND = [{"symbol": "a", "bottom": 7, "finish": 4}]


def test_the_frame_that_comes_in_comes_out(tmp_path: Path) -> None:
    pq.write_table(PRICES, tmp_path / "prices.parquet")
    assert ceql.match_recognize(SQL, PRICES).to_pylist() == FOUND
    assert ceql.match_recognize(SQL, {"Prices": PRICES}).to_pylist() == FOUND
    assert ceql.match_recognize(SQL, tmp_path / "prices.parquet").to_pylist() == FOUND
    assert ceql.match_recognize(SQL, PRICES.to_pylist()).to_pylist() == FOUND
    in_pandas = ceql.match_recognize(SQL, PRICES.to_pandas())
    assert isinstance(in_pandas, pd.DataFrame)
    assert in_pandas.to_dict("records") == FOUND
    frame = pl.from_arrow(PRICES)
    assert isinstance(frame, pl.DataFrame)
    assert ceql.match_recognize(SQL, frame).to_dicts() == FOUND
    lazy = ceql.match_recognize(SQL, frame.lazy())
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect().to_dicts() == FOUND


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(ceql.QueryError, match="there is no table 'prices' in the dict of frames"):
        ceql.match_recognize(SQL, {"price": PRICES})


def test_the_select_around() -> None:
    rest = "AS m WHERE bottom > 5 ORDER BY next DESC LIMIT 3"
    sql = f"SELECT m.finish + 1 AS next, upper(symbol) FROM prices {CLAUSE} {rest}"
    assert ceql.match_recognize(sql, PRICES).to_pydict() == {"next": [5], "_col1": ["A"]}
    for rest, word in (("GROUP BY bottom", "GROUP BY"), ("JOIN t ON true", "JOIN")):
        with pytest.raises(ceql.QueryError, match=f"around MATCH_RECOGNIZE there is {word}"):
            ceql.match_recognize(f"SELECT bottom FROM prices {CLAUSE} AS m {rest}", PRICES)


def test_rows_of_a_selection() -> None:
    whole = ceql.match_recognize(SQL, PRICES)
    doubled = "SELECT day, symbol, price + 0 AS price FROM prices WHERE day > 0"
    for source, before in (
        (f"({doubled})", ""),
        (f"({doubled}) AS p", ""),
        ("(SELECT * FROM prices) AS p (symbol, day, price)", ""),
        ("cheap", f"WITH cheap AS ({doubled}) "),
        ("b", "WITH a (s, day, price) AS (SELECT * FROM prices), b (s, d, price) AS (SELECT * FROM a WHERE day > 0) "),
    ):
        names = {"b": ("d", "s")}.get(source, ("day", "symbol"))
        clause = CLAUSE.replace("day", names[0]).replace("BY symbol", f"BY {names[1]}")
        found = ceql.match_recognize(f"{before}SELECT * FROM {source} {clause}", {"prices": PRICES})
        assert [list(row.values()) for row in found.to_pylist()] == [list(row.values()) for row in whole.to_pylist()]
    few = ceql.match_recognize(f"SELECT * FROM (SELECT * FROM prices WHERE price < 0) {CLAUSE}", PRICES)
    assert few.num_rows == 0
    assert few.schema == whole.schema
    for source, word in (
        ("(SELECT day FROM prices GROUP BY day)", "in the query that gives the rows there is GROUP BY"),
        ("(SELECT * FROM prices JOIN t ON true)", "in the query that gives the rows there is JOIN"),
        ("(SELECT * FROM prices UNION SELECT * FROM prices)", "there is UNION"),
        ("prices AS p (a, b)", "'p' names 2 columns, and there are 3"),
    ):
        with pytest.raises(ceql.QueryError, match=re.escape(word)):
            ceql.match_recognize(f"SELECT * FROM {source} {CLAUSE}", PRICES)
    with pytest.raises(ceql.QueryError, match="'p' of WITH reads itself"):
        ceql.match_recognize(f"WITH p AS (SELECT * FROM p) SELECT * FROM p {CLAUSE}", PRICES)


def test_the_time_between_two_times() -> None:
    began = datetime(2026, 1, 1, 10, 0, 50)
    times = pa.table({"began": [began], "ended": [began + timedelta(seconds=80)]})

    def between(dialect: str | None, call: str) -> Any:
        skip = "AFTER MATCH SKIP PAST LAST ROW"
        sql = (
            f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY began MEASURES {call} AS n {skip} PATTERN (A) DEFINE A AS true)"
        )
        return ceql.match_recognize(sql, times, dialect=dialect)["n"][0].as_py()

    for dialect, call, passed in (
        ("snowflake", "DATEDIFF('minute', began, ended)", 2),
        ("duckdb", "date_diff('minute', began, ended)", 2),
        ("trino", "date_diff('minute', began, ended)", 1),
        ("trino", "date_diff('minute', ended, began)", -1),
        ("trino", "date_diff('millisecond', began, ended)", 80_000),
        ("databricks", "DATEDIFF(MINUTE, began, ended)", 1),
        ("databricks", "TIMESTAMPDIFF(MINUTE, began, ended)", 1),
        ("spark", "DATEDIFF('minute', began, ended)", 1),
        ("spark", "DATEDIFF(ended, began)", 0),
    ):
        assert between(dialect, call) == passed, (dialect, call)
    with pytest.raises(ceql.QueryError, match="'ENDED' is no unit of time"):
        between(None, "DATEDIFF('minute', began, ended)")
    with pytest.raises(ceql.QueryError, match="the whole years between two times are not counted"):
        between("trino", "date_diff('year', began, ended)")


def test_all_that_is_wrong_is_named() -> None:
    with pytest.raises(ceql.QueryError) as caught:
        ceql.match_recognize(
            SQL.replace("LAST(down.price)", "LAST(down.prise)").replace("LAST(up.day)", "sin(day)"), PRICES
        )
    assert "there is no column 'prise' (line 3, column 24)" in str(caught.value)
    for part, new, said in (
        ("PATTERN (begin", "PATTERN (begin {- x -}", "needs ALL ROWS PER MATCH"),
        ("down AS", "dwn AS", "DEFINE names 'DWN'"),
        ("up+)", "up+ | )", "expected a variable"),
        ("price < PREV(price)", "symbol < PREV(price)", "text and int64 are compared"),
        ("price < PREV(price)", "price + 1", "is no condition"),
        ("price < PREV(price)", "STDDEV(price) > 1", "STDDEV, which is not evaluated while rows are matched"),
        ("price < PREV(price)", "day < CURRENT_TIMESTAMP", "the current time is not known here"),
        ("price < PREV(price)", "SUM(price) OVER (ORDER BY day) > 1", "a window function (OVER) of this form"),
        ("LAST(up.day)", "sin(day)", "SIN is not evaluated"),
        ("LAST(up.day)", "LAST(up.day, day)", "a number of rows is a constant"),
        ("LAST(up.day)", "LAST(up.day + down.day)", "columns of different variables"),
        ("ORDER BY day", "ORDER BY day + 1", "ORDER BY takes names of columns"),
    ):
        with pytest.raises(ceql.QueryError) as caught:
            ceql.match_recognize(SQL.replace(part, new), PRICES)
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (None, [(1, 2, 2), (3, 4, 3)]),
        ("trino", [(1, 2, 2), (3, 4, 3)]),
        ("snowflake", [(1, 2, 2.5), (3, 4, 3.5)]),
        ("flink", [(None, 1, 2), (1, 2, 2), (2, 3, 3), (3, 4, 3)]),
        ("spark", [(None, 1, 2.0), (2, 3, 3.0)]),
    ],
)
def test_dialects(dialect: str | None, expected: list[tuple[Any, ...]]) -> None:
    """The default of AFTER MATCH, where NULL is in ORDER BY, and division."""
    table = pa.table({"x": [4, 3, None, 1, 2]})
    measures = "FIRST(x) AS a, LAST(x) AS b, (LAST(x) + 3) / 2 AS c"
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES {measures} PATTERN (A B))"
    found = ceql.match_recognize(sql, table, dialect=dialect).to_pylist()
    assert [tuple(row.values()) for row in found] == expected


def test_values_of_any_type_are_compared_between_rows() -> None:
    from datetime import date, datetime
    from decimal import Decimal

    for values in (
        [Decimal("1.10"), Decimal("1.20"), Decimal("1.15")],
        ["a", "c", "b"],
        [date(2026, 1, 1), date(2026, 1, 3), date(2026, 1, 2)],
        [datetime(2026, 1, 1), datetime(2026, 1, 3), datetime(2026, 1, 2)],
        [0.1, 0.3, 0.2],
        [1, 3, 2],
    ):
        table = pa.table({"x": values, "n": [1, 2, 3]})
        sql = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES COUNT(*) AS c PATTERN (A B+) DEFINE B AS x > A.x)"
        assert ceql.match_recognize(sql, table).to_pylist() == [{"c": 3}]
        assert ceql.match_recognize(sql.replace("> A.x", "> FIRST(B.x)"), table).to_pylist() == []


def test_the_class_is_said() -> None:
    assert explain(SQL, PRICES).startswith("linear: conditions look at rows and their neighbours")
    assert "values that a condition still asks for" in explain(SQL.replace("PREV(price),", "begin.price,"), PRICES)


def test_patterns_that_are_exponential_elsewhere() -> None:
    ones = pa.table({"x": [1] * 3000})
    for pattern in ("(A+)+ B", "(A | A)* B", "((A?){20}) A{20} B"):
        for define in ("A AS x = 1, B AS x = 2", "A AS x = 1, B AS x > FIRST(A.x)"):
            sql = f"SELECT * FROM t MATCH_RECOGNIZE (MEASURES 1 AS n PATTERN ({pattern}) DEFINE {define})"
            assert ceql.match_recognize(sql, ones).num_rows == 0


@pytest.mark.parametrize(
    ("measure", "wrong"),
    [("SUBSTRING(CLASSIFIER(), x)", "takes a constant here"), ("EXTRACT(CENTURY FROM x)", "no unit of time")],
)
def test_arguments_that_no_function_takes_are_named(measure: str, wrong: str) -> None:
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (MEASURES {measure} AS m PATTERN (A) DEFINE A AS x > 1)"
    with pytest.raises(ceql.QueryError, match=wrong) as caught:
        ceql.match_recognize(sql, pa.table({"x": [1, 2]}))
    assert caught.value.line == 1


def test_functions_of_the_user() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts
        MEASURES mean(A.x, A.w) AS mean, tagged(LAST(k)) AS tag, LAST(ts) AS ts
        PATTERN (A+) DEFINE A AS mean(x, w) < 3 AND tagged(k) <> '<c>')"""
    rows = pa.table({"ts": [1, 2, 3, 4], "x": [1, 2, 9, 4], "w": [1, 3, 1, 1], "k": ["a", "b", "a", "c"]})

    def tagged(texts: pa.Array) -> pa.Array:
        return pa.array([f"<{text}>" for text in texts.to_pylist()], pa.string())

    functions: dict[str, Any] = {"mean": "(value, weight) -> SUM(value * weight) * 1.0 / SUM(weight)", "Tagged": tagged}
    found = ceql.match_recognize(sql, rows, functions=functions)
    assert found.to_pylist() == [{"mean": 1.75, "tag": "<b>", "ts": 2}]
    for function, said in (("(x) -> x", "takes 1 arguments, not 2"), ("x + 1", "no '(x) -> expression'")):
        with pytest.raises(ceql.QueryError, match=re.escape(said)):
            ceql.match_recognize(sql, rows, functions={**functions, "mean": function})
    for wrong, gives in ((["a"], "a list"), (pa.array(["a"]), "1")):
        with pytest.raises(ceql.QueryError, match=f"takes arrays of 4 values and gives {gives}"):
            ceql.match_recognize(sql, rows, functions={**functions, "tagged": lambda texts, wrong=wrong: wrong})
    with pytest.raises(ceql.QueryError, match="MEDIAN is a function of SQL"):
        ceql.match_recognize(sql.replace("mean(x, w)", "median(x)"), rows, functions={**functions, "median": "x -> x"})
    with pytest.raises(ceql.ArgumentError, match="a function over Arrow arrays"):
        ceql.match_recognize(sql, rows, functions={"mean": 3})  # type: ignore[dict-item]


def test_times_are_no_numbers_but_in_oracle() -> None:
    rows = pa.table({"day": [date(2024, 1, day) for day in (1, 2, 9, 10)]})
    sql = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY day MEASURES LAST(day) - FIRST(day) AS days, COUNT(*) AS n
        PATTERN (A B+) DEFINE B AS B.day - A.day {})"""
    found = ceql.match_recognize(sql.format("< 8.5"), rows, dialect="oracle")
    assert found.to_pylist() == [{"days": 8, "n": 3}]
    with pytest.raises(ceql.QueryError, match="an interval and a whole number are compared"):
        ceql.match_recognize(sql.format("< 8"), rows)
    assert ceql.match_recognize(sql.format("< INTERVAL '8' DAY"), rows)["n"].to_pylist() == [2, 2]
    later = sql.format("< 100").replace("B.day - A.day", "B.day > A.day + 1 AND B.day - A.day")
    assert ceql.match_recognize(later, rows, dialect="oracle")["n"].to_pylist() == [3]


def test_decimals_of_several_rows_are_exact() -> None:
    rows = pa.table({"ts": range(6), "x": [Decimal(text) for text in ("0.10", "0.20", "0.30", "5", "-1.5", "0.01")]})
    sql = (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES SUM(x) AS s, COUNT(*) AS n PATTERN (A+) DEFINE A AS {})"
    )
    for condition, found in (
        ("SUM(A.x) <= 0.6", [("0.60", 3), ("-1.49", 2)]),
        ("SUM(A.x) + 0 < 1", [("0.60", 3), ("-1.49", 2)]),
        ("SUM(x) * FIRST(x) < 0.06", [("0.30", 2), ("0.01", 1)]),
        ("AVG(x) < 0.25", [("0.60", 3), ("-1.49", 2)]),
        ("MAX(x) - MIN(x) = 0", [("0.10", 1), ("0.20", 1), ("0.30", 1), ("5.00", 1), ("-1.50", 1), ("0.01", 1)]),
        ("x >= FIRST(x) AND SUM(x) / COUNT(*) > 0.1", [("5.50", 3)]),
    ):
        told = ceql.match_recognize(sql.format(condition), rows).to_pylist()
        assert [(str(row["s"]), row["n"]) for row in told] == found, condition
    assert "carried values" in explain(sql.format("SUM(A.x) < 3"), rows)
    wide = pa.table({"ts": [0, 1], "x": pa.array([1, 2], pa.decimal128(38, 20))})
    with pytest.raises(ceql.DataError, match="more than 18 digits"):
        ceql.match_recognize(sql.format("SUM(A.x) < 3"), wide)


def test_fields_of_nested_columns() -> None:
    places = [{"city": city, "at": {"x": k}} for k, city in enumerate("abab")]
    rows = pa.table({"ts": range(4), "place": places, "tags": [["t"] * k for k in range(4)]})
    sql = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts
        MEASURES A.place.city AS first, place.CITY AS last, SUM(B.place.at.x) AS x, CARDINALITY(tags) AS tags
        PATTERN (A B) DEFINE A AS place.city = 'a', B AS place.at.x > A.place.at.x)"""
    found = ceql.match_recognize(sql, rows).to_pylist()
    assert found == [
        {"first": "a", "last": "b", "x": 1, "tags": 1},
        {"first": "a", "last": "b", "x": 3, "tags": 3},
    ]
    for wrong, said in (("place.cty", "there is no field 'cty'"), ("plac.city", "PATTERN has no variable 'PLAC'")):
        with pytest.raises(ceql.QueryError, match=said):
            ceql.match_recognize(sql.replace("place.CITY", wrong), rows)
