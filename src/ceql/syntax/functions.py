"""The functions of values: their names, and how many arguments each takes."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeGuard

from ceql.errors import Span, did_you_mean
from ceql.syntax import tree
from ceql.syntax.limits import QueryProblem
from ceql.syntax.walking import nodes

# the least and the most arguments; None: any number
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "ABS": (1, 1),
    "ROUND": (1, 2),
    "FLOOR": (1, 1),
    "CEIL": (1, 1),
    "LEAST": (2, None),
    "GREATEST": (2, None),
    "COALESCE": (1, None),
    "LOWER": (1, 1),
    "UPPER": (1, 1),
    "LENGTH": (1, 1),
    "SUBSTRING": (2, 3),
    "CONCAT": (1, None),
    "YEAR": (1, 1),
    "MONTH": (1, 1),
    "DAY": (1, 1),
    "HOUR": (1, 1),
    "MINUTE": (1, 1),
    "DAYOFWEEK": (1, 1),
}
_OTHER_NAMES = {
    "CEILING": "CEIL", "SUBSTR": "SUBSTRING", "LEN": "LENGTH", "CHAR_LENGTH": "LENGTH", "LCASE": "LOWER",
    "UCASE": "UPPER", "NVL": "COALESCE", "IFNULL": "COALESCE", "DAYOFMONTH": "DAY", "TRUNC": "FLOOR", "MEAN": "AVG",
    "STD": "STDDEV", "STDDEV_SAMP": "STDDEV", "VAR": "VARIANCE", "VAR_SAMP": "VARIANCE", "QUANTILE": "PERCENTILE",
    "PERCENTILE_CONT": "PERCENTILE",
}  # fmt: skip
AGGREGATES = (
    "COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST", "STDDEV", "VARIANCE", "MEDIAN", "PERCENTILE",
)  # fmt: skip
_MOST_AFTER = 2**31 - 1  # the n of FIRST(e, n)
_PREVIOUS = ("PREV", "LAG", "PREVIOUS")


def function_call(
    name: str, arguments: tuple[tree.Expression, ...], span: Span, distinct: bool = False
) -> tree.Call | tree.Aggregate:
    """The call of a function; `QueryProblem` if there is no such function, or it takes other arguments."""
    function = name.upper()
    if function in _PREVIOUS:
        match arguments[:1]:
            case (tree.Attribute(attribute) | tree.Ref(_, attribute),):
                hint = f"Write PREV.{attribute} for the value of the event before this one in the match."
            case _:
                hint = "Write PREV.price for the value of the event before this one in the match."
        raise QueryProblem(f"{function} is no function", span, hint)
    if distinct and function != "COUNT":
        raise QueryProblem(f"{function} cannot take DISTINCT", span, _without_distinct(function))
    if function in AGGREGATES:
        return _aggregate(function, arguments, span, distinct)
    if function not in FUNCTIONS:
        other = _OTHER_NAMES.get(function)
        near = f"Did you mean '{other}'?" if other else did_you_mean(function, [*FUNCTIONS, *AGGREGATES])
        place = Span(span.start, span.start + len(name))
        raise QueryProblem(
            f"There is no function '{name}'", place, near or f"The functions are {', '.join(FUNCTIONS)}."
        )
    least, most = FUNCTIONS[function]
    if len(arguments) < least or (most is not None and len(arguments) > most):
        wanted = f"{least}" if most == least else f"at least {least}" if most is None else f"{least} to {most}"
        raise QueryProblem(f"{function} takes {wanted} argument{'s' * (wanted != '1')}, not {len(arguments)}", span)
    if function == "ROUND" and len(arguments) > 1:
        digits = arguments[1]
        if not isinstance(digits, tree.Literal) or type(digits.value) is not int or abs(digits.value) > 100:
            raise QueryProblem("The digits that ROUND keeps are a whole number from -100 to 100", digits.span or span)
    return tree.Call(function, arguments, span=span)


def _without_distinct(function: str) -> str:
    if function in ("MIN", "MAX"):
        return f"Leave it out: {function} is the same with it."
    return "COUNT(DISTINCT x.a) counts the different values of x.a; no other function takes DISTINCT."


def _aggregate(
    function: str, arguments: tuple[tree.Expression, ...], span: Span, distinct: bool = False
) -> tree.Aggregate:
    """An aggregate over the events of one variable."""
    operand, number = _with_number(function, arguments, span)
    if isinstance(operand, tree.Attribute):
        if function != "COUNT" or distinct:
            each = "DISTINCT " if distinct else ""
            more = "" if number is None else f", {number}"
            raise QueryProblem(
                f"{function}{'(DISTINCT)' * distinct} needs an attribute of '{operand.name}'",
                operand.span or span,
                f"Write {function}({each}{operand.name}.price{more}), with your attribute in place of price.",
            )
        return tree.Aggregate("COUNT", operand.name, span=span)
    names: dict[str, None] = {}
    for node in nodes(operand):
        match node:
            case tree.Ref(variable):
                names[variable] = None
            case tree.Aggregate() | tree.Prev() | tree.Attribute() | tree.Lapse():
                what = "an attribute without its variable" if isinstance(node, tree.Attribute) else "this"
                raise QueryProblem(f"{function} cannot take {what}", node.span or span)
    if len(names) != 1:
        raise QueryProblem(
            f"{function} is over the events of one variable, not of {' and '.join(names) or 'none'}",
            operand.span or span,
            "Write the aggregates of several variables apart: SUM(x.a) + SUM(y.a).",
        )
    return tree.Aggregate(function, next(iter(names)), operand, distinct, number, span=span)


def _with_number(
    function: str, arguments: tuple[tree.Expression, ...], span: Span
) -> tuple[tree.Expression, int | Decimal | None]:
    """What an aggregate is over, and the number that stands beside it."""
    if function == "PERCENTILE":
        if len(arguments) != 2:
            wanted = "Write PERCENTILE(x.a, 0.9): nine tenths of the values are not above it."
            raise QueryProblem(f"PERCENTILE takes 2 arguments, not {len(arguments)}", span, wanted)
        operand, share = arguments
        value = share.value if isinstance(share, tree.Literal) else None
        if isinstance(value, bool | str | None) or not 0 <= value <= 1:
            hint = f"Write {value / 100} for {value} per cent." if _is_per_cent(value) else "Write 0.5 for the median."
            raise QueryProblem("The share that PERCENTILE takes is a number from 0 to 1", share.span or span, hint)
        return operand, value
    if function not in ("FIRST", "LAST") or len(arguments) != 2:
        if len(arguments) != 1:
            wanted = "1 or 2 arguments" if function in ("FIRST", "LAST") else "1 argument"
            raise QueryProblem(f"{function} takes {wanted}, not {len(arguments)}", span)
        return arguments[0], None
    operand, further = arguments
    value = further.value if isinstance(further, tree.Literal) else None
    if type(value) is not int or not 0 <= value <= _MOST_AFTER:
        raise QueryProblem(
            f"{function} takes a value and a whole number, which is not negative",
            further.span or span,
            f"{function}(x.a, 1) is the value next to {function}(x.a), {function}(x.a, 2) the one beyond.",
        )
    return operand, value or None


def _is_per_cent(value: object) -> TypeGuard[int | Decimal]:
    return isinstance(value, int | Decimal) and not isinstance(value, bool) and 1 < value <= 100


def count_of_matches(name: str, span: Span) -> tree.Aggregate:
    """COUNT(*), which is over the matches themselves; `QueryProblem` if it is another function."""
    if name.upper() != "COUNT":
        raise QueryProblem(
            f"{name.upper()} needs an attribute, not *", span, f"Write {name.upper()}(x.price), or COUNT(*)."
        )
    return tree.Aggregate("COUNT", tree.EVERY_MATCH, span=span)


def without_aggregates(root: object, where: str) -> None:
    """Refuse aggregates in a condition."""
    for node in nodes(root):
        if isinstance(node, tree.Aggregate):
            raise QueryProblem(
                f"{node.function} cannot stand {where}",
                node.span or Span(0, 0),
                f"Aggregates speak of all events of a variable: FILTER {node.function}({node.variable}.price) > 5.",
            )
