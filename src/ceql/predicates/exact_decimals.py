"""Aggregates of decimals in conditions, digit by digit: their sums are carried as whole numbers, without the point.

A comparison of such sums, means, least, greatest, first and last values with numbers, with counts and with one another
is one of whole numbers, brought to one scale. Where anything else is calculated, floats are, as everywhere.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from ceql.analysis.cutting import Read
from ceql.automata.correlated import Correlated
from ceql.automata.registers import Carrying
from ceql.automata.steps import Program
from ceql.automata.uses import Term, Use
from ceql.engine.groups import programs as p
from ceql.engine.groups.layout import NULL
from ceql.io.schemas import column_of, value_type
from ceql.io.sort_keys import decimal_words, encode
from ceql.jit import Array
from ceql.syntax import tree as t
from ceql.syntax.walking import nodes

_DIGITS = 18  # of decimals that a word can hold
_NO_POINT = -1
EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""In which decimals lose no digit."""
OPERATORS = {"=": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}


class ExactDecimals:
    """The decimals of an automaton over a schema. Those of an open schema, whose digits may grow, are floats."""

    def __init__(self, auto: Correlated, schema: pa.Schema, open_schema: bool) -> None:
        self._auto = auto
        self._schema = schema
        self._open = open_schema

    @property
    def _carrying(self) -> Carrying:
        assert self._auto.carrying is not None
        return self._auto.carrying

    def column(self, term: Term) -> str | None:
        """The column of decimals that a term reads for an aggregate; None if it is none, or one with more digits."""
        what = term.what
        if isinstance(what, t.Arithmetic) and what.op == "/" and what.right == t.Literal(1):
            what = what.left  # the sum of a mean
        index = self._schema.get_field_index(what.name) if isinstance(what, t.Attribute) else -1
        if term.use is not Use.NULLABLE or index < 0 or self._open:
            return None
        type = value_type(self._schema.field(index).type)
        fits = pa.types.is_decimal(type) and type.precision <= _DIGITS and type.scale >= 0
        return self._schema.names[index] if fits else None

    def scale(self, term: Term) -> int | None:
        """The digits behind the point of what a term reads; None if `column` is."""
        name = self.column(term)
        return None if name is None else int(value_type(self._schema.field(name).type).scale)

    def scale_of(self, k: int, operand: int) -> int | None:
        """That of an operand of condition k."""
        return self.scale(self._carrying.terms[self._carrying.operands[k][operand]])

    def is_count(self, k: int, operand: int) -> bool:
        """Whether an operand of condition k is a number of events or of different values."""
        return self._carrying.conditions[k].operands[operand].fold in ("COUNT", "DISTINCT")

    def comparison(self, k: int, op: str, left: Any, right: Any) -> Program | None:
        """The program of a comparison; None if no decimals decide it, or floats do."""
        if not (self._has_decimals(k, left) or self._has_decimals(k, right)):
            return None
        if isinstance(left, t.Literal):
            op, left, right = t.FLIPPED[op], right, left
        one, two = self._exact(k, left), self._exact(k, right)
        if one is None or two is None:
            return None
        scale = max(one, 0) if isinstance(right, t.Literal) else max(one, two)
        if isinstance(right, t.Literal) and two > scale:  # a number that no value has: no need for more digits
            key = int(encode(pa.array([float(Fraction(_number(right)) * 10**scale)]), "")[0])
            return [*self._scaled(k, left, scale), (p.CONSTANT, key), (p.COMPARE_INT_FLOAT, OPERATORS[op])]
        program = [*self._scaled(k, left, scale), *self._scaled(k, right, scale), (p.COMPARE_WORDS, OPERATORS[op])]
        too_large = any(what == p.CONSTANT and abs(number) >= 1 << 63 for what, number in program)
        return None if too_large else program

    def _has_decimals(self, k: int, node: Any) -> bool:
        return any(isinstance(part, Read) and self.scale_of(k, part.operand) is not None for part in nodes(node))

    def _exact(self, k: int, node: Any) -> int | None:
        """The digits behind the point of an expression, `_NO_POINT` if it has no point; None if floats calculate it."""
        match node:
            case Read(operand):
                scale = self.scale_of(k, operand)
                return _NO_POINT if scale is None and self.is_count(k, operand) else scale
            case t.Literal(bool() | str() | None):
                return None
            case t.Literal():
                exponent = Decimal(_number(node)).normalize(EXACT).as_tuple().exponent
                return max(-int(exponent), _NO_POINT)
            case t.Minus(operand):
                return self._exact(k, operand)
            case t.Arithmetic("+" | "-", left, right):
                one, two = self._exact(k, left), self._exact(k, right)
                return None if one is None or two is None else max(one, two)
            case t.Arithmetic("/", Read() as total, Read()):
                scale = self.scale_of(k, total.operand)
                is_mean = isinstance(self._carrying.conditions[k].operands[total.operand].what, t.Arithmetic)
                return scale + p.MEAN_DIGITS if is_mean and scale is not None else None
        return None

    def _scaled(self, k: int, node: Any, scale: int) -> Program:
        """What leaves an expression on the stack as a whole number, of so many digits behind the point."""
        match node:
            case t.Literal():
                return [(p.CONSTANT, int(Fraction(_number(node)) * 10**scale))]
            case t.Minus(operand):
                return [*self._scaled(k, operand, scale), (p.NEGATE_INT, 0)]
            case t.Arithmetic("+" | "-" as op, left, right):
                calculated = p.ADD_INT if op == "+" else p.SUBTRACT_INT
                return [*self._scaled(k, left, scale), *self._scaled(k, right, scale), (calculated, 0)]
            case t.Arithmetic(_, Read() as total, Read() as count):
                sums = (*read_of(self._carrying, k, total.operand), *read_of(self._carrying, k, count.operand))
                program = [*sums, (p.MEAN_INT, 0)]
            case Read(operand):
                program = read_of(self._carrying, k, operand)
            case _:
                raise AssertionError(node)
        more = scale - max(self._exact(k, node) or 0, 0)
        return [*program, (p.CONSTANT, 10**more), (p.MULTIPLY_INT, 0)] if more else program


def _number(literal: t.Literal) -> int | Decimal:
    assert isinstance(literal.value, int | Decimal)
    return literal.value


_FOLDED = {"SUM": p.TOTAL, "COUNT": p.COUNTED, "DISTINCT": p.DIFFERENT}


def read_of(carrying: Carrying, k: int, operand: int) -> Program:
    """What leaves an operand of condition k on the stack."""
    fold = carrying.conditions[k].operands[operand].fold
    return [(p.READ, operand), *([(_FOLDED.get(fold, p.KNOWN), 0)] if fold else [])]


def write_unscaled(name: str, batch: pa.RecordBatch, to: Array) -> None:
    """The words of decimals without their point."""
    column = column_of(batch, name)
    if pa.types.is_null(column.type):
        to[:] = NULL
        return
    to[:] = decimal_words(column)[0]
    if column.null_count:
        to[column.is_null().to_numpy(zero_copy_only=False)] = NULL
