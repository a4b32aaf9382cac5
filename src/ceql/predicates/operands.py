"""Reads the operands of conditions between events as int64 columns, and compiles the conditions to tests and programs.

In: the terms and conditions of an automaton, and the schema of the events. Out: for each term a column of words, NULL a
word of its own. Whole numbers, truth values and times are words as they are (times that are compared in one unit);
floats are in the order-preserving form of `io.sort_keys`; text, decimals and unsigned 64-bit numbers, which a word
cannot hold, are numbers of values (`predicates.values`) that are compared by rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.analysis.cutting import Condition, Read
from ceql.automata.correlated import Correlated
from ceql.automata.steps import BoundReads, BoundTest, Program, Simple
from ceql.automata.uses import Term, Use
from ceql.engine.groups import programs as p
from ceql.engine.groups.layout import LEAST_VALUE, NULL, UNBOUND
from ceql.errors import DataError, QueryError
from ceql.io.schemas import column_of, take_rows, value_type
from ceql.io.sort_keys import decode, encode
from ceql.jit import Array
from ceql.predicates.exact_decimals import OPERATORS, ExactDecimals, read_of, write_unscaled
from ceql.predicates.kernels import float_words
from ceql.predicates.logic import TRUE, UNKNOWN
from ceql.predicates.masks import MaskCompiler
from ceql.predicates.side_by_side import attribute_of, bind_side_by_side, truths
from ceql.predicates.time_arithmetic import finest, in_ticks, in_unit, unit_for, unit_in, unit_of_type
from ceql.predicates.values import ValueNumbers, common_time
from ceql.syntax import tree as t
from ceql.syntax.printer import print_expression
from ceql.syntax.walking import leaves, nodes, of_kind

_INTS = {"+": p.ADD_INT, "-": p.SUBTRACT_INT, "*": p.MULTIPLY_INT, "%": p.REMAINDER_INT}
_FLOATS = {"+": p.ADD_FLOAT, "-": p.SUBTRACT_FLOAT, "*": p.MULTIPLY_FLOAT, "/": p.DIVIDE_FLOAT, "%": p.REMAINDER_FLOAT}
_OF_FLOATS = {"ABS": p.ABS_FLOAT, "FLOOR": p.FLOOR, "CEIL": p.CEIL, "ROUND": p.ROUND}
_ORDERED = (Use.ORDER, Use.RANGE)
_DEEPEST = 60  # of a program's stack
TOO_SMALL = UNBOUND  # in place of a whole number that is no other word


Reader = Callable[[pa.RecordBatch, ValueNumbers | None, Array], None]
"""Writes the words of a term; those that are compared by rank need numbers of values."""


class TooSmall(Exception):
    """A column has whole numbers that stand for NULL or for nothing at all: its term must be compared by rank."""

    def __init__(self, term: int) -> None:
        super().__init__(term)
        self.term = term


class Encoding(Enum):
    """How a column's words compare."""

    WORD = "word"
    FLOAT = "float"
    RANKED = "ranked"
    NUMBERED = "numbered"  # not compared, but to be had back


class Operands:
    """The terms of an automaton that are not numbered, bound to a schema; a condition that does not fit it is a
    `SchemaError`. Any number of recognitions can read with it, each with its own numbers of values.

    `ranked` is what is compared by rank though a word could hold almost all its values.
    """

    def __init__(
        self,
        auto: Correlated,
        schema: pa.Schema,
        open_schema: bool,
        source: str,
        ranked: frozenset[object] = frozenset(),
    ) -> None:
        self.auto = auto
        self.open_schema = open_schema
        self.source = source
        self._ranked = ranked
        self.schema = schema
        conditions = self.auto.carrying.conditions if self.auto.carrying is not None else ()
        for condition in conditions:
            if condition.ends < 0 and not condition.is_measured:  # else `recognition.checks` binds what it asks
                bind_side_by_side(condition.asked, schema, self.open_schema, self.source)
        self._compiler = MaskCompiler(partial(_type_in, schema), self.source, lambda node: unit_in(schema, node.name))
        self._tick = self._finest_unit(conditions)
        self._decimals = ExactDecimals(auto, schema, open_schema)
        self.encodings = [self._encoding(term) for term in self.auto.reads]
        self._read_words: dict[object, Reader] = {}
        self._readers = [self._reader(term, e) for term, e in zip(self.auto.reads, self.encodings, strict=True)]
        parts = [leaves(part) for term in auto.reads for part in (term.what, term.partner) if part is not None]
        self._names = sorted({attribute_of(leaf) for part in parts for leaf in part})
        self.tests = [self._test(k, condition) for k, condition in enumerate(conditions)]

    def bound_to(self, schema: pa.Schema) -> Operands:
        """The same over columns of another schema."""
        if schema.equals(self.schema, check_metadata=True):
            return self
        return Operands(self.auto, schema, self.open_schema, self.source, self._ranked)

    def _type_of(self, what: t.Expression) -> pa.DataType:
        return _type_in(self.schema, what) if isinstance(what, t.Attribute) else self._compiler.expression(what)[0]

    def _finest_unit(self, conditions: Sequence[Condition]) -> str:
        """The unit of all times and durations that are calculated with between events."""
        units = [unit_for(length) for condition in conditions for length in _lengths(condition.predicate)]
        for term in self.auto.reads:
            if term.use in (Use.VALUE, Use.NULLABLE):
                type = self._compiler.expression(term.what)[0]  # type: ignore[arg-type]
                units += [unit_of_type(type)] if pa.types.is_temporal(type) else []
                units += ["us"] if pa.types.is_time(type) else []
        return finest("s", *units)

    def _encoding(self, term: Term) -> Encoding:
        if term.use is Use.LISTED:
            return Encoding.NUMBERED
        if term.use is Use.TRUTH or self._decimals.scale(term) is not None:
            return Encoding.WORD
        if term.use in (Use.VALUE, Use.NULLABLE):
            type = self._compiler.expression(term.what)[0]  # type: ignore[arg-type]
            return Encoding.FLOAT if pa.types.is_floating(type) else Encoding.WORD
        types = [self._type_of(what) for what in (term.what, term.partner)]  # type: ignore[arg-type]
        if pa.types.is_null(types[0]) or any(not _fits_a_word(type) for type in types):
            return Encoding.RANKED
        if {term.what, term.partner} & self._ranked:
            return Encoding.RANKED
        return Encoding.FLOAT if pa.types.is_floating(types[0]) else Encoding.WORD

    @property
    def ranked(self) -> list[bool]:
        """Of each term: whether its words are compared by rank."""
        return [encoding is Encoding.RANKED for encoding in self.encodings]

    @property
    def reads(self) -> BoundReads:
        """What the engine must know of each term."""
        floating = [encoding is Encoding.FLOAT for encoding in self.encodings]
        return BoundReads(self.ranked, floating, self.absent)

    @property
    def absent(self) -> list[bool | None]:
        """Of each term: whether it is true of an event that is not there, all of whose attributes are NULL."""
        nothing = pa.RecordBatch.from_arrays([pa.nulls(1, type) for type in self.schema.types], schema=self.schema)
        found: list[bool | None] = []
        for term, read in zip(self.auto.reads, self._readers, strict=True):
            word: Array = np.full(1, NULL)
            if term.use is Use.TRUTH:
                read(nothing, None, word)
            found.append(None if word[0] == NULL else bool(word[0]))
        return found

    # --- columns ---

    def read(self, batch: pa.RecordBatch, rows: Array | None, values: ValueNumbers, to: Array) -> None:
        """Write the words of the terms into the first columns of `to`, one row for each of these rows (None: all)."""
        if rows is not None and len(rows) != batch.num_rows:
            batch = take_rows(
                batch.select([name for name in self._names if name in batch.schema.names]), pa.array(rows)
            )
        for k, read in enumerate(self._readers):
            first = self._readers.index(read)  # terms that are read in the same way are read once
            if first == k:
                read(batch, values, to[:, k])
            else:
                to[:, k] = to[:, first]
            term = self.auto.reads[k]
            if self.encodings[k] is Encoding.WORD and term.use is not Use.TRUTH and (to[:, k] == TOO_SMALL).any():
                raise TooSmall(k)

    @property
    def by_rank(self) -> list[int]:
        """The terms for which `rank` was asked."""
        return [k for k, term in enumerate(self.auto.reads) if term.use in _ORDERED and term.what in self._ranked]

    def with_rank(self, k: int) -> Operands:
        """The same, but for a term that is compared by rank: it has values that a word has no room for."""
        term = self.auto.reads[k]
        if term.use not in _ORDERED:
            what = print_expression(term.what)  # type: ignore[arg-type]
            raise DataError(
                f"'{what}' has a number below {LEAST_VALUE}, which cannot be calculated with between events"
            )
        return Operands(self.auto, self.schema, self.open_schema, self.source, self._ranked | {term.what, term.partner})

    def recode(self, k: int, before: Encoding, values: ValueNumbers, words: Array) -> Array:
        """Words of a term that were encoded as `before`, as they are encoded now."""
        now = self.encodings[k]
        plain = pa.array(words) if before is Encoding.WORD else decode(words, pa.float64())
        if now is Encoding.RANKED:
            return values.number(plain, plain.type).astype(np.int64)
        try:
            return encode(plain.cast(pa.float64()), "")
        except pa.ArrowInvalid as error:
            what = print_expression(self.auto.reads[k].what)  # type: ignore[arg-type]
            raise DataError(f"the type of '{what}' changed, and values do not fit: {error}") from error

    def _reader(self, term: Term, encoding: Encoding) -> Reader:
        if term.use is Use.TRUTH:
            bound = bind_side_by_side(term.what, self.schema, self.open_schema, self.source)  # type: ignore[arg-type]

            def truth(batch: pa.RecordBatch, _: ValueNumbers | None, to: Array) -> None:
                found = truths(bound, batch)
                to[:] = np.where(found == UNKNOWN, NULL, (found == TRUE).astype(np.int64))

            return truth
        decimal = self._decimals.column(term)
        if decimal is not None:
            return lambda batch, _, to: write_unscaled(decimal, batch, to)
        what: t.Expression = term.what  # type: ignore[assignment]
        column: Callable[[pa.RecordBatch], Any]
        if isinstance(what, t.Attribute) and term.use in (*_ORDERED, Use.LISTED):
            column = partial(column_of, name=what.name)
        else:
            column = self._compiler.expression(what)[1]
        type = self._type_of(what)
        if encoding in (Encoding.RANKED, Encoding.NUMBERED):
            if pa.types.is_null(type):
                return lambda batch, _, to: to.fill(NULL)

            def numbered(batch: pa.RecordBatch, values: ValueNumbers | None, to: Array) -> None:
                assert values is not None
                found = _spread(column(batch), batch.num_rows)
                numbers = values.number(found, type)
                to[:] = np.where(numbers < 0, np.int64(NULL), numbers)
                if encoding is Encoding.NUMBERED and pa.types.is_floating(type):
                    plain = found.dictionary_decode() if pa.types.is_dictionary(found.type) else found
                    to[pc.is_nan(plain.cast(pa.float64())).fill_null(False).to_numpy(zero_copy_only=False)] = p.NAN

            return numbered
        partner = self._type_of(term.partner) if term.partner is not None else type  # type: ignore[arg-type]
        shown = common_time(type, partner) if pa.types.is_temporal(type) and pa.types.is_temporal(partner) else None
        if shown is not None and term.use in (Use.VALUE, Use.NULLABLE):
            shown = in_unit(type, self._tick)
        name = what.name if isinstance(what, t.Attribute) else "a calculated value"
        nan = p.NAN if term.use in (Use.NULLABLE, Use.RANGE) else NULL
        alike = (what, term.use in _ORDERED, shown, encoding, nan)
        read = self._read_words.get(alike)
        if read is None:
            read = self._read_words[alike] = lambda batch, _, to: _write_words(
                _spread(column(batch), batch.num_rows), shown, encoding, name, nan, to
            )
        return read

    def values_of(self, what: t.Expression, words: Array, values: ValueNumbers) -> pa.Array:
        """The values that were listed as these words."""
        type = self._type_of(what)
        if pa.types.is_null(type):
            return pa.nulls(len(words))
        known = (words >= 0) & (words < values.most)
        found = values.values(words[known], type)
        at = np.where(known, np.cumsum(known) - 1, len(found))
        if pa.types.is_floating(type):
            found = pa.concat_arrays([found, pa.array([np.nan], pa.float64()).cast(type)])
        return found.take(pa.array(at, mask=~known & (words != p.NAN)))

    # --- conditions ---

    def _test(self, k: int, condition: Condition) -> BoundTest:
        if condition.listed is not None:
            return []
        pair = condition.pair
        # a third operand is that an event is there, without which nothing is asked
        if pair is not None and len(condition.operands) == 2 and condition.ends < 0 and not condition.is_measured:
            op, left, right = pair
            one, two = (self._encoding_of(k, operand) for operand in (left, right))
            if one == two or (one is None and two is None):
                return Simple(OPERATORS[op], left, right, one is Encoding.RANKED)
        program: Program = []
        self._predicate(k, condition.predicate, program)
        if condition.denies >= 0 or condition.early:
            program.append((p.DENIED if condition.denies >= 0 else p.MAY_HOLD, 0))
        if len(program) > _DEEPEST:
            raise QueryError("this condition on several events is too long", self.source, condition.claim.span)
        return program

    def _encoding_of(self, k: int, operand: int) -> Encoding | None:
        """None for numbers of values."""
        assert self.auto.carrying is not None
        term = self.auto.carrying.terms[self.auto.carrying.operands[k][operand]]
        return None if term.use is Use.NUMBER else self.encodings[self.auto.reads.index(term)]

    def _predicate(self, k: int, node: Any, program: Program) -> None:
        match node:
            case Read(operand):
                self._read(k, operand, program)
            case t.Conj(items) | t.Disj(items):
                for n, item in enumerate(items):
                    self._predicate(k, item, program)
                    if n:
                        program.append((p.AND if isinstance(node, t.Conj) else p.OR, 0))
            case t.Neg(item):
                self._predicate(k, item, program)
                program.append((p.NOT, 0))
            case t.IsNull(operand, negated):
                self._expression(k, operand, program, self._unit_of(k, operand))
                program += [(p.IS_NULL, 0), *([(p.NOT, 0)] if negated else [])]
            case t.Comparison(op, left, right):
                self._comparison(k, op, left, right, program)
            case _:
                raise AssertionError(f"not a predicate over operands: {node}")

    def _read(self, k: int, operand: int, program: Program) -> None:
        assert self.auto.carrying is not None
        program += read_of(self.auto.carrying, k, operand)

    def _comparison(self, k: int, op: str, left: Any, right: Any, program: Program) -> None:
        exact = self._decimals.comparison(k, op, left, right)
        if exact is not None:
            program += exact
            return
        sides: list[Program] = [[], []]
        unit = self._unit_of(k, left, right)
        one, two = (self._expression(k, side, part, unit) for side, part in zip((left, right), sides, strict=True))
        if one is Encoding.FLOAT and two is Encoding.WORD:
            op, one, two, sides = t.FLIPPED[op], two, one, sides[::-1]
        program += sides[0] + sides[1]
        if one is Encoding.WORD and two is Encoding.FLOAT:
            program.append((p.COMPARE_INT_FLOAT, OPERATORS[op]))
        else:
            floats = p.COMPARE_FLOATS if one is Encoding.FLOAT else p.COMPARE_WORDS
            program.append((p.COMPARE_RANKS if one is Encoding.RANKED else floats, OPERATORS[op]))

    def _expression(self, k: int, node: Any, program: Program, unit: str) -> Encoding | None:
        """Adds what leaves the value on the stack; how it is encoded. Durations are in this unit."""
        match node:
            case Read(operand):
                self._read(k, operand, program)
                if self._decimals.is_count(k, operand):
                    return Encoding.WORD
                scale = self._decimals.scale_of(k, operand)
                if scale is not None:
                    program.append((p.UNSCALE, scale))
                return self._encoding_of(k, operand) if scale is None else Encoding.FLOAT
            case t.Literal(value):
                return _constant(value, program)
            case t.Duration(nanoseconds):
                ticks = in_ticks(nanoseconds, unit)
                return _constant(int(ticks) if ticks.denominator == 1 else Decimal(float(ticks)), program)
            case t.Minus(operand):
                found = self._expression(k, operand, program, unit)
                program.append((p.NEGATE_FLOAT if found is Encoding.FLOAT else p.NEGATE_INT, 0))
                return found
            case t.Call(function, (operand,)):
                found = self._expression(k, operand, program, unit)
                if function == "ABS" or found is Encoding.FLOAT:
                    program.append((p.ABS_INT if found is not Encoding.FLOAT else _OF_FLOATS[function], 0))
                return Encoding.WORD if function in ("FLOOR", "CEIL") else found
            case t.Arithmetic(op, left, right):
                sides: list[Program] = [[], []]
                kinds = [self._expression(k, side, part, unit) for side, part in zip((left, right), sides, strict=True)]
                whole = Encoding.FLOAT not in kinds and op != "/"
                for kind, part in zip(kinds, sides, strict=True):
                    program += part
                    if not whole and kind is not Encoding.FLOAT:
                        program.append((p.TO_FLOAT, 0))
                program.append((_INTS[op] if whole else _FLOATS[op], 0))
                return Encoding.WORD if whole else Encoding.FLOAT
        raise AssertionError(f"not an expression over operands: {node}")

    def _unit_of(self, k: int, *compared: Any) -> str:
        """The unit of durations in a comparison of condition k: of the plain numbers that are its times, or of all
        others."""
        assert self.auto.carrying is not None
        operands = self.auto.carrying.conditions[k].operands
        read = [operands[number].what for node in compared for number in _reads(node)]
        return self._compiler.unit_of(*read) or self._tick  # type: ignore[arg-type]


def _reads(node: Any) -> list[int]:
    """The operands that an expression reads."""
    return [part.operand for part in nodes(node) if isinstance(part, Read)]


def _type_in(schema: pa.Schema, node: t.Attribute) -> pa.DataType:
    index = schema.get_field_index(node.name)
    return value_type(schema.field(index).type) if index >= 0 else pa.null()


def _lengths(node: Any) -> list[int]:
    """The durations in a condition, in nanoseconds."""
    return [part.nanoseconds for part in of_kind(node, t.Duration)]


def _constant(value: object, program: Program) -> Encoding:
    if value is None:
        program.append((p.CONSTANT, NULL))
        return Encoding.WORD
    if isinstance(value, Decimal):
        program.append((p.CONSTANT, int(encode(pa.array([float(value)]), "")[0])))
        return Encoding.FLOAT
    program.append((p.CONSTANT, int(value)))  # type: ignore[call-overload]
    return Encoding.WORD


def _fits_a_word(type: pa.DataType) -> bool:
    return bool(
        pa.types.is_null(type)
        or pa.types.is_boolean(type)
        or pa.types.is_floating(type)
        or (pa.types.is_integer(type) and type != pa.uint64())
        or pa.types.is_temporal(type)
    )


def _write_words(
    column: pa.Array, shown: pa.DataType | None, encoding: Encoding, name: str, nan: int, to: Array
) -> None:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        to[:] = NULL
        return
    if shown is not None and column.type != shown:
        try:
            column = column.cast(shown)
        except pa.ArrowInvalid as error:
            raise DataError(f"'{name}' cannot be compared between events: {error}") from None
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int64())
    if encoding is Encoding.FLOAT:
        floats = column.cast(pa.float64())
        plain = floats.fill_null(0.0) if column.null_count else floats
        float_words(plain.to_numpy(zero_copy_only=False).view(np.int64), nan, to)
    else:
        words = encode(column, name)
        to[:] = words
        if (words < LEAST_VALUE).any():
            to[words < LEAST_VALUE] = TOO_SMALL
    if column.null_count:
        to[column.is_null().to_numpy(zero_copy_only=False)] = NULL


def _spread(values: Any, count: int) -> pa.Array:
    return pa.repeat(values, count) if isinstance(values, pa.Scalar) else values
