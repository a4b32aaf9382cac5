"""Guards as three-valued formulas over tests of single columns (SQL's logic; docs/reference.md, section 3).

A test's value is True, False or None (unknown). A guard holds where its formula is true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """Test number `index` of column slot `slot`."""

    slot: int
    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | None


@dataclass(frozen=True, slots=True)
class AllOf:
    items: tuple[Logic, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    items: tuple[Logic, ...]


@dataclass(frozen=True, slots=True)
class Not:
    item: Logic


Logic = ColumnTest | Constant | AllOf | AnyOf | Not
Truth = bool | None
Truths = npt.NDArray[np.int8]
"""An array of truth values: 0 false, 1 unknown, 2 true."""

FALSE, UNKNOWN, TRUE = 0, 1, 2


def code(value: Truth) -> int:
    """A truth value as a number of `Truths`."""
    return UNKNOWN if value is None else TRUE if value else FALSE


def evaluate(logic: Logic, values: Callable[[ColumnTest], Truths], count: int) -> Truths:
    """Kleene's strong logic on `count` events at once: AND is the least, OR the greatest, NOT mirrors.

    >>> evaluate(AnyOf((Constant(None), Constant(True))), lambda test: None, 1)
    array([2], dtype=int8)
    """
    match logic:
        case ColumnTest():
            return values(logic)
        case Constant(known):
            return np.full(count, code(known), np.int8)
        case Not(item):
            return TRUE - evaluate(item, values, count)
        case AllOf(items):
            result = np.full(count, TRUE, np.int8)
            for item in items:
                result = np.minimum(result, evaluate(item, values, count))
            return result
        case AnyOf(items):
            result = np.full(count, FALSE, np.int8)
            for item in items:
                result = np.maximum(result, evaluate(item, values, count))
            return result
