"""Row patterns of SQL:2016, MATCH_RECOGNIZE, as queries.

In: the text of a SELECT with MATCH_RECOGNIZE. Out: a `ceql.Query` that finds the very same matches, or a `QueryError`
that names all that cannot be kept. The stages are files: `sql` cuts the text into clauses (sqlglot parses it),
`dialects` says what they leave open, `pattern` reads PATTERN, `conditions` and `measures` turn the SQL of
DEFINE and MEASURES into trees, `splits` names first and last rows, `preference` and `exclusion` prove that backtracking
has no choice, `translate` puts the query together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ceql.query import Query


def from_match_recognize(sql: str, dialect: str | None = None) -> Query:
    """The query that finds the matches of `SELECT … FROM table MATCH_RECOGNIZE (…)`; `print` shows it as CEQL.

    If the meaning cannot be kept, a `ceql.QueryError` names all that cannot, with its places in the SQL. Run the query
    with `type=None` and, as `time`, the column of ORDER BY. This needs sqlglot: pip install 'ceql[sql]'.

    `dialect` is "trino", "flink", "oracle", "snowflake", "databricks", "duckdb", or None for the standard. It says
    where the search goes on if AFTER MATCH is left out (TO NEXT ROW in Flink, PAST LAST ROW in the standard), and which
    names are the same variable: in the standard, those without quotes are upper-cased.

    >>> query = from_match_recognize('''
    ...     SELECT * FROM Ticks MATCH_RECOGNIZE (
    ...       PARTITION BY symbol ORDER BY ts
    ...       MEASURES A.price AS high, LAST(B.price) AS low
    ...       PATTERN (A B+ C)
    ...       DEFINE B AS price < PREV(price), C AS price > PREV(price))
    ... ''')
    >>> print(query)
    SELECT MAX A, B, C, A.price AS high, LAST(B.price) AS low
    FROM Ticks
    WHERE Ticks AS A : Ticks:+ AS B : Ticks AS C
      FILTER B[price < PREV.price]
      FILTER C[price > PREV.price]
    PARTITION BY [symbol]
    CONSUME BY PARTITION
    -- each row is an event 'Ticks': run with type=None, time='ts'
    """
    try:
        import sqlglot  # noqa: F401
    except ImportError as error:
        raise ImportError("from_match_recognize() needs sqlglot: pip install 'ceql[sql]'") from error
    from ceql.match_recognize.dialects import dialect_of
    from ceql.match_recognize.translate import translate

    return translate(sql, dialect_of(dialect))
