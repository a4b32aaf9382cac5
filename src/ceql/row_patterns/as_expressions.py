"""The expressions of DEFINE and MEASURES in the words of CEQL, where it has them and means the same by them.

Conditions come in negation normal form: NOT is moved to the comparisons, which is right in three-valued logic.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from ceql.row_patterns import navigation
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.conditions import is_of_row
from ceql.row_patterns.expressions import interval
from ceql.row_patterns.navigation import Access, Look, Reading, Total
from ceql.row_patterns.problem import Problems, Refused
from ceql.syntax import tree
from ceql.syntax.walking import below, leaves

if TYPE_CHECKING:
    from ceql.row_patterns.as_query import Translation

_COMPARISONS: dict[type, str] = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_FUNCTIONS: dict[type, str] = {
    exp.Abs: "ABS", exp.Floor: "FLOOR", exp.Ceil: "CEIL", exp.Lower: "LOWER", exp.Upper: "UPPER", exp.Length: "LENGTH",
    exp.Year: "YEAR", exp.Month: "MONTH", exp.Day: "DAY",
}  # fmt: skip
_AGGREGATES: dict[type, str] = {exp.Count: "COUNT", exp.Sum: "SUM", exp.Avg: "AVG", exp.Min: "MIN", exp.Max: "MAX"}


class _Words:
    """Says the expressions of one reading. What cannot be said is noted, and something meaningless stands for it."""

    def __init__(self, translation: Translation, reading: Reading, problems: Problems):
        self._translation = translation
        self._reading = reading
        self._problems = problems

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
            case exp.In() if node.expressions:
                return tree.In(self.value(node.this), tuple(map(self._literal, node.expressions)), negated)
            case exp.Like() if isinstance(node.expression, exp.Literal) and node.expression.is_string:
                return tree.Like(self.value(node.this), node.expression.name, False, negated)
            case exp.Is() if isinstance(node.expression, exp.Null):
                return tree.IsNull(self.value(node.this), negated)
            case exp.Placeholder():
                return tree.Comparison("=", self.value(node), tree.Literal(not negated))
            case exp.Expr() if type(node) in _COMPARISONS:
                op = _COMPARISONS[type(node)]
                return tree.Comparison(
                    tree.NEGATED[op] if negated else op, self.value(node.this), self.value(node.expression)
                )
        raise _refused(node)

    def _value(self, node: exp.Expr) -> tree.Expression:
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Placeholder():
                return self._placed(self._reading.looks[int(node.name)], node)
            case exp.Literal() | exp.Boolean():
                return self._literal(node)
            case exp.Neg():
                literal = isinstance(node.this, exp.Literal)
                return self._literal(node) if literal else tree.Minus(self.value(node.this))
            case exp.Interval():
                return tree.Duration(1000 * interval(node))
            case exp.Cast() if isinstance(node.this, exp.Literal) and node.to.is_type(
                "timestamp", "date", "timestamptz"
            ):
                return self._literal(node.this)  # TIMESTAMP '2024-01-01 00:00:00'
            case exp.Div():
                if not any(isinstance(part, exp.Literal) and "." in part.name for part in (node.this, node.expression)):
                    advice = "Multiply instead, or divide by a number with a point: x / 2.0."
                    message = "SQL divides whole numbers without a remainder, CEQL as floats"
                    raise Refused(message, span_of(node), advice)
                return tree.Arithmetic("/", self.value(node.this), self.value(node.expression))
            case exp.Coalesce():
                return tree.Call("COALESCE", tuple(map(self.value, (node.this, *node.expressions))))
        if type(node) in _ARITHMETIC:
            return tree.Arithmetic(_ARITHMETIC[type(node)], self.value(node.this), self.value(node.expression))
        if type(node) in _FUNCTIONS:
            return tree.Call(_FUNCTIONS[type(node)], (self.value(node.this),))
        raise _refused(node)

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
        raise _refused(node)

    def _placed(self, look: Look, node: exp.Expr) -> tree.Expression:
        """What a look sees; what is refused stands at its place."""
        try:
            return self._look(look)
        except Refused as problem:
            raise Refused(problem.message, problem.span or span_of(node), problem.advice) from None

    def _look(self, look: Look) -> tree.Expression:
        raise NotImplementedError

    def _over(self, of_row: exp.Expr, column: Callable[[str], tree.Expression]) -> tree.Expression:
        """An expression over the columns of one row."""
        return _RowWords(self._translation, self._reading, self._problems, column).value(of_row)


class _RowWords(_Words):
    """Says an expression over one row; `column` says a column of it."""

    def __init__(
        self,
        translation: Translation,
        reading: Reading,
        problems: Problems,
        column: Callable[[str], tree.Expression],
    ):
        super().__init__(translation, reading, problems)
        self._column = column

    def value(self, node: exp.Expr) -> tree.Expression:
        return self._value(node)  # the look knows the place of what is refused

    def _value(self, node: exp.Expr) -> tree.Expression:
        if isinstance(node, exp.Column):
            return self._column(node.name)
        if isinstance(node, exp.Placeholder):
            name = node.name.partition(" ")[0]
            told = {navigation.CLASSIFIER: "CLASSIFIER()", navigation.OVER: "a window function"}
            raise Refused(f"{told.get(name, 'MATCH_NUMBER()')} has no plain form", span_of(node))
        return super()._value(node)


class ConditionWords(_Words):
    """Says the condition of a variable, `own`."""

    def __init__(self, translation: Translation, reading: Reading, own: str, problems: Problems):
        super().__init__(translation, reading, problems)
        self._own = own

    def _look(self, look: Look) -> tree.Expression:
        if isinstance(look, Total):
            message = "DEFINE asks for an aggregate of the rows so far, FILTER for one of all rows of a variable"
            raise Refused(message, span_of(look.node))
        if not isinstance(look, Access):
            raise Refused("MATCH_NUMBER() has no plain form", None)
        row, own = look.row, self._own
        if row.shift > 0 or row.shift < -1 or (row.shift and not is_of_row(look, own)):
            which = "a row after it" if row.shift > 0 else "another row than the one right before it"
            raise Refused(f"the condition of '{own}' looks at {which}", None, "Add a variable for that row to PATTERN.")
        if is_of_row(look, own):
            if row.shift and self._translation.may_begin(own):
                advice = "Begin PATTERN with a variable for that row. It then belongs to the match."
                raise Refused(f"'{own}' may begin a match, and PREV looks at the row before the match", None, advice)
            return self._over(look.tree, tree.Prev if row.shift else tree.Attribute)
        if row.offset:
            raise Refused("an offset into the rows of a variable has no plain form in DEFINE", None)
        variable = self._translation.edge(row.rows, row.last)
        if variable != own and not self._translation.is_before(variable, own):
            advice = f"Make '{variable}' obligatory, and let it come before '{own}'."
            raise Refused(f"a match may have no row of '{variable}' before '{own}'", None, advice)
        name = self._translation.end(variable, row.last)
        return self._over(look.tree, lambda column: tree.Ref(name, column))


class MeasureWords(_Words):
    """Says a measure."""

    def _look(self, look: Look) -> tree.Expression:
        if isinstance(look, Total):
            return self._total(look)
        if not isinstance(look, Access):
            raise Refused("MATCH_NUMBER() has no plain form", None, "Number the rows of the result.")
        row, known = look.row, self._translation
        self._check_final(row.final)
        if row.shift:
            raise Refused("PREV and NEXT have no plain form in MEASURES", None, "Give that row a variable of its own.")
        if row.offset and row.rows is None:
            raise Refused("an offset into all rows of a match has no plain form", None, "Name a variable.")

        def column(name: str) -> tree.Expression:
            word = "LAST" if row.last else "FIRST"
            if row.rows is None and not row.offset and name in known.keys:
                return tree.Aggregate("FIRST", known.rows(None), tree.Ref(known.rows(None), name))
            variable = known.edge(row.rows, row.last)
            if known.is_single(variable) and not row.offset:
                return tree.Ref(variable, name)
            if known.is_known(variable, name):
                return tree.Aggregate(word, variable, tree.Ref(variable, name), number=row.offset or None)
            if row.offset or known.places[variable] is None:
                advice = f"Add {variable}.{name} IS NOT NULL to DEFINE."
                raise Refused(
                    f"'{name}' may be NULL in a row of '{variable}', and CEQL would take another", None, advice
                )
            return tree.Ref(known.end(variable, row.last), name)

        return self._over(look.tree, column)

    def _total(self, total: Total) -> tree.Expression:
        self._check_final(total.final)
        rows = self._translation.rows(total.rows)
        name = _AGGREGATES.get(total.function)
        if name is None or (total.distinct and name != "COUNT") or len(total.arguments) > 1:
            raise _refused(total.node)
        if not total.arguments:
            return tree.Aggregate("COUNT", rows)
        if total.whole and name == "AVG":
            raise Refused("AVG of whole numbers is whole here, and a float in CEQL", None)
        value = self._over(total.arguments[0], lambda column: tree.Ref(rows, column))
        return tree.Aggregate(name, rows, value, total.distinct)

    def _check_final(self, final: bool) -> None:
        if self._translation.clause.all_rows and not final:
            message = "measures of ALL ROWS PER MATCH are those of the rows so far"
            raise Refused(message, None, "Write FINAL before FIRST, LAST or the aggregate, or ONE ROW PER MATCH.")


def _refused(node: exp.Expr) -> Refused:
    name = str(node.this) if isinstance(node, exp.Anonymous) else node.key.upper()
    return Refused(f"{name} has no plain form", span_of(node))


def never_null(condition: tree.Condition | None) -> set[tree.Expression]:
    """The attributes of events that are not NULL where the condition holds."""
    match condition:
        case None:
            return set()
        case tree.Conj(items):
            return set[tree.Expression]().union(*map(never_null, items))
        case tree.Disj(items):
            return set.intersection(*map(never_null, items))
        case tree.IsNull(_, False):
            return set()
    strict = [operand for operand in below(condition) if not _has_call(operand)]
    return {leaf for operand in strict for leaf in leaves(operand)}


def _has_call(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Call) or any(map(_has_call, below(expression)))
