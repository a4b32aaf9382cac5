"""Episodes: matches of a key that overlap or are near each other are one row, by brute force and in any batching."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import ceql
from ceql.results.episodes import episodes

T = datetime(2026, 1, 1)
SCHEMA = pa.schema([("type", pa.string()), ("time", pa.timestamp("us")), ("k", pa.string())])
Near = Callable[[dict[str, Any], dict[str, Any]], bool]


def stream(seed: int, in_order: bool) -> pa.Table:
    dice = random.Random(seed)
    rows: list[dict[str, Any]] = [
        {"type": dice.choice("AB"), "time": T + timedelta(seconds=dice.randint(0, 40)), "k": dice.choice("xy")}
        for _ in range(dice.randint(4, 14))
    ]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["time"]) if in_order else rows, SCHEMA)


def united(matches: list[dict[str, Any]], near: Near, time: str) -> list[tuple[Any, ...]]:
    """Unite two episodes as long as any two are near."""
    found = [[match] for match in matches]
    pairs = True
    while pairs:
        pairs = [
            (one, two)
            for one in found
            for two in found
            if one is not two and any(a["k"] == b["k"] and near(a, b) for a in one for b in two)
        ]  # type: ignore[assignment]
        if pairs:
            one, two = pairs[0]  # type: ignore[index]
            found.remove(two)
            one += two
    return sorted(
        (
            own[0]["k"],
            min(match[f"start{time}"] for match in own),
            max(match[f"end{time}"] for match in own),
            len(own),
            len({position for match in own for position in match["events"]}),
        )
        for own in found
    )


def rows(table: pa.Table, time: str) -> list[tuple[Any, ...]]:
    names = ("k", f"start{time}", f"end{time}", "matches", "events")
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.filterwarnings("ignore::ceql.NoMatchWarning")
def test_episodes_are_those_of_brute_force(seed: int) -> None:
    events, seconds = stream(seed, in_order=seed % 2 == 0), (0, 3, 7)[seed % 3]
    gap = timedelta(seconds=seconds)
    found = ceql.match("SELECT * WHERE A ; B PARTITION BY k WITHIN 10 SECONDS", events)
    wanted = united(
        found.to_arrow().to_pylist(),
        lambda a, b: a["start_time"] <= b["end_time"] + gap and b["start_time"] <= a["end_time"] + gap,
        "_time",
    )
    assert rows(found.episodes(f"{seconds} seconds" if seconds else None), "_time") == wanted
    assert rows(found.episodes(gap), "_time") == wanted
    table = found.to_arrow()
    pieces = table.combine_chunks().to_batches(max_chunksize=2)
    assert rows(episodes(pieces, table.schema, gap), "_time") == wanted

    by_position = ceql.match(
        "SELECT * WHERE A ; B PARTITION BY k WITHIN 3 EVENTS", events.drop_columns(["time"]), time=None
    )
    wanted = united(
        by_position.to_arrow().to_pylist(),
        lambda a, b: a["start"] <= b["end"] + seconds and b["start"] <= a["end"] + seconds,
        "",
    )
    assert rows(by_position.episodes(seconds), "") == wanted


def test_columns_and_order() -> None:
    events = pa.table(
        {
            "type": list("ABABAB"),
            "time": pa.array([T + timedelta(minutes=m) for m in (0, 1, 4, 5, 30, 31)]),
            "user": list("xxyyxx"),
        }
    )
    table = ceql.match("SELECT * WHERE A : B PARTITION BY user", events).episodes("5 minutes")
    assert table.column_names == ["start", "end", "start_time", "end_time", "user", "matches", "events"]
    assert table.select(["start", "end", "user", "matches", "events"]).to_pylist() == [
        {"start": 0, "end": 1, "user": "x", "matches": 1, "events": 2},
        {"start": 2, "end": 3, "user": "y", "matches": 1, "events": 2},
        {"start": 4, "end": 5, "user": "x", "matches": 1, "events": 2},
    ]
    whole = ceql.match("SELECT * WHERE A : B", events).episodes("25 minutes").to_pylist()
    assert [(row["start"], row["end"], row["matches"], row["events"]) for row in whole] == [(0, 5, 3, 6)]


def test_none_are_none() -> None:
    events = pa.table({"type": ["A"], "time": pa.array([T])})
    table = ceql.match("SELECT * WHERE A ; A", events).episodes()
    assert table.num_rows == 0
    assert table.schema.field("start_time").type == pa.timestamp("us")


def test_times_that_are_numbers() -> None:
    events = pa.table({"type": ["A", "A", "A"], "time": [0.0, 0.5, 2.0]})
    found = ceql.match("SELECT * WHERE A", events)
    assert found.episodes(0.5)["matches"].to_pylist() == [2, 1]
    assert found.episodes(1.5)["matches"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("time", "gap", "says"),
    [
        (None, "5 minutes", "there is no time column: gap= is a number of events"),
        (None, 1.5, "a number of events"),
        (pa.timestamp("us"), 5, "gap= is a duration such as '5 minutes'"),
        (pa.timestamp("us"), "soon", "gap: not a duration: 'soon'"),
        (pa.timestamp("us"), timedelta(seconds=-1), "gap= is a duration"),
        (pa.int64(), "5 minutes", "times are plain numbers"),
        (pa.int64(), -1, "from 0 up, not -1"),
        (pa.int64(), True, "from 0 up, not True"),
    ],
)
def test_what_is_no_gap_says_what_to_write(time: pa.DataType | None, gap: Any, says: str) -> None:
    columns = {"type": pa.array(["A"])} | ({} if time is None else {"time": pa.array([0]).cast(time)})
    found = ceql.match("SELECT * WHERE A", pa.table(columns), time=None if time is None else "time")
    with pytest.raises(ceql.ArgumentError, match=says):
        found.episodes(gap)
