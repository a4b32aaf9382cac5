"""Questions of analysts, asked of ceql and written by hand in polars: `python -m bench.experiments.by_hand [ROWS]`.

Each question is asked over ROWS events (10 million) of 100,000 users, by both in one thread. Their answers, the rows of
the matched events, are compared in full. Processor seconds and seconds by the clock are medians of three runs, in turn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

import numpy as np
import polars as pl
import pyarrow as pa

import ceql

USERS = 100_000
RUNS = 3
ROWS = 10_000_000


@dataclass(frozen=True)
class Question:
    """What is asked, in words, in CEQL and in polars; the answer has a column of rows for each of `events`."""

    title: str
    query: str
    events: tuple[str, ...]
    table: Callable[[int], pa.Table]
    by_hand: Callable[[pl.LazyFrame], pl.LazyFrame]


@lru_cache(1)
def readings(rows: int) -> pa.Table:
    """Readings of all users, in no order but that of arrival."""
    random = np.random.default_rng(1)
    return pa.table({"user": random.integers(0, USERS, rows), "v": random.random(rows) * 100 + 0.5})


@lru_cache(1)
def clicks(rows: int) -> pa.Table:
    """Three days in a shop."""
    random = np.random.default_rng(2)
    kinds = np.array(["view", "cart", "pay"])[random.choice(3, rows, p=[0.8, 0.12, 0.08])]
    times = np.sort(random.integers(0, 3 * 86_400 * 10**6, rows))
    return pa.table(
        {
            "user": random.integers(0, USERS, rows),
            "type": pa.array(kinds).dictionary_encode(),
            "time": pa.array(times, pa.timestamp("us")),
        }
    )


def before(column: str, steps: int = 1) -> pl.Expr:
    """A column of the user's event so many events before."""
    return pl.col(column).shift(steps).over("user")


def _ratio(frame: pl.LazyFrame) -> pl.LazyFrame:
    return frame.filter(pl.col("v") / before("v") > 8).select(a="before", b="row")


def _rising(frame: pl.LazyFrame) -> pl.LazyFrame:
    rises = (before("v") > before("v", 2)) & (pl.col("v") > before("v"))
    return frame.with_columns(first=before("row", 2)).filter(rises).select(a="first", b="before", c="row")


def _v_shape(frame: pl.LazyFrame) -> pl.LazyFrame:
    turns = (before("v") < before("v", 2)) & (pl.col("v") > 2 * before("v"))
    return frame.with_columns(first=before("row", 2)).filter(turns).select(a="first", b="before", c="row")


def _cart_pay(frame: pl.LazyFrame) -> pl.LazyFrame:
    cart = pl.col("type") == "cart"

    def last(column: str) -> pl.Expr:
        return pl.when(cart).then(pl.col(column)).forward_fill().over("user")

    known = frame.filter(pl.col("type").is_in(["cart", "pay"])).with_columns(c=last("row"), since=last("time"))
    soon = pl.col("time") - pl.col("since") <= pl.duration(minutes=10)
    return known.filter((pl.col("type") == "pay") & soon).select("c", p="row")


def _with_before(answer: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
    return lambda frame: answer(frame.with_columns(before=before("row")))


QUESTIONS = (
    Question(
        "two readings in a row with ratio > 8, by user",
        "SELECT a, b FROM E WHERE E AS a : E AS b FILTER b.v / a.v > 8 PARTITION BY user",
        ("a", "b"),
        readings,
        _with_before(_ratio),
    ),
    Question(
        "rising three in a row, by user",
        "SELECT a, b, c FROM E WHERE E AS a : E AS b : E AS c FILTER b.v > a.v AND c.v > b.v PARTITION BY user",
        ("a", "b", "c"),
        readings,
        _with_before(_rising),
    ),
    Question(
        "V shape of three, by user",
        "SELECT a, b, c FROM E WHERE E AS a : E AS b : E AS c FILTER b.v < a.v AND c.v > 2 * b.v PARTITION BY user",
        ("a", "b", "c"),
        readings,
        _with_before(_v_shape),
    ),
    Question(
        "cart, then pay, within 10 minutes, by user",
        "SELECT ANY c, p WHERE cart AS c ; pay AS p PARTITION BY user WITHIN 10 MINUTES",
        ("c", "p"),
        clicks,
        _cart_pay,
    ),
)


def _answers(question: Question, rows: int) -> tuple[Callable[[], pl.DataFrame], Callable[[], pl.DataFrame]]:
    table, query = question.table(rows), ceql.compile(question.query)
    frame = pl.DataFrame(table).with_row_index("row")

    def by_ceql() -> pl.DataFrame:
        found = query.run(table).to_arrow()
        return pl.DataFrame(found.select(question.events))

    return by_ceql, lambda: question.by_hand(frame.lazy()).collect()


def _compare(question: Question, one: pl.DataFrame, other: pl.DataFrame) -> None:
    both = [found.cast(pl.Int64).sort(question.events[::-1]) for found in (one, other)]
    if not both[0].equals(both[1]):
        raise AssertionError(f"{question.title}: ceql has {len(one):,} matches, polars {len(other):,}, or others")


def measure(question: Question, rows: int) -> list[tuple[float, float]]:
    """Processor seconds and seconds by the clock of ceql and of polars."""
    actions = _answers(question, rows)
    _compare(question, *(action() for action in actions))
    taken: list[list[tuple[float, float]]] = [[], []]
    for _ in range(RUNS):
        for times, action in zip(taken, actions, strict=True):
            processor, clock = time.process_time(), time.perf_counter()
            action()
            times.append((time.process_time() - processor, time.perf_counter() - clock))
    return [(median(p for p, _ in times), median(c for _, c in times)) for times in taken]


def main() -> None:
    """Print a table."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    print(f"{rows:,} events; processor seconds (and by the clock)\n{'':48}{'ceql':>14}{'polars':>14}{'ratio':>7}")
    for question in QUESTIONS:
        own, hand = measure(question, rows)
        cells = "".join(f"{f'{processor:.2f} ({clock:.2f})':>14}" for processor, clock in (own, hand))
        print(f"{question.title:48}{cells}{own[0] / hand[0]:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
