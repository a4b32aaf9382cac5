"""Tree to text.

In: any tree that the parser can make. Out: text that parses to the same tree. Keywords are in upper case, each clause
has a line, and there are no more parentheses than docs/reference.md, section 2 asks for.
"""

from __future__ import annotations

from decimal import Decimal

from ceql.syntax import tree
from ceql.syntax.durations import print_duration
from ceql.syntax.parser import plain_name

# How tightly a construct binds. A part that binds less tightly than its place requires gets parentheses.
LOOSE, OR, ALL_AND, THEN_NOT, POSTFIX, ATOM = range(6)
SUM, PRODUCT, UNARY, LEAF = range(4)

# These are keywords after SELECT, and names everywhere else.
_SELECT_WORDS = {"DISTINCT", "NONE", *tree.Strategy.__members__}


def print_query(query: tree.Query) -> str:
    """The query, each clause on a line.

    >>> from ceql.syntax.parser import parse
    >>> print(print_query(parse("select * from S where (A;B) filter A[p>1] within 90 seconds")))
    SELECT *
    FROM S
    WHERE A ; B
      FILTER A[p > 1]
    WITHIN 90 SECONDS
    """
    filters: list[str] = []
    formula = query.formula
    while isinstance(formula, tree.Filter):
        filters.insert(0, f"  FILTER {print_condition(formula.condition)}")
        formula = formula.formula
    lines = [_select(query)]
    if query.streams:
        lines.append(f"FROM {', '.join(map(print_name, query.streams))}")
    lines += [f"WHERE {_formula(formula, OR if filters else LOOSE)}", *filters]
    if query.partition:
        lines.append(f"PARTITION BY {_parts(query.partition)}")
    if query.window is not None:
        lines.append(f"WITHIN {print_window(query.window)}")
    if query.consume is not tree.Consume.NONE:
        lines.append(f"CONSUME BY {query.consume.value}")
    if query.limit is not None:
        lines.append(f"LIMIT {query.limit}")
    if query.after_match is not None:
        lines.append(f"AFTER MATCH SKIP {_skip(query.after_match)}")
    return "\n".join(lines)


def print_formula(formula: tree.Formula) -> str:
    return _formula(formula, LOOSE)


def print_condition(condition: tree.Condition) -> str:
    return _condition(condition, OR)


def print_expression(expression: tree.Expression) -> str:
    return _expression(expression, SUM)


def print_name(name: str) -> str:
    """The name; in backticks if the grammar would not read it as a name."""
    return name if plain_name().fullmatch(name) else _backticks(name)


def _backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _select(query: tree.Query) -> str:
    words = ["SELECT"]
    if query.distinct:
        words.append("DISTINCT")
    if query.strategy is not None:
        words.append(query.strategy.value)
    if query.items is None:
        words.append("*")
    else:
        words.append(", ".join([*map(_item, query.items), *map(_measure, query.measures)]) or "NONE")
    return " ".join(words)


def _item(item: tree.SelectItem) -> str:
    name = _backticks(item.name) if item.name.upper() in _SELECT_WORDS else print_name(item.name)
    return f"{name}[{', '.join(map(print_name, item.attributes))}]" if item.attributes else name


def _measure(measure: tree.Measure) -> str:
    text = print_expression(measure.expression)
    return text if measure.name is None else f"{text} AS {print_name(measure.name)}"


def _skip(after: tree.AfterMatch) -> str:
    return after.skip.value if after.variable is None else f"{after.skip.value} {print_name(after.variable)}"


def _parts(parts: tuple[tree.Part, ...]) -> str:
    return ", ".join(f"[{', '.join(map(_part_ref, part.refs))}]" for part in parts)


def _part_ref(ref: tree.PartRef) -> str:
    attribute = print_name(ref.attribute)
    return attribute if ref.name is None else f"{print_name(ref.name)}.{attribute}"


def print_window(window: tree.Window) -> str:
    """What stands after WITHIN."""
    match window:
        case tree.EventsWindow(count):
            return f"{count} EVENT{'S' * (count != 1)}"
        case tree.AttributeWindow(size, attribute):
            return f"{size} [{print_name(attribute)}]"
        case tree.TimeWindow(nanoseconds):
            return print_duration(nanoseconds)


def _formula(formula: tree.Formula, place: int) -> str:
    text, strength = _bare_formula(formula)
    return text if strength >= place else f"({text})"


def _bare_formula(formula: tree.Formula) -> tuple[str, int]:
    match formula:
        case tree.Event(kind, stream):
            return (print_name(kind) if stream is None else f"{print_name(stream)}>{print_name(kind)}"), ATOM
        case tree.As(inner, variable):
            return f"{_formula(inner, POSTFIX)} AS {print_name(variable)}", POSTFIX
        case tree.Plus(inner, joint, reluctant):
            return _counted(inner, print_count(1, None, joint, reluctant)), POSTFIX
        case tree.Count(inner, least, most, joint, reluctant):
            return _counted(inner, print_count(least, most, joint, reluctant)), POSTFIX
        case tree.Then(items, joints):
            text = _formula(items[0], POSTFIX)
            for item, joint in zip(items[1:], joints, strict=True):
                text += f" {joint.value} {_formula(item, POSTFIX)}"
            return text, THEN_NOT
        case tree.Not(inner, variable):
            named = "" if variable is None else f" AS {print_name(variable)}"
            return f"NOT {_formula(inner, ATOM)}{named}", POSTFIX
        case tree.All(items):
            return " ALL ".join([_formula(item, THEN_NOT) for item in items]), ALL_AND
        case tree.Or(items):
            return " OR ".join([_formula(item, ALL_AND) for item in items]), OR
        case tree.Filter(inner, condition):
            return f"{_formula(inner, LOOSE)} FILTER {_condition(condition, OR)}", LOOSE
        case tree.PartitionBy(inner, parts):
            # the parentheses belong to the operator
            return f"({_formula(inner, LOOSE)} PARTITION BY {_parts(parts)})", ATOM
        case tree.Within(inner, window):
            return f"({_formula(inner, LOOSE)} WITHIN {print_window(window)})", ATOM


def _counted(inner: tree.Formula, count: str) -> str:
    """A count of a formula; `?` right after another count would make that one reluctant."""
    return _formula(inner, ATOM if count.startswith("?") and _ends_in_count(inner) else POSTFIX) + count


def _ends_in_count(formula: tree.Formula) -> bool:
    return isinstance(formula, tree.Plus | tree.Count) and not formula.reluctant


def print_count(least: int, most: int | None, joint: tree.Joint = tree.Joint.THEN, reluctant: bool = False) -> str:
    """How often something comes.

    >>> print_count(0, None, tree.Joint.TOUCH), print_count(0, 1), print_count(2, 2), print_count(0, 3, reluctant=True)
    (':*', '?', '{2}', '{,3}?')
    """
    sign, mark = "" if joint is tree.Joint.THEN else joint.value, "?" * reluctant
    match least, most:
        case 0, None:
            return f"{sign}*{mark}"
        case 1, None:
            return f"{sign}+{mark}"
        case 0, 1 if not sign:
            return f"?{mark}"
        case _, None:
            return f"{sign}{{{least},}}{mark}"
        case _ if least == most:
            return f"{sign}{{{least}}}{mark}"
        case _:
            return f"{sign}{{{least or ''},{most}}}{mark}"


def _condition(condition: tree.Condition, place: int) -> str:
    text, strength = _bare_condition(condition)
    return text if strength >= place else f"({text})"


def _bare_condition(condition: tree.Condition) -> tuple[str, int]:
    match condition:
        case tree.Disj(items):
            return " OR ".join([_condition(item, ALL_AND) for item in items]), OR
        case tree.Conj(items):
            return " AND ".join([_condition(item, THEN_NOT) for item in items]), ALL_AND
        case tree.Neg(item):
            return f"NOT {_condition(item, THEN_NOT)}", THEN_NOT
        case tree.Bracket(name, predicate):
            return f"{print_name(name)}[{print_condition(predicate)}]", ATOM
        case tree.Comparison(op, left, right):
            return f"{print_expression(left)} {op} {print_expression(right)}", ATOM
        case tree.Like(operand, pattern, regex, negated):
            word = "RLIKE" if regex else "LIKE"
            return f"{print_expression(operand)} {_not(negated)}{word} {_literal(pattern)}", ATOM
        case tree.In(operand, items, negated):
            return f"{print_expression(operand)} {_not(negated)}IN {{{', '.join(map(_element, items))}}}", ATOM
        case tree.Between(operand, low, high, negated, range_form):
            ends = print_expression(low), print_expression(high)
            wording = "IN RANGE ({}, {})" if range_form else "BETWEEN {} AND {}"
            return f"{print_expression(operand)} {_not(negated)}{wording.format(*ends)}", ATOM
        case tree.IsNull(operand, negated):
            return f"{print_expression(operand)} IS {_not(negated)}NULL", ATOM


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


def _element(element: tree.Literal | tree.Interval) -> str:
    match element:
        case tree.Literal(value):
            return _literal(value)
        case tree.Interval(low, high):
            return f"{'' if low is None else _literal(low.value)}..{'' if high is None else _literal(high.value)}"


def _expression(expression: tree.Expression, place: int) -> str:
    text, strength = _bare_expression(expression)
    return text if strength >= place else f"({text})"


def _bare_expression(expression: tree.Expression) -> tuple[str, int]:
    match expression:
        case tree.Literal(value):
            return _literal(value), LEAF
        case tree.Attribute(name):
            return print_name(name), LEAF
        case tree.Ref(variable, attribute):
            return f"{print_name(variable)}.{print_name(attribute)}", LEAF
        case tree.Prev(attribute):
            return f"PREV.{print_name(attribute)}", LEAF
        case tree.Duration(nanoseconds):
            return print_duration(nanoseconds), LEAF if nanoseconds >= 0 else UNARY
        case tree.Aggregate(function, variable, operand, distinct, number):
            over = print_name(variable) if operand is None else print_expression(operand)
            if distinct and not (over[0].isalnum() or over[0] in "_`("):
                over = f"({over})"  # `DISTINCT -b.v` is a difference
            more = "" if number is None else f", {_literal(number)}"
            return f"{function}({'DISTINCT ' * distinct}{over}{more})", LEAF
        case tree.Lapse(name):
            return name, LEAF
        case tree.Call(function, arguments):
            return f"{function}({', '.join(map(print_expression, arguments))})", LEAF
        case tree.Minus(operand):
            # LEAF, because `--` begins a comment
            return f"-{_expression(operand, LEAF)}", UNARY
        case tree.Arithmetic(op, left, right):
            strength = SUM if op in "+-" else PRODUCT
            return f"{_expression(left, strength)} {op} {_expression(right, strength + 1)}", strength


def _literal(value: int | Decimal | str | bool | None) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case Decimal():
            text = str(value)
            # only a number with a point or an exponent is read as a Decimal
            return text if "." in text or "E" in text else f"{text}.0"
        case int():
            return str(value)
