"""The SQL of DEFINE and MEASURES to conditions and expressions of CEQL, where they mean the same.

Conditions come in negation normal form: NOT is moved to the comparisons, which is right in three-valued logic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal as OneOf

from sqlglot import exp

from ceql.errors import Span, did_you_mean
from ceql.row_patterns.as_query.sql import span_of, written
from ceql.row_patterns.dialects import Dialect
from ceql.row_patterns.problem import Problems, Refused
from ceql.syntax import tree
from ceql.syntax.durations import NANOSECONDS

End = OneOf["first", "last"]
# the name of the variable that is bound to the first or last row of a variable of the pattern
Resolve = Callable[[str, End, Span | None], str]

_COMPARISONS: dict[type, str] = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_FUNCTIONS: dict[type, str] = {
    exp.Abs: "ABS", exp.Floor: "FLOOR", exp.Ceil: "CEIL", exp.Lower: "LOWER", exp.Upper: "UPPER", exp.Length: "LENGTH",
    exp.Year: "YEAR", exp.Month: "MONTH", exp.Day: "DAY",
}  # fmt: skip
AGGREGATES: dict[type, str] = {exp.Count: "COUNT", exp.Sum: "SUM", exp.Avg: "AVG", exp.Min: "MIN", exp.Max: "MAX"}


def refuse(node: exp.Expr, why: str, advice: str | None = None) -> Refused:
    return Refused(f"{why}: {written(node)}", span_of(node), advice)


@dataclass(frozen=True)
class Labels:
    """The variables of PATTERN, and the dialect that says which names mean them."""

    known: list[str]
    dialect: Dialect

    def find(self, name: exp.Expr) -> str | None:
        """The variable that a name means, if PATTERN has it."""
        label = self.dialect.label(name.name, bool(name.args.get("quoted")))
        return label if label in self.known else None


class Reader:
    """Reads the expressions of one DEFINE: `own` is its variable, whose columns are those of the current row.

    What is refused is noted among the problems, and something without a meaning stands for it.
    """

    def __init__(self, own: str | None, labels: Labels, resolve: Resolve, problems: Problems):
        self._own = own
        self._labels = labels
        self._resolve = resolve
        self._problems = problems
        self._in_prev = False

    def condition(self, node: exp.Expr, negated: bool = False) -> tree.Condition:
        with self._problems.noted():
            return self._condition(node, negated)
        return tree.IsNull(tree.Literal(False))

    def value(self, node: exp.Expr) -> tree.Expression:
        with self._problems.noted():
            return self._value(node)
        return tree.Literal(False)

    def _condition(self, node: exp.Expr, negated: bool) -> tree.Condition:
        match node:
            case exp.Paren():
                return self.condition(node.this, negated)
            case exp.Not():
                return self.condition(node.this, not negated)
            case exp.And() | exp.Or():
                kind = tree.Conj if isinstance(node, exp.And) != negated else tree.Disj
                items: list[tree.Condition] = []
                for part in (node.this, node.expression):
                    found = self.condition(part, negated)
                    items += found.items if isinstance(found, kind) else [found]
                return kind(tuple(items))
            case exp.Between():
                ends = self.value(node.args["low"]), self.value(node.args["high"])
                return tree.Between(self.value(node.this), *ends, negated)
            case exp.In() if node.expressions and not node.args.get("query"):
                literals = tuple(self._literal(item) for item in node.expressions)
                return tree.In(self.value(node.this), literals, negated)
            case exp.Like() if isinstance(node.expression, exp.Literal) and node.expression.is_string:
                return tree.Like(self.value(node.this), node.expression.name, False, negated)
            case exp.Is() if isinstance(node.expression, exp.Null):
                return tree.IsNull(self.value(node.this), negated)
            case exp.Column():
                return tree.Comparison("=", self.value(node), tree.Literal(not negated))
            case exp.Expr() if type(node) in _COMPARISONS:
                op = _COMPARISONS[type(node)]
                return tree.Comparison(
                    tree.NEGATED[op] if negated else op, self.value(node.this), self.value(node.expression)
                )
        raise refuse(node, "this condition is not translated")

    def _value(self, node: exp.Expr) -> tree.Expression:
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal() | exp.Boolean():
                return self._literal(node)
            case exp.Neg():
                if isinstance(node.this, exp.Literal):
                    return self._literal(node)
                return tree.Minus(self.value(node.this))
            case exp.Interval():
                return tree.Duration(nanoseconds(node))
            case exp.Cast() if isinstance(node.this, exp.Literal) and node.to.is_type(
                "timestamp", "date", "timestamptz"
            ):
                return self._literal(node.this)  # TIMESTAMP '2024-01-01 00:00:00'
            case exp.Div():
                if not any(isinstance(part, exp.Literal) and "." in part.name for part in (node.this, node.expression)):
                    raise refuse(
                        node,
                        "SQL divides whole numbers without a remainder, CEQL as floats",
                        "Multiply instead, or divide by a number with a point: x / 2.0.",
                    )
                return tree.Arithmetic("/", self.value(node.this), self.value(node.expression))
            case exp.Coalesce():
                return tree.Call("COALESCE", tuple(map(self.value, (node.this, *node.expressions))))
            case exp.First() | exp.Last():
                return self._end(node)
            case exp.Anonymous() if node.name.upper() == "PREV":
                return self._prev(node)
            case exp.Anonymous() if node.name.upper() == "NEXT":
                raise refuse(
                    node, "NEXT looks at a row after the current one", "Add a variable for that row to PATTERN."
                )
            case exp.Expr() if type(node) in _ARITHMETIC:
                return tree.Arithmetic(_ARITHMETIC[type(node)], self.value(node.this), self.value(node.expression))
            case exp.Expr() if type(node) in _FUNCTIONS:
                return tree.Call(_FUNCTIONS[type(node)], (self.value(node.this),))
            case exp.Expr() if type(node) in AGGREGATES:
                return self._aggregate(node)
        raise refuse(node, "this expression is not translated")

    def variable(self, column: exp.Column) -> str | None:
        """The variable that a column is qualified with."""
        if not column.table:
            return None
        name = self._labels.find(column.args["table"])
        if name is None:
            known = did_you_mean(column.table, self._labels.known)
            raise Refused(f"PATTERN has no variable '{column.table}'", span_of(column), known)
        return name

    def _literal(self, node: exp.Expr) -> tree.Literal:
        match node:
            case exp.Literal():
                if node.is_string:
                    return tree.Literal(node.name)
                return tree.Literal(int(node.name) if node.name.isdecimal() else Decimal(node.name))
            case exp.Neg():
                inner = self._literal(node.this).value
                if isinstance(inner, int | Decimal):
                    return tree.Literal(-inner)
            case exp.Boolean():
                return tree.Literal(bool(node.this))
        raise refuse(node, "a literal is expected here")

    def _column(self, node: exp.Column) -> tree.Expression:
        variable = self.variable(node)
        if variable in (None, self._own):
            return tree.Prev(node.name) if self._in_prev else tree.Attribute(node.name)
        if self._in_prev:
            raise refuse(node, "PREV of a row of another variable is not translated")
        assert variable is not None
        return tree.Ref(self._resolve(variable, "last", span_of(node)), node.name)

    def _prev(self, node: exp.Anonymous) -> tree.Expression:
        operand, *offset = node.expressions
        if offset and offset[0].name != "1":
            raise refuse(node, "only the row right before is translated", "Add a variable for the row to PATTERN.")
        if self._in_prev:
            raise refuse(node, "PREV inside PREV is not translated")
        self._in_prev = True
        try:
            return self.value(operand)
        finally:
            self._in_prev = False

    def _end(self, node: exp.First | exp.Last) -> tree.Expression:
        variable, column = self._row_of(node)
        last = isinstance(node, exp.Last)
        if variable in (None, self._own):
            if last and not self._in_prev:
                return tree.Attribute(column.name)
            raise refuse(
                node, "the first row of the variable itself is not translated", "Give the first row a variable."
            )
        if self._in_prev:
            raise refuse(node, "PREV of a row of another variable is not translated")
        assert variable is not None
        return tree.Ref(self._resolve(variable, "last" if last else "first", span_of(node)), column.name)

    def _row_of(self, node: exp.First | exp.Last) -> tuple[str | None, exp.Column]:
        """The variable and the column of FIRST(x.a) or LAST(x.a)."""
        offset = node.args.get("expression")
        if offset is not None and offset.name != "0":
            raise refuse(node, "an offset into the rows of a variable is not translated")
        column = node.this
        if not isinstance(column, exp.Column):
            raise refuse(node, "FIRST and LAST take a column")
        return self.variable(column), column

    def _aggregate(self, node: exp.Expr) -> tree.Expression:
        raise refuse(
            node,
            "DEFINE compares with an aggregate of the rows so far",
            "In CEQL, FILTER takes aggregates of all rows of a variable; MEASURES may have them too.",
        )


def nanoseconds(node: exp.Expr) -> int:
    """The length of an interval: INTERVAL '90' SECOND."""
    unit = node.args.get("unit")
    word = "" if unit is None else unit.name.upper().removesuffix("S")
    try:
        number = Fraction(node.this.name)
    except (ValueError, ZeroDivisionError):
        number = None
    if number is None or word not in NANOSECONDS or (number * NANOSECONDS[word]).denominator != 1:
        raise refuse(
            node, "this interval is not translated", "Write INTERVAL '90' SECOND: one number, one unit up to DAY."
        )
    return int(number * NANOSECONDS[word])
