"""COUNT(DISTINCT) in FILTER: which values are different, when it is decided, how little is carried."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ceql
from ceql.automata.distinct import MANY, enough
from ceql.plans import Loop

VALUES: list[tuple[pa.DataType, list[Any], int]] = [
    (pa.string(), ["a", "b", "a", None, "B"], 3),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None, "c"], 3),
    (pa.float64(), [0.0, -0.0, float("nan"), float("nan"), 1.5], 3),
    (pa.float32(), [0.0, -0.0, float("nan"), None, 1.5], 3),
    (pa.uint64(), [0, 2**64 - 1, 2**63, 0, None], 3),
    (pa.int64(), [-(2**63), 2**63 - 1, 0, 0, None], 3),
    (pa.bool_(), [True, False, True, None, False], 2),
    (pa.decimal128(30, 2), [Decimal("1.50"), Decimal("1.5"), None, Decimal(10**20), Decimal(0)], 3),
    (pa.timestamp("ns"), [datetime(2026, 1, 1), None, datetime(2026, 1, 2), datetime(2026, 1, 1), None], 2),
]


@pytest.mark.parametrize(("type", "values", "wanted"), VALUES, ids=[str(type) for type, *_ in VALUES])
def test_equal_values_are_one(type: pa.DataType, values: list[Any], wanted: int) -> None:
    events = pa.table({"type": ["A", *"BBBBB"], "v": pa.array([None, *values], type)})
    for text in (
        "SELECT * WHERE A : (B:{{5}} AS b) FILTER COUNT(DISTINCT b.v) = {}",
        "SELECT b WHERE B:{{5}} AS b FILTER COUNT(DISTINCT b.v) - {} = 0",
    ):
        for number in range(5):
            assert ceql.match(text.format(number), events, time=None).count() == (number == wanted)
    column = ceql.match("SELECT COUNT(DISTINCT b.v) AS n WHERE B:{5} AS b", events, time=None).to_arrow()["n"]
    assert column.to_pylist() == [wanted]
    total = ceql.match("SELECT * WHERE B:{5} AS b", events, time=None).aggregate(n="COUNT(DISTINCT b.v)")
    assert total["n"].to_pylist() == [wanted]


def test_it_is_decided_when_the_third_comes() -> None:
    recognizer = ceql.compile("SELECT * WHERE A ; B+ AS b FILTER COUNT(DISTINCT b.v) >= 3").recognizer(time=None)
    events = [{"type": "A"}, *({"type": "B", "v": v} for v in "xxyxz")]
    found = [recognizer.feed([event]).count() for event in events]
    assert found == [0, 0, 0, 0, 0, 7]  # one, two or three of the x, with y and z


def test_a_snapshot_keeps_the_values() -> None:
    query = ceql.compile("SELECT * WHERE A ; B+ AS b FILTER COUNT(DISTINCT b.v) >= 3")
    events = [{"type": "A"}, *({"type": "B", "v": v} for v in "xyzxw")]
    whole = [list(match.events) for match in query.run(events, time=None)]
    recognizer, found = query.recognizer(time=None), []
    for event in events:
        found += [list(match.events) for match in recognizer.feed([event])]
        recognizer = query.restore(recognizer.snapshot())
    assert found == whole


def test_many_values_stay_few_groups() -> None:
    """What is carried are at most pairs of values: with all sets of them this would never end."""
    count = 300
    events = pa.table({"type": ["A", *["B"] * count], "v": np.arange(count + 1) % 40})
    query = ceql.compile("SELECT ANY * WHERE A ; B+ AS b FILTER COUNT(DISTINCT b.v) >= 3")
    assert query.run(events, time=None).count() == count - 2


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("COUNT(DISTINCT b.v) >= 3", 3),
        ("COUNT(DISTINCT b.v) > 3", 4),
        ("3 > COUNT(DISTINCT b.v)", 3),
        ("COUNT(DISTINCT b.v) = 3", 4),
        ("NOT COUNT(DISTINCT b.v) BETWEEN 2 AND 5", 6),
        ("COUNT(DISTINCT b.v) >= 2.5", 3),
        ("COUNT(DISTINCT b.v) >= 0", 1),
        ("COUNT(DISTINCT b.v) > COUNT(b)", MANY),
        ("COUNT(DISTINCT b.v) + 1 > 3", MANY),
    ],
)
def test_no_more_values_are_carried_than_the_condition_tells_apart(condition: str, wanted: int) -> None:
    plan = ceql.compile(f"SELECT * WHERE A ; B+ AS b FILTER {condition}").plan
    assert plan.loop is Loop.GROUPS
    assert plan.automaton.carrying is not None
    found = {
        enough(condition, n)
        for condition in plan.automaton.carrying.conditions
        for n, operand in enumerate(condition.operands)
        if operand.fold == "DISTINCT"
    }
    assert max(found) == wanted


@pytest.mark.parametrize(
    ("measure", "says"),
    [
        ("SUM(DISTINCT b.v)", "SUM cannot take DISTINCT"),
        ("MAX(DISTINCT b.v)", "MAX is the same with it"),
        ("COUNT(DISTINCT b)", r"needs an attribute of 'b'"),
        ("COUNT(DISTINCT b.v, b.w)", "COUNT takes 1 argument, not 2"),
        ("PERCENTILE(b.v)", "takes 2 arguments, not 1"),
        ("PERCENTILE(b.v, 90)", "Write 0.9 for 90 per cent"),
        ("PERCENTILE(b.v, -0.1)", "a number from 0 to 1"),
        ("PERCENTILE(b.v, b.w)", "a number from 0 to 1"),
        ("FIRST(b.v, -1)", "a whole number, which is not negative"),
        ("LAST(b.v, 1.5)", "a whole number, which is not negative"),
        ("SUM(b.v, 1)", "SUM takes 1 argument, not 2"),
        ("STDDEV_SAMP(b.v)", "Did you mean 'STDDEV'"),
        ("QUANTILE(b.v, 0.5)", "Did you mean 'PERCENTILE'"),
        ("MEDIAN(b)", "MEDIAN needs an attribute of 'b'"),
    ],
)
def test_wrong_aggregates_say_what_to_write(measure: str, says: str) -> None:
    with pytest.raises(ceql.QueryError, match=says):
        ceql.compile(f"SELECT {measure} WHERE B+ AS b")
    with pytest.raises(ceql.QueryError, match=says):
        ceql.compile(f"SELECT * WHERE B+ AS b FILTER {measure} > 1")


@pytest.mark.parametrize("function", ["STDDEV({})", "VARIANCE({})", "MEDIAN({})", "PERCENTILE({}, 0.5)"])
def test_numbers_are_needed(function: str) -> None:
    events = pa.table({"type": ["B"], "s": ["a"]})
    for text in ("SELECT {} WHERE B+ AS b", "SELECT * WHERE B+ AS b FILTER {} > 1"):
        with pytest.raises(ceql.SchemaError, match=f"{function[:6]}.* needs numbers, not a text"):
            ceql.match(text.format(function.format("b.s")), events, time=None).to_arrow()
