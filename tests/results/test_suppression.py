"""Suppressed alerts: a reference by hand, and the same alerts however events are fed."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import ceql
from ceql import Suppression

BEGIN = datetime(2024, 3, 1)
QUERY = "SELECT a, b WHERE A AS a ; B AS b PARTITION BY user WITHIN 90 SECONDS"
RULES = {"pair": QUERY, "single": "SELECT a WHERE A AS a PARTITION BY user, shop", "none": "SELECT * WHERE B"}


def events(seed: int, count: int = 120) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    times = sorted(draw.randrange(1200) for _ in range(count))
    return [
        {
            "type": draw.choice("AAB"),
            "time": BEGIN + timedelta(seconds=at),
            "user": draw.choice("xyz"),
            "shop": draw.choice("st"),
        }
        for at in times
    ]


def by_hand(found: list[dict[str, Any]], keys: list[str], count: int, period: timedelta) -> list[dict[str, Any]]:
    """Matches in their order, as rows: those that are kept, with how many were not."""
    begun: dict[Any, Any] = {}
    rows = []
    for row in found:
        key = row.get("query"), *(row[name] for name in keys)
        mine = begun.setdefault(key, [])  # the periods: begin, kept, suppressed
        if mine and row["end_time"] < mine[-1][0] + period:
            if mine[-1][1] == count:
                mine[-1][2] += 1
                continue
            told, mine[-1][2] = mine[-1][2], 0
            mine[-1][1] += 1
        else:
            told = mine[-1][2] if mine and row["end_time"] < mine[-1][0] + 2 * period else 0
            mine.append([row["end_time"], 1, 0])
        rows.append(row | {"suppressed": told})
    return rows


@pytest.mark.parametrize(("text", "count", "seconds"), [("1 per minute", 1, 60), ("2 per 3 minutes", 2, 180)])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_is_that_of_the_reference(text: str, count: int, seconds: int, seed: int) -> None:
    given, query = events(seed), ceql.compile(QUERY)
    found = query.run(given).to_arrow().to_pylist()
    expected = by_hand(found, ["user"], count, timedelta(seconds=seconds))
    assert 5 < len(expected) < len(found)
    assert any(row["suppressed"] for row in expected)
    assert Suppression(text).of(query.run(given)).to_pylist() == expected
    recognizer, alerts, fed = query.recognizer(), Suppression(text), list[dict[str, Any]]()
    for begin in range(0, len(given), 7):
        fed += alerts.of(recognizer.feed(given[begin : begin + 7])).to_pylist()
        recognizer = query.restore(recognizer.snapshot())
        alerts = Suppression.restored(alerts.snapshot())
    assert fed == expected


def test_each_rule_and_key_of_a_set_by_itself() -> None:
    given, rules = events(9), ceql.compile_all(RULES)
    found = rules.run(given).to_arrow().to_pylist()
    expected = by_hand([row for row in found if row["query"] != "none"], ["user", "shop"], 1, timedelta(minutes=1))
    kept = Suppression({"pair": "1 per minute", "single": "1 per minute"}).of(rules.run(given)).to_pylist()
    assert [row for row in kept if row["query"] != "none"] == expected
    assert len([row for row in kept if row["query"] == "none"]) == sum(row["query"] == "none" for row in found)


def test_a_key_may_be_called_query() -> None:
    given = [{"type": "A", "time": BEGIN + timedelta(seconds=at), "query": key} for at, key in enumerate("xyxy")]
    found = ceql.match("SELECT a WHERE A AS a PARTITION BY query", given)
    assert Suppression("1 per minute").of(found)["end"].to_pylist() == [0, 1]


def test_what_makes_no_sense_is_refused() -> None:
    for text in ("hourly", "0 per hour", "1 per moon", "1 per 5 events", "-1 per hour", 3):
        with pytest.raises(ceql.ArgumentError, match="suppress="):
            Suppression(text)  # type: ignore[arg-type]
    for text in ("1 per hour", "5 per a day", "2 per 1 minute 30 seconds"):
        Suppression(text)
    with pytest.raises(ceql.SchemaError, match="these have none"):
        Suppression("1 per hour").of(ceql.match("SELECT * WHERE A", [{"type": "A"}]))
    plain = pa.table({"type": ["A"], "time": [5]})
    with pytest.raises(ceql.SchemaError, match="say their unit with time_unit"):
        Suppression("1 per hour").of(ceql.match("SELECT * WHERE A", plain))
    assert Suppression("1 per hour").of(ceql.match("SELECT * WHERE A", plain), time_unit="s").num_rows == 1
    with pytest.raises(ceql.DataError, match="not that of a Suppression"):
        Suppression.restored(ceql.compile("SELECT * WHERE A").recognizer().snapshot())
