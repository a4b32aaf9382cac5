"""The demonstration: three queries over the sample, and their matches."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from time import perf_counter

import pyarrow as pa
from pyarrow import parquet

from ceql.cli.table import print_table, table_rows
from ceql.query import compile
from ceql.results.text import to_python

SAMPLE = Path(__file__).with_name("payments.parquet")

SEQUENCE = """\
SELECT ANY try[amount], cash[amount, country]
WHERE Payment AS try ; Payment AS try ; Payment AS try ; Withdrawal AS cash
FILTER try[amount < 2] AND cash[amount >= 500 AND country != 'CL']
PARTITION BY card
WITHIN 10 MINUTES"""

MAXIMAL = """\
SELECT MAX tries[amount], cash[amount, country]
WHERE Payment+ AS tries ; Withdrawal AS cash
FILTER tries[amount < 2] AND cash[amount >= 500 AND country != 'CL']
PARTITION BY card
WITHIN 10 MINUTES"""

COUNTED = """\
SELECT *
WHERE Payment+ ; Withdrawal
PARTITION BY card"""


def payments() -> pa.Table:
    """A day of card payments: time, type (Payment or Withdrawal), card, amount, country."""
    return parquet.read_table(SAMPLE)


def demo() -> None:
    """Prints the queries and their matches."""
    events = payments()
    cards = len(events["card"].unique())
    print(f"A day of {events.num_rows:,} payments and withdrawals with {cards} cards of a Chilean bank:\n")
    _show_events(events.slice(1000, 3))
    _warm_up(events)
    print("A thief tries a stolen card with tiny payments, then draws a lot of cash abroad.")
    print("Three tiny payments and the withdrawal, whatever happens in between; one match for each withdrawal:\n")
    _show_matches(SEQUENCE, events)
    print("All the tiny payments before it, however many they are: + repeats, MAX keeps the largest match:\n")
    _show_matches(MAXIMAL, events)
    print("Matches are counted without being enumerated. Every choice of payments before every withdrawal of a card:\n")
    show_query(COUNTED)
    started = perf_counter()
    n = compile(COUNTED).run(events).count()
    print(f"{n:,} matches, counted in {_milliseconds(started)}")


def _show_matches(query: str, events: pa.Table) -> None:
    show_query(query)
    started = perf_counter()
    compiled = compile(query)
    found = list(compiled.run(events).with_rows())
    took = _milliseconds(started)
    n = sum(batch.num_rows for batch, _ in found)
    print(f"{n} matches in {events.num_rows:,} events, found in {took}")
    heads: list[str] = []
    lines: list[list[str]] = []
    for batch, rows in found:
        heads, more = table_rows(batch, rows, compiled.plan.projections, hidden=set())
        lines += more
    print_table(heads, lines)


def _warm_up(events: pa.Table) -> None:
    """Compiles the engine, or loads it from the cache."""
    started = perf_counter()
    for query in (SEQUENCE, MAXIMAL):
        compile(query).run(events).to_arrow()
    compile(COUNTED).run(events).count()
    seconds = perf_counter() - started
    if seconds > 3:
        print(f"(The engine was compiled in {seconds:.0f} s; the next run finds it in the cache.)\n")


def _show_events(events: pa.Table) -> None:
    columns = [[str(value) for value in to_python(column, " ")] for column in events.columns]
    print_table(events.column_names, [*zip(*columns, strict=True), ["…"] * len(columns)])


def show_query(query: str) -> None:
    """Print a query, indented."""
    print(indent(query, "    ") + "\n")


def _milliseconds(started: float) -> str:
    return f"{(perf_counter() - started) * 1000:.0f} ms"
