"""Matches of a fixed number of events in a row: which queries have them, and how they are found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceql
import checks
import generators
from ceql.automata.straight import MOST
from ceql.syntax.parser import parse

STRAIGHT = [
    "SELECT * WHERE A : B",
    "SELECT x, y WHERE (A OR B) AS x : A AS y : B",
    "SELECT * WHERE A:{3} AS x : B",
    "SELECT x, z WHERE A AS x : B : A AS z PARTITION BY k",
    "SELECT x, y WHERE A AS x : (A OR B) AS y FILTER x.v < y.v PARTITION BY k WITHIN 3 EVENTS",
    "SELECT * WHERE A AS x : B AS y WITHIN 5 SECONDS",
    "SELECT MAX * WHERE A AS x : B AS y : A PARTITION BY k WITHIN 4 SECONDS CONSUME BY PARTITION",
    "SELECT DISTINCT * WHERE A : A : A PARTITION BY k CONSUME BY PARTITION",
    "SELECT NEXT x WHERE A AS x : A : A AS y FILTER x.v != y.v WITHIN 3 EVENTS LIMIT 2",
    "SELECT STRICT * WHERE A ; B ; A PARTITION BY k",
    "SELECT y.v - x.v AS d WHERE A AS x : B AS y PARTITION BY k",
]
OTHERS = [
    "SELECT * WHERE A",
    "SELECT * WHERE A ; B",
    "SELECT * WHERE A : B:+",
    "SELECT * WHERE A AS x : (B AS y OR A AS z)",
    "SELECT * WHERE A : B? : A",
    "SELECT * WHERE A : B WITHIN 5 [v]",
    "SELECT * WHERE A : B CONSUME BY ANY",
    "SELECT * WHERE A : B AFTER MATCH SKIP PAST LAST EVENT",
    f"SELECT * WHERE A:{{{MOST + 1}}}",
]


@pytest.mark.parametrize("text", STRAIGHT)
def test_one_way_through(text: str) -> None:
    assert ceql.compile(text).plan.straight is not None


@pytest.mark.parametrize("text", OTHERS)
def test_more_ways_or_other_rules(text: str) -> None:
    assert ceql.compile(text).plan.straight is None


@st.composite
def cases(draw: st.DrawFn) -> generators.Generated:
    """A straight query, or a nearly straight one, without measures."""
    text = draw(st.sampled_from([text for text in STRAIGHT if " - " not in text]))
    time = 0
    events = []
    for _ in range(draw(st.integers(0, 14))):
        time += draw(st.integers(0, 3)) * 1000
        value = draw(st.one_of(st.none(), st.integers(0, 3)))
        key = draw(st.sampled_from([1, 1, 2, None]))
        events.append({"type": draw(st.sampled_from("AAB")), "k": key, "v": value, "time": time})
    return generators.Generated(parse(text), events)


@given(cases(), st.data())
def test_against_the_oracle(case: generators.Generated, data: st.DataObject) -> None:
    checks.check_case(case, data)


def test_more_matches_than_the_buffers_hold() -> None:
    random = np.random.default_rng(1)
    rows = 200_000
    table = pa.table({"k": random.integers(0, 300, rows), "v": random.integers(0, 9, rows), "time": np.arange(rows)})
    query = "SELECT a, c FROM E WHERE E AS a : E : E AS c FILTER c.v >= a.v PARTITION BY k WITHIN 500 [time]"
    straight = ceql.compile(query.replace("500 [time]", "500 MILLISECONDS"))
    other = ceql.compile(query)
    assert straight.plan.straight is not None
    assert other.plan.straight is None
    found = straight.run(table, time_unit="ms", batch_rows=7_000).to_arrow().select(["a", "c"])
    assert found.num_rows > 1 << 15
    assert found.equals(other.run(table, time_unit="ms").to_arrow().select(["a", "c"]))
    assert straight.run(table, time_unit="ms").count() == found.num_rows
