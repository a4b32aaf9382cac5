"""Keys keep the order of a column's values, give the values back, and bound a window exactly."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ceql.errors import DataError
from ceql.io import sort_keys

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
COLUMNS = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), INT64),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), FLOATS),
    (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
    (pa.decimal256(12, 3), st.decimals(-(10**8), 10**8, places=3)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.timestamp("ms"), INT64),
    (pa.time32("ms"), st.integers(0, 86_399_999)),
    (pa.time64("us"), st.integers(0, 86_399_999_999)),
    (pa.duration("ns"), INT64),
]


@pytest.mark.parametrize(("type", "values"), COLUMNS, ids=lambda x: str(x) if isinstance(x, pa.DataType) else "")
@given(data=st.data())
def test_keys_are_ordered_like_the_values_and_give_them_back(type, values, data):
    column = pa.array(data.draw(st.lists(values, max_size=8)), type)
    found = sort_keys.encode(column, "a")
    assert found.dtype == np.int64
    assert sort_keys.is_ordered(type)
    back = sort_keys.decode(found, type)
    back.validate(full=True)
    assert back.type == type
    assert back.equals(column)
    # Python's own times are narrower than Arrow's
    is_wide = pa.types.is_timestamp(type) or pa.types.is_duration(type)
    comparable = (column.view(pa.int64()) if is_wide else column).to_pylist()
    for i, a in enumerate(comparable):
        for j, b in enumerate(comparable):
            assert (a < b) == (found[i] < found[j])
            assert (a == b) == (found[i] == found[j])


@given(st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=6), st.integers(0, 3))
def test_sliced_columns_with_nulls_keep_the_keys_of_the_others(values, start):
    for type in (pa.int64(), pa.float64(), pa.decimal128(9, 2), pa.timestamp("s"), pa.date32(), pa.uint64()):
        numbers = [abs(v) if v is not None and type == pa.uint64() else v for v in values]
        column = pa.array(numbers, pa.int32()).cast(type) if type == pa.date32() else pa.array(numbers, type)
        found = sort_keys.encode(column.slice(start), "a")
        for key, value in zip(found, column.slice(start).to_pylist(), strict=True):
            if value is not None:
                assert sort_keys.decode(np.array([key]), type).to_pylist() == [value]


@given(st.lists(INT64, min_size=1), st.fractions(0, 2**64))
def test_integer_bounds_are_the_least_key_within_the_width(values, width):
    found = sort_keys.bounds(np.array(values, np.int64), pa.int64(), width)
    for value, bound in zip(values, found.tolist(), strict=True):
        assert value - bound <= width
        assert bound == -(2**63) or value - (bound - 1) > width


@given(st.lists(st.floats(-1e15, 1e15), min_size=1), st.floats(0, 1e12))
def test_float_bounds_are_exact(values, width):
    column = pa.array(values, pa.float64())
    found = sort_keys.decode(
        sort_keys.bounds(sort_keys.encode(column, "a"), pa.float64(), Fraction(width)), pa.float64()
    )
    for value, bound in zip(values, found.to_pylist(), strict=True):
        assert Fraction(value) - Fraction(bound) <= Fraction(width)
        below = float(np.nextafter(bound, -np.inf))
        assert Fraction(value) - Fraction(below) > Fraction(width)


def test_infinite_times_have_infinite_bounds(recwarn):
    column = pa.array([-np.inf, np.inf])
    found = sort_keys.bounds(sort_keys.encode(column, "a"), pa.float64(), Fraction(5))
    assert sort_keys.decode(found, pa.float64()).to_pylist() == [-np.inf, np.inf]
    assert not recwarn.list


def test_decimal_bounds_count_in_the_columns_own_unit():
    type = pa.decimal128(10, 2)
    column = pa.array([Decimal("10.00")], type)
    found = sort_keys.bounds(sort_keys.encode(column, "a"), type, Fraction(5, 2))
    assert sort_keys.decode(found, type).to_pylist() == [Decimal("7.50")]


def test_a_decimal_beyond_64_bits_is_an_error_that_names_the_column():
    for type in (pa.decimal128(38, 0), pa.decimal256(70, 0)):
        for value in (Decimal(2**63), Decimal(10**30), Decimal(-(10**37))):
            with pytest.raises(DataError, match="'price'"):
                sort_keys.encode(pa.array([value], type), "price")
    with pytest.raises(DataError, match="'price'"):
        sort_keys.encode(pa.array([Decimal(10**60)], pa.decimal256(70, 0)), "price")


@pytest.mark.parametrize(
    ("type", "unit", "expected"),
    [
        (pa.timestamp("ms"), None, Fraction(1500)),
        (pa.timestamp("s"), None, Fraction(3, 2)),
        (pa.date32(), None, Fraction(3, 2) / 86_400),
        (pa.date64(), None, Fraction(1500)),
        (pa.time64("us"), None, Fraction(1_500_000)),
        (pa.int64(), "ns", Fraction(1_500_000_000)),
        (pa.int64(), None, None),
    ],
)
def test_ticks(type, unit, expected):
    assert sort_keys.ticks(1_500_000_000, type, unit) == expected
