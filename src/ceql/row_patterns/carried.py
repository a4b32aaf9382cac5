"""Conditions that look at rows of the match: registers of a run, and tests over them (`automata.ordered_program`).

What looks at one row is a column, a *word* of each row: of the row at hand, a word of the event; of another row of the
match, a register that took the word when that row was read. `PREV(A.x, 2)` in the condition of B is a register of x two
rows back, taken at each row of A. FIRST and LAST with offsets are chains of registers, aggregates are sums, counts and
extremes. What stands between these becomes a small program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ceql.automata.ordered_program import Asked, How, Update
from ceql.automata.registers import CARRIED, EVENT, NEW, Source
from ceql.engine.groups import programs as ops
from ceql.errors import Span
from ceql.io import sort_keys
from ceql.row_patterns import navigation
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.conditions import is_of_row, row_column
from ceql.row_patterns.expressions import Column, as_array, evaluate, interval
from ceql.row_patterns.functions import NOT_STRICT
from ceql.row_patterns.navigation import Access, Reading, RowRef, Total
from ceql.row_patterns.problem import Refused
from ceql.row_patterns.rows import Rows
from ceql.row_patterns.words import DECIMAL, FLOAT, INT, SPAN, TIME, TRUTH, Kind, Words

_OPERATORS: dict[type[exp.Expr], int] = {exp.EQ: 0, exp.NEQ: 1, exp.LT: 2, exp.LTE: 3, exp.GT: 4, exp.GTE: 5}
_MIRRORED = {0: 0, 1: 1, 2: 4, 3: 5, 4: 2, 5: 3}
_INTS: dict[type[exp.Expr], int] = {
    exp.Add: ops.ADD_INT,
    exp.Sub: ops.SUBTRACT_INT,
    exp.Mul: ops.MULTIPLY_INT,
    exp.Mod: ops.REMAINDER_INT,
}
_FLOATS: dict[type[exp.Expr], int] = {
    exp.Add: ops.ADD_FLOAT,
    exp.Sub: ops.SUBTRACT_FLOAT,
    exp.Mul: ops.MULTIPLY_FLOAT,
    exp.Mod: ops.REMAINDER_FLOAT,
    exp.Div: ops.DIVIDE_FLOAT,
}
_TIMED: dict[tuple[type[exp.Expr], Kind, Kind], Kind] = {
    (exp.Sub, TIME, TIME): SPAN,
    (exp.Sub, TIME, SPAN): TIME,
    (exp.Add, TIME, SPAN): TIME,
    (exp.Add, SPAN, TIME): TIME,
    (exp.Add, SPAN, SPAN): SPAN,
    (exp.Sub, SPAN, SPAN): SPAN,
    (exp.Mul, SPAN, INT): SPAN,
    (exp.Mul, INT, SPAN): SPAN,
}
"""The kind of a sum or difference with times: all of them are nanoseconds."""
MANY = 1 << 30
"""The number of different values that are told apart."""
_NOT_STRICT: tuple[type[exp.Expr], ...] = (
    exp.And,
    exp.Or,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Case,
    exp.If,
    *NOT_STRICT,
)


@dataclass(frozen=True)
class Code:
    """Operations that leave one value of a kind, and what they read."""

    kind: Kind
    steps: tuple[tuple[int, int], ...]
    reads: tuple[Source, ...] = ()

    def then(self, *steps: tuple[int, int], kind: Kind | None = None) -> Code:
        return Code(kind or self.kind, (*self.steps, *steps), self.reads)

    def and_with(self, other: Code, kind: Kind, *steps: tuple[int, int]) -> Code:
        """Both values, and what is done with them."""
        moved = tuple((op, arg + len(self.reads)) if op == ops.READ else (op, arg) for op, arg in other.steps)
        return Code(kind, (*self.steps, *moved, *steps), (*self.reads, *other.reads))


@dataclass(frozen=True)
class _Register:
    """What a register has: `update` gives what a row of a variable does to it."""

    rows: frozenset[str] | None
    update: Callable[[str], Update]


class Registers:
    """The registers that conditions ask for, each once."""

    def __init__(self, rows: Rows, variables: tuple[str, ...]):
        self.words = Words(rows.table.num_rows)
        self._rows = rows
        self._variables = variables
        self._known: dict[object, int] = {}
        self._made: list[_Register] = []

    def __len__(self) -> int:
        return len(self._made)

    def _register(self, key: object, rows: frozenset[str] | None, update: Callable[[int, str], Update]) -> int:
        if key not in self._known:
            number = self._known[key] = len(self._made)
            self._made.append(_Register(rows, lambda variable: update(number, variable)))
        return self._known[key]

    def updates(self, variable: str) -> tuple[Update, ...]:
        """What a row of a variable does."""
        return tuple(
            register.update(variable) for register in self._made if register.rows is None or variable in register.rows
        )

    def _word_of(self, rows: frozenset[str] | None, column: Callable[[str], Column]) -> tuple[object, Kind]:
        """The words of a look for each variable whose rows it is at, and their kind."""
        named = self._variables if rows is None else tuple(v for v in self._variables if v in rows)
        found = {variable: self.words.add(column(variable)) for variable in named}
        kinds = {kind for _, kind in found.values()}
        return tuple((variable, number) for variable, (number, _) in found.items()), kinds.pop()

    def nth(self, row: RowRef, column: Callable[[str], Column]) -> Code:
        """The word of the n-th first or last row of some variables."""
        words, kind = self._word_of(row.rows, column)
        of = dict(words)  # type: ignore[call-overload]
        register = -1
        for k in range(row.offset + 1):
            before = register

            def update(number: int, variable: str, k: int = k, before: int = before) -> Update:
                word = Source(EVENT, of[variable])
                if row.last:
                    return Update(number, How.LATEST, Source(CARRIED, before) if k else word)
                return Update(number, How.FIRST_AFTER if k else How.FIRST, word, before if k else -1)

            register = self._register(("nth", row.rows, row.last, k, words), row.rows, update)
        return Code(kind, ((ops.READ, 0), (ops.KNOWN, 0)), (Source(NEW, register),))

    def labelled_before(self, row: RowRef, column: Callable[[str], Column]) -> Code:
        """A word of the label of the row so many rows before the last row of some variables."""
        every = RowRef(None, True, -row.shift - 1)
        history = self.nth(every, column)
        source = Source(CARRIED, history.reads[0].number)
        key = "before", row.rows, row.shift, source
        register = self._register(key, row.rows, lambda number, _: Update(number, How.LATEST, source))
        return Code(history.kind, ((ops.READ, 0), (ops.KNOWN, 0)), (Source(NEW, register),))

    def folded(self, rows: frozenset[str] | None, how: How, column: Callable[[str], Column], read: int) -> Code:
        words, kind = self._word_of(rows, column)
        of = dict(words)  # type: ignore[call-overload]
        most = MANY if how is How.DIFFERENT else -1
        if how is How.SUM and kind == FLOAT:
            how, read = How.SUM_FLOATS, ops.KNOWN
        register = self._register(
            ("folded", rows, how, words), rows, lambda number, v: Update(number, how, Source(EVENT, of[v]), most)
        )
        return Code(kind, ((ops.READ, 0), (read, 0)), (Source(NEW, register),))


class Condition:
    """Makes programs of one variable's condition."""

    def __init__(self, reading: Reading, variable: str, rows: Rows, registers: Registers):
        self._reading = reading
        self._variable = variable
        self._rows = rows
        self._registers = registers

    def split(self) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """The parts that are joined by AND: those of the row and its neighbours, and the others."""
        parts: list[exp.Expr] = []
        waiting = [self._reading.tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, exp.And):
                waiting += [node.expression, node.this]
            elif isinstance(node, exp.Paren):
                waiting.append(node.this)
            else:
                parts.append(node)
        of_row = [part for part in parts if self._of_row(part)]
        return of_row, [part for part in parts if not self._of_row(part)]

    def asked(self, part: exp.Expr) -> Asked:
        """The test of a part."""
        code = self.code(part)
        if code.kind != TRUTH:
            raise Refused(f"this part of the condition of '{self._variable}' is no condition", self._place(part))
        return Asked(code.steps, code.reads)

    def _looks(self, node: exp.Expr) -> list[navigation.Look]:
        numbers = (navigation.placeholder_of(each) for each in node.walk())
        return [self._reading.looks[int(number)] for number in numbers if number is not None]

    def _of_row(self, node: exp.Expr) -> bool:
        return all(is_of_row(look, self._variable) for look in self._looks(node))

    def _column(self, node: exp.Expr, variable: str) -> Column:
        """An expression over looks at one row, at rows of a variable."""

        def leaf(each: exp.Expr) -> Column:
            look = self._reading.looks[int(navigation.placeholder_of(each) or 0)]
            assert isinstance(look, Access)
            return row_column(look, variable, self._rows)

        return evaluate(node, leaf)

    def _place(self, node: exp.Expr) -> Span | None:
        return span_of(node) or span_of(self._reading.tree)

    def code(self, node: exp.Expr) -> Code:
        if self._of_row(node):
            if isinstance(node, exp.Interval):
                return Code(SPAN, ((ops.CONSTANT, 1000 * interval(node)),))
            number, kind = self._registers.words.add(self._column(node, self._variable))
            return Code(kind, ((ops.READ, 0),), (Source(EVENT, number),))
        alone = self._one_row(node)
        if alone is not None:
            return alone
        match node:
            case exp.Paren():
                return self.code(node.this)
            case exp.Placeholder():
                return self._looked(self._looks(node)[0], node)
            case exp.And() | exp.Or():
                step = ops.AND if isinstance(node, exp.And) else ops.OR
                return self.code(node.this).and_with(self.code(node.expression), TRUTH, (step, 0))
            case exp.Not():
                return self.code(node.this).then((ops.NOT, 0))
            case exp.Is() if isinstance(node.expression, exp.Null):
                return self.code(node.this).then((ops.IS_NULL, 0), kind=TRUTH)
            case exp.Between():
                low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
                high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
                return self.code(low).and_with(self.code(high), TRUTH, (ops.AND, 0))
            case exp.In() if node.expressions:
                found = [self.code(exp.EQ(this=node.this.copy(), expression=each.copy())) for each in node.expressions]
                code = found[0]
                for each in found[1:]:
                    code = code.and_with(each, TRUTH, (ops.OR, 0))
                return code
            case exp.Neg():
                code = self.code(node.this)
                return code.then((ops.NEGATE_FLOAT if code.kind == FLOAT else ops.NEGATE_INT, 0))
            case exp.Abs():
                code = self.code(node.this)
                return code.then((ops.ABS_FLOAT if code.kind == FLOAT else ops.ABS_INT, 0))
        if type(node) in _OPERATORS:
            return self._compared(node)
        if type(node) in _FLOATS:
            return self._calculated(node)
        raise self._refused(node)

    def _refused(self, node: exp.Expr) -> Refused:
        name = str(node.this) if isinstance(node, exp.Anonymous) else node.key.upper()
        message = f"DEFINE of '{self._variable}' applies {name} to several rows of the match, which is not evaluated"
        return Refused(message, self._place(node), "Compute it of one row, or in MEASURES.")

    def _one_row(self, node: exp.Expr) -> Code | None:
        """An expression over one other row of the match is a word that is taken at that row."""
        looks = self._looks(node)
        if not all(isinstance(look, Access) for look in looks):
            return None
        refs = {(look.row.rows, look.row.last, look.row.offset) for look in looks if isinstance(look, Access)}
        if len(refs) != 1 or any(isinstance(each, _NOT_STRICT) for each in node.walk()):
            return None
        first = next(look for look in looks if isinstance(look, Access))
        for look in looks:
            assert isinstance(look, Access)
            named = {navigation.placeholder_of(each) for each in look.tree.walk()}
            if navigation.CLASSIFIER in named and look.row.shift:
                return self._label_beside(look, node) if len(looks) == 1 else None
        row = first.row
        return self._registers.nth(RowRef(row.rows, row.last, row.offset), lambda v: self._column(node, v))

    def _label_beside(self, look: Access, node: exp.Expr) -> Code | None:
        """CLASSIFIER() of a row before another one."""
        row = look.row
        columns = any(isinstance(each, exp.Column) for each in look.tree.walk())
        if row.shift > 0 or not row.last or row.offset or columns or not isinstance(node, exp.Placeholder):
            if isinstance(node, exp.Placeholder):
                raise Refused(
                    f"DEFINE of '{self._variable}' asks for CLASSIFIER() beside a row in a way that is not evaluated",
                    self._place(node),
                )
            return None
        here = Access(RowRef(row.rows), look.tree)
        return self._registers.labelled_before(row, lambda v: row_column(here, v, self._rows))

    def _looked(self, look: navigation.Look, node: exp.Expr) -> Code:
        if not isinstance(look, Total):
            raise self._refused(node)
        return self._total(look, node)

    def _total(self, total: Total, node: exp.Expr) -> Code:
        registers, rows, kind = self._registers, total.rows, total.function

        value = partial(self._value, total)

        def one(variable: str) -> Column:
            if not total.arguments:
                return pa.scalar(1)
            known = pc.is_valid(as_array(value(variable), self._rows.table.num_rows))
            return pc.if_else(known, pa.scalar(1), pa.scalar(None, pa.int64()))

        if kind is exp.Count and not total.distinct:
            return registers.folded(rows, How.SUM, one, ops.COUNTED)
        if kind is exp.Count and len(total.arguments) == 1:
            found = registers.folded(rows, How.DIFFERENT, value, ops.DIFFERENT)
            return Code(INT, found.steps, found.reads)
        if kind in (exp.Min, exp.Max) and len(total.arguments) == 1:
            return registers.folded(rows, How.LEAST if kind is exp.Min else How.GREATEST, value, ops.KNOWN)
        if not total.distinct and kind is exp.AnyValue:
            return registers.folded(rows, How.FIRST_KNOWN, value, ops.KNOWN)
        if not total.distinct and kind in (exp.Sum, exp.Avg):
            found = registers.folded(rows, How.SUM, value, ops.TOTAL)
            if found.kind == FLOAT or found.kind.is_exact:
                if kind is exp.Sum:
                    return found
                count = registers.folded(rows, How.SUM, one, ops.COUNTED)
                if total.whole and found.kind == INT:
                    return found.and_with(count, INT, (ops.DIVIDE_INT, 0))
                return _as_float(found).and_with(_as_float(count), FLOAT, (ops.DIVIDE_FLOAT, 0))
        name = total.node.sql("trino").split("(")[0].upper()
        message = f"DEFINE of '{self._variable}' asks for {name}, which is not evaluated while rows are matched"
        raise Refused(message, self._place(node), "COUNT, SUM, AVG, MIN and MAX of numbers are.")

    def _listed(self, a: exp.Expr, b: exp.Expr) -> Code | None:
        """ARRAY_AGG(x) = ARRAY[1, 2]: there are so many rows, and each has its value."""
        look = next(iter(self._looks(a)), None)
        is_list = isinstance(a, exp.Placeholder) and isinstance(look, Total) and look.function is exp.ArrayAgg
        if not is_list or not isinstance(b, exp.Array) or not b.expressions or look.distinct:  # type: ignore[union-attr]
            return None
        assert isinstance(look, Total)
        column = partial(self._value, look)
        count = self._registers.folded(look.rows, How.SUM, lambda _: pa.scalar(1), ops.KNOWN)
        length = Code(INT, ((ops.CONSTANT, len(b.expressions)),))
        code = count.and_with(length, TRUTH, (ops.COMPARE_WORDS, 0))
        for k, each in enumerate(b.expressions):
            value = self._registers.nth(RowRef(look.rows, last=False, offset=k), column)
            code = code.and_with(self._compare(value, self.code(each), 0, a), TRUTH, (ops.AND, 0))
        return code

    def _value(self, total: Total, variable: str) -> Column:
        """The argument of an aggregate, at rows of a variable."""
        return row_column(Access(RowRef(total.rows), total.arguments[0]), variable, self._rows)

    def _compared(self, node: exp.Expr) -> Code:
        if type(node) in (exp.EQ, exp.NEQ):
            listed = self._listed(node.this, node.expression) or self._listed(node.expression, node.this)
            if listed is not None:
                return listed if isinstance(node, exp.EQ) else listed.then((ops.NOT, 0))
        return self._compare(self.code(node.this), self.code(node.expression), _OPERATORS[type(node)], node)

    def _compare(self, a: Code, b: Code, operator: int, node: exp.Expr) -> Code:
        a, b = self._in_days(a, b)
        if a.kind.is_exact and b.kind.is_exact:
            digits = max(a.kind.scale, b.kind.scale)
            return _scaled(a, digits).and_with(_scaled(b, digits), TRUTH, (ops.COMPARE_WORDS, operator))
        if {a.kind.name, b.kind.name} == {DECIMAL, FLOAT.name}:
            a, b = _as_float(a), _as_float(b)
        if a.kind == FLOAT and b.kind == INT:
            a, b, operator = b, a, _MIRRORED[operator]
        if a.kind == INT and b.kind == FLOAT:
            return a.and_with(b, TRUTH, (ops.COMPARE_INT_FLOAT, operator))
        if a.kind != b.kind:
            message = f"{a.kind.name} and {b.kind.name} are compared"
            raise Refused(message, self._place(node), "Use CAST.")
        step = ops.COMPARE_FLOATS if a.kind == FLOAT else ops.COMPARE_WORDS
        return a.and_with(b, TRUTH, (step, operator))

    def _calculated(self, node: exp.Expr) -> Code:
        a, b = self._in_days(self.code(node.this), self.code(node.expression))
        timed = _TIMED.get((type(node), a.kind, b.kind))
        if timed is not None:
            return a.and_with(b, timed, (_INTS[type(node)], 0))
        if not all(each.kind == FLOAT or each.kind.is_exact for each in (a, b)):
            raise self._refused(node)
        if isinstance(node, exp.Mul) and a.kind.is_exact and b.kind.is_exact:
            return a.and_with(b, _exact(a.kind.scale + b.kind.scale), (ops.MULTIPLY_INT, 0))
        if isinstance(node, exp.Add | exp.Sub) and a.kind.is_exact and b.kind.is_exact:
            digits = max(a.kind.scale, b.kind.scale)
            return _scaled(a, digits).and_with(_scaled(b, digits), _exact(digits), (_INTS[type(node)], 0))
        if a.kind == b.kind == INT and type(node) in _INTS:
            return a.and_with(b, INT, (_INTS[type(node)], 0))
        if a.kind == b.kind == INT and node.args.get("typed"):
            return a.and_with(b, INT, (ops.DIVIDE_INT, 0))
        return _as_float(a).and_with(_as_float(b), FLOAT, (_FLOATS[type(node)], 0))

    def _in_days(self, a: Code, b: Code) -> tuple[Code, Code]:
        """In Oracle's dialect a difference of dates beside a number is in days, and so is a number beside a date."""
        if not self._rows.in_days:
            return a, b
        return _as_days(a, b.kind), _as_days(b, a.kind)


def _exact(digits: int) -> Kind:
    """A number with so many digits behind the point."""
    return Kind(DECIMAL, digits) if digits else INT


def _scaled(code: Code, digits: int) -> Code:
    """A number with so many digits behind the point."""
    more = digits - code.kind.scale
    return code.then((ops.CONSTANT, 10**more), (ops.MULTIPLY_INT, 0), kind=_exact(digits)) if more else code


def _as_days(code: Code, other: Kind) -> Code:
    if code.kind == SPAN and other in (INT, FLOAT):
        day = sort_keys.encode(pa.array([86400.0]), "a day")[0]
        return code.then((ops.UNSCALE, 9), (ops.CONSTANT, int(day)), (ops.DIVIDE_FLOAT, 0), kind=FLOAT)
    if code.kind == INT and other == TIME:
        return code.then((ops.CONSTANT, 86400 * 10**9), (ops.MULTIPLY_INT, 0), kind=SPAN)
    return code


def _as_float(code: Code) -> Code:
    if code.kind == FLOAT:
        return code
    step = (ops.TO_FLOAT, 0) if code.kind == INT else (ops.UNSCALE, code.kind.scale)
    return code.then(step, kind=FLOAT)
