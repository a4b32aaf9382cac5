"""One query, run again: on the same columns, on others, in threads, in another process."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import ceql

QUERY = "SELECT * WHERE A AS a ; B AS b FILTER b.price > a.price"
INPUTS: list[list[Any]] = [[1, 2, 3], [1.5, 2.5, 3.5], ["a", "b", "c"], [Decimal(1), Decimal(2), Decimal(3)]]


def table(prices: list[Any]) -> pa.Table:
    return pa.table({"type": ["A", "B", "B"], "price": pa.array(prices)})


def found(query: ceql.Query, events: pa.Table) -> list[tuple[int, ...]]:
    return sorted(match.events for match in query.run(events))


def test_columns_of_other_types() -> None:
    query = ceql.compile(QUERY)
    for prices in [*INPUTS, *reversed(INPUTS)]:
        assert found(query, table(prices)) == [(0, 1), (0, 2)]
    with pytest.raises(ceql.SchemaError, match="price"):
        query.run(pa.table({"type": ["A", "B"]})).count()
    assert found(query, table(INPUTS[0])) == [(0, 1), (0, 2)]


def test_other_options() -> None:
    query = ceql.compile("SELECT * WHERE A AS a ; B AS b FILTER b.t - a.t > 1 SECOND WITHIN 1 HOUR")
    events = pa.table({"type": ["A", "B", "B"], "t": [0, 1500, 3_000_000]})
    for unit, matches in [("ms", [(0, 1), (0, 2)]), ("us", [(0, 2)]), ("ms", [(0, 1), (0, 2)])]:
        assert sorted(m.events for m in query.run(events, time="t", time_unit=unit)) == matches


def test_in_threads_on_different_columns() -> None:
    query = ceql.compile(QUERY)
    tables = [table(prices) for prices in INPUTS] * 25
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda events: found(query, events), tables))
    assert results == [[(0, 1), (0, 2)]] * len(tables)


def test_unread_matches_are_of_their_own_input() -> None:
    query = ceql.compile(QUERY)
    results = [query.run(table(prices)) for prices in INPUTS]
    assert [matches.count() for matches in results] == [2] * len(INPUTS)


def test_it_can_be_pickled_after_a_run() -> None:
    query = ceql.compile(QUERY)
    assert found(query, table(INPUTS[0])) == found(pickle.loads(pickle.dumps(query)), table(INPUTS[0]))
