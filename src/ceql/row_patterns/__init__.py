"""MATCH_RECOGNIZE, SQL's row patterns, over tables: the rows that SQL gives, in time that never is exponential.

In: a statement and tables. Out: a table. The stages are files: `clauses` reads the statement (`statement`), `pattern`
what stands inside PATTERN, `navigation` which rows an expression looks at; `automaton` makes an ordered automaton of
the pattern; `plan` runs the clause: `rows` puts the input in order, `conditions` decides DEFINE, `two_passes` finds the
matches, `measures` and `totals` compute MEASURES. `run` does the SELECT around it.
`as_query` prints a clause as a query of CEQL where a plain one says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ceql.query import Query
    from ceql.row_patterns.dialects import Function


def match_recognize(
    sql: str,
    frames: Any,
    *,
    dialect: str | None = None,
    functions: Mapping[str, Function] | None = None,
    now: datetime | None = None,
) -> Any:
    """The rows of `SELECT … FROM table MATCH_RECOGNIZE (…)`, as a frame of the kind that came in.

    `frames` is the table itself, or a dict of tables by the names that the statement has for them: Arrow, pandas,
    polars, lists of dicts, or paths of files. Around MATCH_RECOGNIZE there may be columns and expressions, WHERE,
    ORDER BY and LIMIT, and rows may come from such a subquery or from WITH; joins and the like are what
    `ceql.spark.sql` leaves to Spark.

    `dialect` is "trino", "flink", "oracle", "snowflake", "databricks", "duckdb", or None for the standard: it says
    where the search goes on if AFTER MATCH is left out, which labels are the same, where NULL comes in ORDER BY, and
    what `/` does. `functions` has your own, by name: a function that takes Arrow arrays and gives one with a value for
    each row, or text such as "(price, weight) -> SUM(price * weight) / SUM(weight)", which may aggregate and stand in
    DEFINE. `now` is what CURRENT_TIMESTAMP means.

    What cannot be evaluated is a `ceql.QueryError` that names all of it. This needs sqlglot: pip install 'ceql[sql]'.

    >>> import pyarrow as pa
    >>> prices = pa.table({"day": [1, 2, 3, 4, 5, 6], "price": [12, 10, 7, 9, 13, 13]})
    >>> match_recognize('''
    ...     SELECT * FROM prices MATCH_RECOGNIZE (
    ...       ORDER BY day
    ...       MEASURES FIRST(day) AS start, LAST(down.day) AS bottom, LAST(day) AS recovered
    ...       PATTERN (begin down+ up+)
    ...       DEFINE down AS price < PREV(price), up AS price > PREV(price))
    ... ''', prices).to_pylist()
    [{'start': 1, 'bottom': 3, 'recovered': 5}]
    """
    _check_installed("match_recognize")
    from ceql.row_patterns.run import run

    return run(sql, frames, dialect, functions, now)


def from_match_recognize(sql: str, dialect: str | None = None) -> Query:
    """The query of CEQL that finds the matches of `SELECT … FROM table MATCH_RECOGNIZE (…)`; `print` shows it.

    Where there is no such query, a `ceql.QueryError` names what it lacks, with its places in the SQL:
    `ceql.match_recognize` runs the statement nevertheless. Run the query with `type=None` and, as `time`, the column of
    ORDER BY. This needs sqlglot: pip install 'ceql[sql]'.

    >>> query = from_match_recognize('''
    ...     SELECT * FROM Ticks MATCH_RECOGNIZE (
    ...       PARTITION BY symbol ORDER BY ts
    ...       MEASURES A.price AS high, LAST(B.price) AS low
    ...       PATTERN (A B+ C)
    ...       DEFINE B AS price < PREV(price), C AS price > PREV(price))
    ... ''')
    >>> print(query)
    SELECT A, B, C, A.price AS high, LAST(B.price) AS low
    FROM Ticks
    WHERE Ticks AS A : Ticks:+ AS B : Ticks AS C
      FILTER B[price < PREV.price]
      FILTER C[price > PREV.price]
    PARTITION BY [symbol]
    AFTER MATCH SKIP PAST LAST EVENT
    -- each row is an event 'Ticks': run with type=None, time='ts'
    """
    _check_installed("from_match_recognize")
    from ceql.row_patterns.as_query import translate
    from ceql.row_patterns.clauses import read
    from ceql.row_patterns.dialects import dialect_of

    return translate(read(sql, dialect_of(dialect)))


def _check_installed(name: str) -> None:
    try:
        import sqlglot  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{name}() needs sqlglot: pip install 'ceql[sql]'") from error
