"""Guards as three-valued formulas over tests of single columns (SQL's logic; LANGUAGE.md section 3).

A test's value is True, False or None (unknown). A guard holds where its formula is True.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Test:
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


Logic = Test | Constant | AllOf | AnyOf | Not
Truth = bool | None


def evaluate(logic: Logic, value: Callable[[Test], Truth]) -> Truth:
    """Kleene's strong logic.

    >>> evaluate(AnyOf((Constant(None), Constant(True))), lambda test: None)
    True
    """
    match logic:
        case Test():
            return value(logic)
        case Constant(known):
            return known
        case Not(item):
            inner = evaluate(item, value)
            return None if inner is None else not inner
        case AllOf(items):
            values = [evaluate(i, value) for i in items]
            return False if False in values else None if None in values else True
        case AnyOf(items):
            values = [evaluate(i, value) for i in items]
            return True if True in values else None if None in values else False
