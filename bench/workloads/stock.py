"""A stock market stream of the shape used in core-vldb2022, section 5: BUY and SELL events of named stocks.

`events` gives a plain-text Arrow table, `load` one of real trades; `sequence` the query P_n (n filtered events within a
window), or P'_n, which adds an event that never comes, and `pattern` the same for all engines; `operators` are Q1 to Q7
of figure 9, `filters` the filters of P_n for polars.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.pattern import Condition, Pattern, Step
from bench.workloads.files import read

EVENTS_PER_SECOND = 300
NAMED = [f"STK{k:02d}" for k in range(24)]
OTHERS = [f"X{k:03d}" for k in range(276)]
COLUMNS = {"type": pa.string(), "name": pa.string(), "volume": pa.int64(), "price": pa.float64()}


def events(count: int, seed: int = 0) -> pa.Table:
    """`count` events: type, name, volume, price (0 to 100) and time (milliseconds). All stocks are traded alike."""
    return _trades(count, np.random.default_rng(seed), len(NAMED) + len(OTHERS))


def market(count: int, seed: int = 0) -> pa.Table:
    """The same, but the stocks that the queries name make a quarter of the trades: in a market, few make most.

    So a step of P_n has a dozen events in its window, and those that keep partial matches have many to keep.
    """
    return _trades(count, np.random.default_rng(seed), 4 * len(NAMED))


def _trades(count: int, random: np.random.Generator, kinds: int) -> pa.Table:
    names = np.array((NAMED + OTHERS)[:kinds])
    return pa.table(
        {
            "type": pa.array(np.array(["BUY", "SELL"])[random.integers(0, 2, count)]),
            "name": pa.array(names[random.integers(0, len(names), count)]),
            "volume": random.integers(1, 10_000, count),
            "price": random.uniform(0, 100, count),
            "time": pa.array(np.arange(count) * 1000 // EVENTS_PER_SECOND, pa.timestamp("ms")),
        }
    )


def steps(length: int) -> list[tuple[str, str, float]]:
    """Type, name and least price of each step."""
    return [("SELL" if k % 2 == 0 else "BUY", NAMED[k], 10.0 + k) for k in range(length)]


def sequence(length: int, window: str = "10 SECONDS", never: bool = False) -> str:
    """P_n of the paper; with `never`, P'_n."""
    chosen = steps(length)
    formula = " ; ".join(f"{type} AS e{k}" for k, (type, _, _) in enumerate(chosen))
    conditions = " AND ".join(
        f"e{k}[name = '{name}'] AND e{k}[price > {price}]" for k, (_, name, price) in enumerate(chosen)
    )
    if never:
        formula += " ; NEVER"
    return f"SELECT * FROM Stock WHERE {formula} FILTER {conditions} WITHIN {window}"


def filters(length: int) -> list[Any]:
    """The filters of the steps as polars expressions."""
    import polars as pl

    return [
        ((pl.col("type") == type) & (pl.col("name") == name) & (pl.col("price") > price)).alias(f"e{k}")
        for k, (type, name, price) in enumerate(steps(length))
    ]


def dense(window_seconds: int = 70) -> str:
    """A sequence of four with about twelve million matches in a million events."""
    conditions = " AND ".join(f"e{k}[name = '{NAMED[k]}']" for k in range(4))
    formula = "SELL AS e0 ; BUY AS e1 ; SELL AS e2 ; BUY AS e3"
    return f"SELECT * FROM Stock WHERE {formula} FILTER {conditions} WITHIN {window_seconds} SECONDS"


def load(path: str | Path) -> pa.Table:
    """Real trades with the columns of `events`, from CSV or Parquet. The time may be called stock_time."""
    return read(path, COLUMNS, times={"time": 1, "stock_time": 1})


def pattern(length: int, window: int = 10_000, never: bool = False) -> Pattern:
    """P_n with the paper's policy: events are used once, and at most a thousand matches of an event are listed."""
    made = Pattern(
        tuple(Step((type,), (("name", "=", name), ("price", ">", price))) for type, name, price in steps(length)),
        window,
    )
    return made.prime() if never else made


def operators(window: int = 10_000) -> dict[str, Pattern]:
    """Q1 to Q7: filters, disjunction, repetition and a key.

    The paper prints their shape only. The names, the prices and the window are ours: a step with a filter finds an
    event every second or two. Without filters a match is complete after a few events.
    """
    sell, buy, either = ("SELL",), ("BUY",), ("BUY", "SELL")
    q1 = Pattern(tuple(map(Step, (sell, buy, buy, sell))), window)
    q4 = Pattern(tuple(map(Step, (sell, either, either, sell))), window)
    return {
        "Q1": q1,
        "Q2": _filtered(q1),
        "Q3": replace(q1, key="name"),
        "Q4": q4,
        "Q5": _filtered(q4),
        "Q6": replace(q4, key="name"),
        "Q7": Pattern((Step(sell), Step(either, plus=True), Step(sell)), window),
    }


def _filtered(query: Pattern) -> Pattern:
    """The query with a name and a least price for each step."""

    def conditions(k: int) -> tuple[Condition, ...]:
        return ("name", "=", NAMED[k]), ("price", ">", 10.0 + k)

    return replace(query, parts=tuple(replace(step, conditions=conditions(k)) for k, step in enumerate(query.steps)))
