"""LIMIT keeps, of the matches that end at a position, those of latest start, and looks no further back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import ceql

RANDOM = np.random.default_rng(7)
COUNT = 400
EVENTS = pa.table(
    {
        "type": RANDOM.choice(list("ABC"), COUNT),
        "time": pa.array(np.cumsum(RANDOM.integers(0, 2, COUNT)), pa.timestamp("s")),  # several events at a time
        "v": np.cumsum(RANDOM.integers(-1, 3, COUNT)),  # it may fall
    }
)
WINDOWS = ["WITHIN 60 EVENTS", "WITHIN 20 SECONDS", "WITHIN 25 [v]"]


@pytest.mark.parametrize("limit", [1, 3, 100, 2000])
@pytest.mark.parametrize("window", WINDOWS)
def test_starts_are_the_latest(window: str, limit: int) -> None:
    text = f"SELECT * WHERE A ; B ; C {window}"
    whole = ceql.match(text, EVENTS).to_arrow().select(["end", "start"]).to_pylist()
    expected, seen = [], dict[int, int]()
    for row in whole:
        seen[row["end"]] = seen.get(row["end"], 0) + 1
        if seen[row["end"]] <= limit:
            expected.append(row)
    assert max(seen.values()) > 64  # more than are sorted after they were found
    query = ceql.compile(f"{text} LIMIT {limit}")
    assert query.run(EVENTS).to_arrow().select(["end", "start"]).to_pylist() == expected
    assert query.run(EVENTS).count() == len(expected)


def test_more_matches_than_numbers() -> None:
    events = pa.table({"type": ["A"] + ["B"] * 200 + ["C"] * 3})
    query = ceql.compile("SELECT * WHERE A ; B+ ; C LIMIT 5")
    assert query.run(events).to_arrow().num_rows == query.run(events).count() == 15
    for clause in ("", "WITHIN 500 EVENTS"):
        assert ceql.match(f"SELECT * WHERE A ; B+ ; C {clause}", events).count() == 3 * (2**200 - 1)
