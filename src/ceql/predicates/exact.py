"""Comparisons of two columns of numbers that no cast to floats may decide: decimals, and integers with floats.

In: an operator and two types. Out: a function of two arrays that gives which rows satisfy it, NULL where one of them is
NULL or NaN; None where Arrow's own comparison is exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.jit import Array
from ceql.syntax.tree import FLIPPED

Compare = Callable[[pa.Array, pa.Array], pa.Array]
_DIGITS = 76  # of the widest decimals
COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def exact(op: str, left: pa.DataType, right: pa.DataType) -> Compare | None:
    """The comparison of columns of these types.

    >>> exact("=", pa.int64(), pa.float64())(pa.array([2**62 + 1, 2]), pa.array([2.0**62, 2.0])).to_pylist()
    [False, True]
    """
    if pa.types.is_integer(left) and pa.types.is_floating(right):
        return lambda a, b: _whole_and_float(op, a, b)
    if pa.types.is_floating(left) and pa.types.is_integer(right):
        return lambda a, b: _whole_and_float(FLIPPED[op], b, a)
    if pa.types.is_decimal(left) or pa.types.is_decimal(right):
        return _of_decimals(op, left, right)
    return None


def _of_decimals(op: str, left: pa.DataType, right: pa.DataType) -> Compare | None:
    sizes = []
    for type in (left, right):
        if not (pa.types.is_decimal(type) or pa.types.is_integer(type)):
            return None
        sizes.append((type.precision - type.scale, type.scale) if pa.types.is_decimal(type) else (20, 0))
    whole, scale = max(size for size, _ in sizes), max(scale for _, scale in sizes)
    if whole + scale > _DIGITS:
        return None
    both = pa.decimal256(_DIGITS, scale)
    return lambda a, b: COMPARE[op](_as_decimal(a, both), _as_decimal(b, both))


def _as_decimal(values: pa.Array, type: pa.DataType) -> pa.Array:
    return (values.cast(pa.decimal128(20, 0)) if pa.types.is_integer(values.type) else values).cast(type)


def _whole_and_float(op: str, whole: pa.Array, other: pa.Array) -> pa.Array:
    null = pc.or_(pc.or_(whole.is_null(), other.is_null()), pc.is_nan(other).fill_null(True))
    a = whole.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    b = other.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    rounded = a.astype(np.float64)
    # as floats, numbers never change sides; where they are equal, the whole numbers decide
    tie = (rounded == b) & (b < 2.0**63)
    same = np.where(tie, b, 0.0).astype(np.int64)
    less: Array = np.where(tie, a < same, (rounded < b) | ((rounded == b) & ~tie))
    equal: Array = tie & (a == same)
    holds = {
        "=": equal,
        "!=": ~equal,
        "<": less,
        "<=": less | equal,
        ">": ~less & ~equal,
        ">=": ~less,
    }[op]
    return pc.if_else(null, pa.scalar(None, pa.bool_()), pa.array(holds))
