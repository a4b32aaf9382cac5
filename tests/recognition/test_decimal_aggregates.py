"""Aggregates of decimals are decimals: in columns with Spark's precision and scale, in conditions digit by digit."""

from __future__ import annotations

import itertools
import operator
import random
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pytest

import ceql

OPERATORS = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MILLIONTH = Decimal("0.000001")
AGGREGATES: dict[str, Any] = {
    "SUM(b.d)": lambda d, e: sum(d),
    "AVG(b.d)": lambda d, e: (sum(d, Decimal(0)) / len(d)).quantize(MILLIONTH, ROUND_HALF_UP),
    "-MAX(b.d)": lambda d, e: -max(d),
    "FIRST(b.d)": lambda d, e: d[0],
    "SUM(b.d) - SUM(b.e)": lambda d, e: sum(d) - sum(e),
    "COUNT(b) - SUM(b.d)": lambda d, e: len(e) - sum(d),
    "MEDIAN(b.d)": lambda d, e: (sorted(d)[(len(d) - 1) // 2] + sorted(d)[len(d) // 2]) / 2,
}
NUMBERS = [
    "0.1",
    "0",
    "0.055",
    "0.30",
    "0.033333",
    "0.0333331",
    "0.333333333333333333333",
    "1",
    "1e-25",
    "90000000000000000",
]


@pytest.mark.parametrize("text", AGGREGATES)
def test_conditions_are_exact(text: str) -> None:
    dice = random.Random(text)
    for _ in range(12):
        d = [None if dice.random() < 0.15 else Decimal(dice.randint(-30, 30)) / 100 for _ in range(5)]
        e = [Decimal(dice.randint(-300, 300)) / 1000 for _ in range(5)]
        events = pa.table(
            {
                "type": ["A", *"BBBBB"],
                "d": pa.array([None, *d], pa.decimal128(dice.choice([5, 18]), 2)),
                "e": pa.array([None, *e], pa.decimal128(9, 3)),
            }
        )
        op, number = dice.choice(list(OPERATORS)), dice.choice(NUMBERS)
        found = ceql.match(f"SELECT * WHERE A ; B+ AS b FILTER {text} {op} {number}", events, time=None)
        wanted = []
        for chosen in itertools.chain(*(itertools.combinations(range(5), k) for k in range(1, 6))):
            mine = [d[k] for k in chosen if d[k] is not None]
            if mine and OPERATORS[op](AGGREGATES[text](mine, [e[k] for k in chosen]), Decimal(number)):
                wanted.append([0, *(k + 1 for k in chosen)])
        assert sorted(list(match.events) for match in found) == sorted(wanted), (op, number, d, e)


@pytest.mark.parametrize("make", [pa.decimal128, pa.decimal256])
def test_columns_are_decimals(make: Any) -> None:
    digits = Decimal("1234567890123456789012.25")
    events = pa.table({"type": ["B"] * 3, "d": pa.array([digits, -digits, Decimal("0.10")], make(38, 2))})
    (row,) = ceql.match(
        "SELECT SUM(b.d) AS s, AVG(b.d) AS a, MEDIAN(b.d) AS m, PERCENTILE(b.d, 0.75) AS p, STDDEV(b.d) AS t, "
        "MIN(b.d) AS least, LAST(b.d, 1) AS l WHERE B:{3} AS b",
        events,
        time=None,
    ).to_arrow().to_pylist()  # fmt: skip
    assert row["s"] == Decimal("0.10")
    assert row["a"] == Decimal("0.033333")
    assert row["m"] == Decimal("0.100000")
    assert row["p"] == Decimal("617283945061728394506.175")
    assert row["l"] == row["least"] == -digits
    assert row["t"] == pytest.approx(1234567890123456789012.25)


@pytest.mark.parametrize(
    ("type", "sums", "means"),
    [
        (pa.decimal128(10, 2), pa.decimal128(20, 2), pa.decimal128(14, 6)),
        (pa.decimal128(35, 2), pa.decimal128(38, 2), pa.decimal128(38, 6)),
        (pa.decimal128(38, 38), pa.decimal128(38, 38), pa.decimal128(38, 38)),
        (pa.decimal256(40, 2), pa.decimal256(50, 2), pa.decimal256(44, 6)),
    ],
)
def test_precision_and_scale(type: pa.DataType, sums: pa.DataType, means: pa.DataType) -> None:
    events = pa.table({"type": ["B"], "d": pa.array([Decimal("0.5")]).cast(type)})
    names = ["SUM(b.d)", "AVG(b.d)", "MEDIAN(b.d)", "PERCENTILE(b.d, 1)", "MIN(b.d)", "VARIANCE(b.d)"]
    found = ceql.match(f"SELECT {', '.join(names)} WHERE B AS b", events, time=None).schema
    wanted = [sums, means, means, means, type, pa.float64()]
    assert [found.field(name).type for name in names] == wanted
    totals = ceql.match("SELECT * WHERE B AS b", events, time=None).aggregate({name: name for name in names})
    assert totals.schema.types == wanted
    assert totals["SUM(b.d)"].to_pylist() == totals["MEDIAN(b.d)"].to_pylist() == [Decimal("0.5")]


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    events = pa.table({"type": ["B", "B"], "d": pa.array([Decimal(9 * 10**37)] * 2, pa.decimal128(38, 0))})
    with pytest.raises(ceql.DataError, match=r"SUM\(b.d\) does not fit decimal128\(38, 0\)"):
        ceql.match("SELECT SUM(b.d) WHERE B:{2} AS b", events, time=None).to_arrow()
    with pytest.raises(ceql.DataError, match=r"SUM\(b.d\) does not fit decimal128\(38, 0\)"):
        ceql.match("SELECT * WHERE B+ AS b", events, time=None).aggregate(s="SUM(b.d)")


def test_totals_over_the_graph_are_exact() -> None:
    """So many matches that they are added up without being listed."""
    events = pa.table({"type": ["B"] * 40, "d": pa.array([Decimal("0.10")] * 40, pa.decimal128(9, 2))})
    (row,) = ceql.match("SELECT * WHERE B+ AS b", events, time=None).aggregate(s="SUM(b.d)", a="AVG(b.d)").to_pylist()
    assert row == {"s": Decimal("0.10") * 40 * 2**39, "a": Decimal("0.100000")}
