"""A batch without matches tells of types that no event has, as Python does, and only then."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ceql
from ceql.spark import match

BEGIN = datetime(2026, 1, 1)
MISSPELT = "SELECT * WHERE Payment AS p ; Withdrawl AS w PARTITION BY k"
SAID = (
    "no event has the type 'Withdrawl', without which the query cannot match: the column 'type' has 'Payment', "
    "'Withdrawal'. Did you mean 'Withdrawal'?"
)


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    kinds = ["Withdrawal", "Withdrawal", "Payment", "Payment"]
    rows = [(kind, BEGIN + timedelta(seconds=n), 1) for n, kind in enumerate(kinds)]
    return spark.createDataFrame(rows, "type string, time timestamp, k int")


def warned(action: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(w.message) for w in caught if issubclass(w.category, ceql.NoMatchWarning)]


ACTIONS: dict[str, Callable[[DataFrame], Any]] = {
    "count": lambda found: found.count(),
    "collect": lambda found: found.collect(),
    "show": lambda found: found.where("k = 1").select("end_time").show(),
    "show, vertical": lambda found: found.show(vertical=True),
    "isEmpty": lambda found: found.isEmpty(),
    "toArrow": lambda found: found.toArrow(),
    "first": lambda found: found.first(),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_without_matches_names_the_type_that_is_missing(events: DataFrame, action: str) -> None:
    found = match(events, MISSPELT)
    assert warned(lambda: ACTIONS[action](found)) == [SAID]
    assert warned(lambda: ACTIONS[action](found)) == []  # once is enough


def test_nothing_is_said_where_no_type_is_missing(events: DataFrame) -> None:
    assert warned(match(events, "SELECT * WHERE Payment ; Withdrawal").count) == []  # in another order
    assert warned(match(events, "SELECT * WHERE Payment ; Refund?").count) == []
    assert warned(match(events.limit(0), MISSPELT).count) == []


def test_where_no_type_occurs_or_types_are_streams(events: DataFrame) -> None:
    (said,) = warned(match(events, "SELECT * WHERE Refund").count)
    assert said.startswith("no event has the type that the query names ('Refund'): the column 'type' has")
    (said,) = warned(match(events.withColumn("type", F.lit(None).cast("string")), "SELECT * WHERE A").count)
    assert "is NULL throughout" in said
    streams = {"Payments": events.drop("type"), "Withdrawals": events.drop("type").limit(0)}
    query = "SELECT * FROM Payments, Withdrawals WHERE Payments AS p ; Withdrawals AS w FILTER p.k = w.k"
    (said,) = warned(match(streams, query).count)
    assert said.startswith("no event has the type 'Withdrawals', without which the query cannot match")


def test_of_a_set_without_matches_the_queries_are_named(events: DataFrame) -> None:
    both = {"good": "SELECT * WHERE Payment ; Withdrawal", "bad": "SELECT * WHERE Payment ; Refund"}
    (said,) = warned(match(events, both).count)
    assert "without which query 'bad' cannot match" in said
