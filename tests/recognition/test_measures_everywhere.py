"""Measures beside every clause: strategies, LIMIT, CONSUME BY, DISTINCT, NOT at the end, streams, zones, fields."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import ceql

START = datetime(2026, 1, 1, 8, tzinfo=UTC)
ZONE = "America/New_York"


def table() -> pa.Table:
    """A B B C, ten seconds apart; the times are those of New York, prices decimals, users nested."""
    rows = [("A", "1.10", "ann"), ("B", "2.25", "bob"), ("B", "0.75", None), ("C", None, "eve")]
    return pa.table(
        {
            "type": [kind for kind, _, _ in rows],
            "time": pa.array([START + timedelta(seconds=10 * k) for k in range(4)], pa.timestamp("us", ZONE)),
            "price": pa.array([p and Decimal(p) for _, p, _ in rows], pa.decimal128(9, 2)),
            "ctx": [{"user": {"name": name}} for _, _, name in rows],
        }
    )


def measured(query: str, events: Any = None, **options: Any) -> list[dict[str, Any]]:
    """The measures of all matches: in one go, which must be those in pieces with a snapshot between any two of them."""
    compiled = ceql.compile(query)
    events = table() if events is None else events
    whole = [match.measures for match in compiled.run(events, **options)]
    recognizer, pieces = compiled.recognizer(**options), []
    for k in range(len(events)):
        pieces += [match.measures for match in recognizer.feed(events.slice(k, 1))]
        recognizer = compiled.restore(recognizer.snapshot())
    pieces += [match.measures for match in recognizer.finish()]
    assert pieces == whole
    return whole


def test_times_keep_their_zone_and_durations_are_exact() -> None:
    (found,) = measured("SELECT START_TIME, HOUR(START_TIME) AS hour, DURATION, LAST(b.time) - a.time AS lapse "
                        "WHERE A AS a ; B{2} AS b")  # fmt: skip
    assert found["START_TIME"] == START
    assert found["START_TIME"].tzinfo == ZoneInfo(ZONE)
    assert (found["hour"], found["DURATION"], found["lapse"]) == (3, timedelta(seconds=20), timedelta(seconds=20))


def test_decimals_stay_decimals_where_they_are_chosen() -> None:
    (found,) = measured("SELECT MAX(b.price) AS m, a.price AS p, SUM(b.price) AS s, LAST(b.price) - a.price AS d "
                        "WHERE A AS a ; B{2} AS b")  # fmt: skip
    assert (found["m"], found["p"]) == (Decimal("2.25"), Decimal("1.10"))
    assert found["s"] == 3.0
    assert found["d"] == pytest.approx(-0.35)


def test_fields_of_nested_attributes() -> None:
    found = measured("SELECT UPPER(c.ctx.user.name) AS u, COUNT(b.ctx.user.name) AS n WHERE B+ AS b ; C AS c")
    assert sorted((row["u"], row["n"]) for row in found) == [("EVE", 0), ("EVE", 1), ("EVE", 1)]


@pytest.mark.parametrize(
    ("query", "counts"),
    [
        ("SELECT MAX COUNT(b) AS n WHERE A ; B+ AS b ; C", [2]),
        ("SELECT NEXT COUNT(b) AS n WHERE A ; B+ AS b ; C", [2]),
        ("SELECT LAST COUNT(b) AS n WHERE A ; B+ AS b ; C", [2]),
        ("SELECT ANY COUNT(b) AS n WHERE B+ AS b ; C LIMIT 1", [1]),
        ("SELECT COUNT(b) AS n WHERE A ; B AS b LIMIT 1", [1, 1]),
        ("SELECT COUNT(b) AS n WHERE B+ AS b CONSUME BY ANY", [1, 1]),
        ("SELECT DISTINCT DURATION AS n WHERE A ; B+ ; C", [timedelta(seconds=30)]),
        ("SELECT COUNT(b) AS n WHERE A ; (B AS b OR C AS c)", [1, 1, 0]),
        ("SELECT COUNT(c) AS n, MIN(c.price) AS m WHERE A ; (B AS b OR C AS c)", [0, 0, 1]),
        ("SELECT COUNT(b) AS n WHERE B+ AS b ; NOT C WITHIN 15 SECONDS", [1, 2]),
        ("SELECT COUNT(b) AS n WHERE B+ AS b ; NOT A WITHIN 15 SECONDS", [1, 2, 1]),
        ("SELECT COUNT(b) AS n WHERE B+ AS b FILTER COUNT(b) = 2 OR AVG(b.price) < 1", [1, 2]),
    ],
)
def test_with_every_clause(query: str, counts: list[Any]) -> None:
    assert sorted(row["n"] for row in measured(query)) == sorted(counts)


def test_two_streams() -> None:
    events = table()
    query = ceql.compile("SELECT COUNT(b) AS n, MAX(b.price) AS m FROM S, T WHERE S>A ; T>B+ AS b")
    of = {"S": events.slice(0, 1), "T": events.slice(1)}
    whole = sorted((m.measures["n"], m.measures["m"]) for m in query.run(of))
    assert whole == [(1, Decimal("0.75")), (1, Decimal("2.25")), (2, Decimal("2.25"))]
    recognizer = query.recognizer()
    pieces = list(recognizer.feed({"S": of["S"], "T": of["T"].slice(0, 1)}))
    recognizer = query.restore(recognizer.snapshot())
    pieces += [*recognizer.feed({"T": of["T"].slice(1)}), *recognizer.finish()]
    assert sorted((m.measures["n"], m.measures["m"]) for m in pieces) == whole


def test_of_times_that_are_plain_numbers_durations_compare() -> None:
    plain = pa.table({"type": ["A", "B", "B"], "time": [0, 4, 9]})
    found = measured("SELECT DURATION WHERE A ; B+ AS b FILTER LAST(b.time) - FIRST(b.time) < 5 SECONDS", plain,
                     time_unit="s")  # fmt: skip
    assert sorted(row["DURATION"] for row in found) == [4, 9]
