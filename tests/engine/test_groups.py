"""The loop over groups beyond what the corpus shows: very many matches, limits, memory that comes back."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pyarrow as pa
import pytest

import ceql
from ceql.plans import Loop
from ceql.recognition.correlated import CorrelatedRecognition

CHAIN = "SELECT * WHERE (A+ ; B PARTITION BY k)"
SIDES = "SELECT * WHERE A+ AS x ALL C+ AS y ALL B AS z FILTER x.k = y.k AND y.k = z.k WITHIN 999 EVENTS"


def same_key(letters: str) -> pa.Table:
    return pa.table({"type": list(letters), "k": [1] * len(letters)})


@pytest.fixture(autouse=True)
def second_loop() -> None:
    assert ceql.compile(CHAIN).plan.loop is Loop.GROUPS
    assert ceql.compile(SIDES).plan.loop is Loop.GROUPS


@pytest.mark.parametrize(
    ("query", "letters", "count"),
    [
        (CHAIN, "A" * 200 + "B", 2**200 - 1),
        (CHAIN + " WITHIN 100 EVENTS", "A" * 200 + "B", 2**100 - 1),
        (SIDES, "A" * 70 + "C" * 80 + "B", (2**70 - 1) * (2**80 - 1)),
    ],
)
def test_counts_of_any_size(query: str, letters: str, count: int) -> None:
    assert ceql.match(query, same_key(letters)).count() == count


@pytest.mark.parametrize("query", [CHAIN, SIDES])
def test_more_matches_than_memory_are_read_in_batches(query: str) -> None:
    found = ceql.match(query, same_key("AC" * 40 + "B"))
    first = pa.Table.from_batches(islice(found.to_batches(), 9))
    assert first.num_rows > 1000
    assert first.column("end").unique().to_pylist() == [80]
    assert (np.diff(first.column("start").to_numpy()) <= 0).all()


@pytest.mark.parametrize("query", [CHAIN, SIDES])
def test_limit_takes_the_latest_starts_of_very_many(query: str) -> None:
    found = [match.start for match in ceql.match(query + " LIMIT 5", same_key("AC" * 30 + "B"))]
    everything = [match.start for match in ceql.match(query, same_key("AC" * 6 + "B"))]
    assert found == [start + 48 for start in everything[:5]]
    assert everything == sorted(everything, reverse=True)


def test_any_does_not_look_at_all_matches() -> None:
    (match,) = ceql.match(CHAIN.replace("SELECT", "SELECT ANY"), same_key("A" * 500 + "B"))
    assert match.start == 499


def test_long_matches() -> None:
    (match,) = ceql.match("SELECT MAX * WHERE (A+ ; B PARTITION BY k) WITHIN 12 EVENTS", same_key("A" * 12 + "B"))
    assert len(match.events) == 13
    query = ceql.compile("SELECT * WHERE A : A AS a :+ : B FILTER a[k = PREV.k] WITHIN 3000 EVENTS")
    assert max(len(match.events) for match in query.run(same_key("A" * 3000 + "B"))) == 3001


def test_a_budget_stops_and_can_be_raised_without_losing_anything() -> None:
    count = 60_000
    table = pa.table({"type": ["A"] * count, "k": np.arange(count)})
    query = ceql.compile("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k")
    recognizer = query.recognizer(memory=4 << 20)
    matches = recognizer.feed(table)
    with pytest.raises(ceql.ResourceError) as error:
        matches.to_arrow()
    assert error.value.limit == "memory"
    recognizer.memory = 1 << 30
    last = pa.table({"type": ["B"] * 3, "k": [5, count - 1, 5]})
    assert [m.events for m in recognizer.feed(last)] == [(5, count), (count - 1, count + 1), (5, count + 2)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x.k = y.k AND y.k = z.k WITHIN 100 EVENTS",
        "SELECT * WHERE A AS x ALL B AS y ALL C AS z FILTER x.k = y.k AND y.k = z.k WITHIN 100 EVENTS",
        "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x.k = z.k AND x.v < y.v WITHIN 9 EVENTS",
        "SELECT * WHERE A ; B+ AS y FILTER y[k != PREV.k AND v = PREV.v] WITHIN 20 EVENTS",
    ],
)
def test_memory_comes_back(query: str) -> None:
    """Keys are always new; what was kept for those that left the window is given up."""
    recognizer = ceql.compile(query).recognizer(keep_rows=False)
    random = np.random.default_rng(3)
    sizes = []
    for k in range(12):
        rows = 40_000
        keys = np.arange(k * rows, (k + 1) * rows) // 4
        kinds = np.array(list("ABC"))[random.integers(0, 3, rows)]
        recognizer.feed(pa.table({"type": kinds, "k": keys, "v": random.integers(0, 3, rows)})).to_arrow()
        held = recognizer._recognitions[0]
        assert isinstance(held, CorrelatedRecognition)
        assert held.values is not None
        machine = held.machine
        kept = held._kept.count if held._kept is not None else 0
        sizes.append((len(machine.nodes), len(machine.entries), kept, held.values.known))
    assert all(late <= 2 * early + (1 << 18) for late, early in zip(sizes[-1], sizes[3], strict=True)), sizes
    assert sizes[-1][:2] == sizes[6][:2]
