"""The rows of `make bench-check`: queries over generated events, each a run of some 20 to 100 ms.

Every row uses only what earlier commits have too: compile or rule, run, and to_arrow or count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

import ceql
from bench.experiments.conditions_worker import QUERIES, rising
from bench.experiments.correlation import rule
from bench.workloads import homes, keyed, letters, stock, taxi

Events = Callable[[], pa.Table]
CONSUMED = "SELECT NEXT * FROM E WHERE E AS a : E AS b FILTER b.v > a.v PARTITION BY k CONSUME BY PARTITION"


@dataclass(frozen=True)
class Row:
    """A query, its events, and whether its matches are counted or listed."""

    query: Callable[[], ceql.Query]
    events: Events
    counted: bool = False

    def action(self) -> Callable[[], int]:
        """Runs the query over all events; gives the number of matches."""
        query, table = self.query(), self.events()
        if self.counted:
            return lambda: query.run(table).count()
        return lambda: query.run(table).to_arrow().num_rows


@lru_cache(1)  # neighbouring rows read the same events
def _made(make: Callable[..., pa.Table], *given: Any) -> pa.Table:
    return make(*given)


def _listed(text: str, make: Callable[..., pa.Table], *given: Any) -> Row:
    return Row(partial(ceql.compile, text), partial(_made, make, *given))


def _counted(text: str, make: Callable[..., pa.Table], *given: Any) -> Row:
    return Row(partial(ceql.compile, text), partial(_made, make, *given), counted=True)


def by_key(count: int) -> pa.Table:
    """Stock events with a key of a thousand values."""
    keys = np.random.default_rng(1).integers(0, 1000, count)
    return stock.events(count).append_column("key", pa.array(keys))


def rises(count: int) -> pa.Table:
    """Events of one type with a value v and a key k."""
    random = np.random.default_rng(2)
    return pa.table({"v": random.random(count), "k": random.integers(0, 20, count)})


def _stock_rows() -> dict[str, Row]:
    keyed_query = stock.sequence(3).replace(" WITHIN", " PARTITION BY key WITHIN")
    return {
        **{f"sequence-{n}": _listed(stock.sequence(n), stock.events, 600_000) for n in (3, 6, 12, 24)},
        "dense": _listed(stock.dense(30), stock.events, 600_000),
        "sequence-by-key": _listed(keyed_query, by_key, 600_000),
        "homes-9": _listed(homes.pattern(9).ceql(), homes.events, 200_000),
        "taxi-9": _listed(taxi.pattern(9).ceql(), taxi.events, 200_000),
    }


def _letter_rows() -> dict[str, Row]:
    """Queries on single events over random letters: listed, counted and chosen."""
    sequence, long = "A AS a ; B AS b ; C AS c", " ; ".join("ABCDE" * 4 + "ABCD")
    many = {
        "contiguous": _listed("SELECT * WHERE A : B : C", letters.uniform, 600_000),
        "contiguous-plus": _listed("SELECT * WHERE A : B:+ : C", letters.uniform, 600_000),
        "count-contiguous": _counted("SELECT * WHERE A : B:+ : C", letters.uniform, 600_000),
    }
    some = {
        "projection": _listed(f"SELECT a WHERE {sequence} WITHIN 20 EVENTS", letters.uniform, 100_000),
        "projection-plus": _listed("SELECT c WHERE A ; B+ ; C AS c WITHIN 20 EVENTS", letters.uniform, 100_000),
        "all-window": _listed(f"SELECT * WHERE {sequence} WITHIN 30 EVENTS", letters.uniform, 100_000),
        "count-sequence": _counted(f"SELECT * WHERE {sequence} WITHIN 50 EVENTS", letters.uniform, 100_000),
        "count-plus": _counted("SELECT * WHERE A ; B+ ; C WITHIN 50 EVENTS", letters.uniform, 100_000),
        "Q5-consuming": _listed(letters.query("Q5").ceql(), letters.uniform, 100_000),
        "Q6-consuming": _listed(letters.query("Q6").ceql(), letters.uniform, 100_000),
    }
    for strategy in ("ANY", "NEXT", "LAST"):
        for window in (100, 1000):
            text = f"SELECT {strategy} * WHERE {sequence} WITHIN {window} EVENTS"
            some[f"{strategy.lower()}-{window}"] = _listed(text, letters.uniform, 100_000)
    some["max-30"] = _listed(f"SELECT MAX * WHERE {sequence} WITHIN 30 EVENTS", letters.uniform, 100_000)
    few = {
        "24-steps": _listed(f"SELECT ANY * WHERE {long} WITHIN 200 EVENTS", letters.uniform, 10_000),
        "count-24-steps": _counted(f"SELECT * WHERE {long} WITHIN 200 EVENTS", letters.uniform, 10_000),
    }
    for strategy in ("LAST", "MAX"):
        text = letters.query("Q5", strategy=strategy, window=100, consume=False, limit=1).ceql()
        few[f"Q5-{strategy.lower()}-100"] = _listed(text, letters.uniform, 10_000)
    return many | some | few


def _key_rows() -> dict[str, Row]:
    """Sequences of one key: by the clause and by the operator."""
    clause = "SELECT a, b, c WHERE SELL AS a ; BUY AS b ; SELL AS c PARTITION BY name WITHIN 10 EVENTS"
    operator = "SELECT a, b, c WHERE (SELL AS a ; BUY AS b ; SELL AS c PARTITION BY [name]) WITHIN 4000 EVENTS"
    return {
        "by-key": _listed(clause, keyed.market, 100_000, 1_000),
        "count-by-key": _counted(clause, keyed.market, 100_000, 1_000),
        "operator-partition": _listed(operator, keyed.market, 100_000, 1_000),
    }


def _condition_rows() -> dict[str, Row]:
    """Queries that compare events: the conditions' table, a rule, and a strategy that consumes."""
    made = {}
    for name, (text, types, _) in QUERIES.items():
        count = 20_000 if name == "rising runs, 100" else 100_000
        made[name.replace(", ", "-").replace(" ", "-")] = _counted(text, keyed.priced, count, types)
    for window in (1_000, 100_000):
        priced = partial(_made, keyed.priced, 200_000)
        made[f"rising-any-{window}"] = Row(partial(rising, window), priced, counted=True)
    triples = partial(_made, keyed.triples, 100_000, 20_000, 1_000)
    return made | {
        "rule": Row(partial(rule, 20_000), triples),
        "count-rule": Row(partial(rule, 20_000), triples, counted=True),
        "next-consuming": _listed(CONSUMED, rises, 80_000),
    }


ROWS: dict[str, Row] = _stock_rows() | _letter_rows() | _key_rows() | _condition_rows()
