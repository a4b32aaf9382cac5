"""Hypothesis strategies for whole test cases: a valid query and a short stream that it has something to say about.

Alphabets are small, so that events match, keys collide and times tie; sizes are such that the oracle answers in
milliseconds. `uncorrelated_cases` has conditions on single events only; `correlated_cases` adds comparisons of several
variables, PREV and PARTITION BY as an operator, over values that are equal more often. `conditioned_cases` has plain
sequences and iterations, with several conditions between any of their events. Every event has every column of
`COLUMNS`; None is NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import accumulate
from typing import Any, NamedTuple

from hypothesis import assume
from hypothesis import strategies as st

import oracle
from ceql.analysis.selection import selection
from ceql.syntax import tree
from ceql.syntax.absence import may_be_missing
from ceql.syntax.printer import print_query

# The columns of a generated stream, by their Arrow types; w never falls, v and f may.
COLUMNS = {
    "type": "string", "time": "int64", "v": "int64", "f": "double", "s": "string", "k": "int64", "w": "int64",
}  # fmt: skip
TYPES = ["A", "B", "C", "D"]
VARIABLES = ["x", "y", "z"]
STREAMS = ["S", "T"]
NUMBERS = ["v", "f", "k", "w"]
COMPARISONS = ["=", "!=", "<", "<=", ">", ">="]
Values = dict[str, list[Any]]
MANY: Values = {
    "v": [1, 2, 3, 0, 1, 2, -2, 4, None],
    "f": [1.0, 0.5, 2.0, -1.5, 1.0, float("nan"), None],
    "s": ["a", "b", "ab", "a", "", "a\nb", None],
    "k": [1, 1, 1, 1, 2, 2, None],
}
FEW: Values = {
    "v": [1, 1, 1, 2, 2, 3, None],
    "f": [1.0, 1.0, 1.0, 2.0, 2.0, 0.5, float("nan"), None],
    "s": ["a", "a", "a", "b", "", None],
    "k": [1, 1, 1, 1, 1, 2, 2, None],
}
# few values, so that many partial matches carry the same, and seldom NULL, which satisfies nothing
CLOSE: Values = {
    "v": [1, 2, 3, 2, 1, 3, 2, 1, 3, 2, 1, None],
    "f": [1.0, 2.0, 1.0, 2.5, 2.0, 1.0, 3.0, 0.5, -0.0, 1.0, float("nan"), None],
    "s": ["a", "b", "ab", "b", "a", "ab", "", "b", None],
    "k": [1, 1, 1, 2, 1, 2, 1, 1, None],
}
Draw = Callable[[st.SearchStrategy[Any]], Any]


class Generated(NamedTuple):
    """A query and its events; in a report they read as text."""

    query: tree.Query
    events: list[dict[str, Any]]

    def __repr__(self) -> str:
        lines = "\n".join(f"  {i}: {event}" for i, event in enumerate(self.events))
        return f"\n{print_query(self.query)}\n{lines}\n"


Cases = Callable[[bool], st.SearchStrategy[Generated]]


def one_in(draw: Draw, n: int) -> bool:
    """True once in n times; shrinks to False."""
    return bool(draw(st.integers(0, n - 1)) == n - 1)


# --- streams ---


@st.composite
def events_of(draw: Draw, types: list[str], values: Values, named: bool) -> dict[str, Any]:
    """One event; its time and w are steps, to be added up."""
    step = st.sampled_from([0, 0, 1, 1, 2, 4])
    event = {
        "type": draw(st.sampled_from(types)),
        "time": draw(step),
        **{column: draw(st.sampled_from(choice)) for column, choice in values.items()},
        "w": draw(step),
    }
    return event | {"__stream__": draw(st.sampled_from(STREAMS))} if named else event


@st.composite
def streams(draw: Draw, formula: tree.Formula, longest: int, named: bool) -> list[dict[str, Any]]:
    # mostly what the formula asks for, and long enough that it gets it; short and strange at times
    types = sorted(oracle.event_types(formula))
    types = draw(st.sampled_from([types, types, types, [*types, "D"], TYPES]))
    shortest = draw(st.sampled_from([0, longest // 2, *[longest * 3 // 4] * 5]))
    return added_up(draw(st.lists(events_of(types, MANY, named), min_size=shortest, max_size=longest)))


@st.composite
def likely_streams(
    draw: Draw, formula: tree.Formula, longest: int, named: bool, values: Values = FEW
) -> list[dict[str, Any]]:
    """A stream with a match of the formula, if it had no conditions, and others in between."""
    atoms = witness(draw, formula)[:longest]
    types = sorted(oracle.event_types(formula) | set(draw(st.sampled_from([[], [], [], ["D"]]))))
    for _ in range(draw(st.sampled_from([0, longest * 3 // 4, *[longest] * 4])) - len(atoms)):
        atoms.insert(draw(st.integers(0, len(atoms))), tree.Event(draw(st.sampled_from(types))))
    events = [draw(events_of([atom.type], values, named)) for atom in atoms]
    for atom, event in zip(atoms, events, strict=True):
        event |= {"__stream__": atom.stream} if atom.stream else {}
    return added_up(events)


def witness(draw: Draw, formula: tree.Formula) -> list[tree.Event]:
    """The atoms of a match, in their order; of ALL one branch after the other, of plus one or two rounds."""
    match formula:
        case tree.Event():
            return [formula]
        case tree.Then(items=items):
            return [atom for item in items for atom in witness(draw, item)]
        case tree.All(items=items):
            return [atom for item in draw(st.permutations(items)) for atom in witness(draw, item)]
        case tree.Or(items=items):
            return witness(draw, draw(st.sampled_from(items)))
        case tree.Plus():
            return [atom for _ in range(draw(st.integers(1, 2))) for atom in witness(draw, formula.formula)]
        case tree.Count(least=least, most=most):
            rounds = draw(st.integers(max(least, 1), max(least, 2) if most is None else max(most, 1)))
            return [atom for _ in range(rounds) for atom in witness(draw, formula.formula)]
        case _:
            return witness(draw, formula.formula)


def added_up(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events, their steps of time and w as sums."""
    for column in ("time", "w"):
        for event, total in zip(events, accumulate(e[column] for e in events), strict=True):
            event[column] = total
    return events


# --- conditions ---

# dyadic, so that decimals and floats agree on sums and products
numerals = st.builds(tree.Literal, st.sampled_from([1, 0, 2, 3, -2, Decimal("0.5"), Decimal("1.5"), Decimal("-1.5")]))
words = st.builds(tree.Literal, st.sampled_from(["a", "b", "ab", ""]))


lengths = st.builds(tree.Duration, st.sampled_from([n * 500_000 for n in (0, 1, 2, 4, 6, 9, -2)]))


def numeric_call(draw: Draw, number: tree.Expression, text: tree.Expression) -> tree.Call:
    """A function whose value is a number."""
    match draw(st.sampled_from(["ABS", "ROUND", "FLOOR", "CEIL", "LEAST", "GREATEST", "COALESCE", "LENGTH"])):
        case "LENGTH":
            return tree.Call("LENGTH", (text,))
        case "LEAST" | "GREATEST" | "COALESCE" as name:
            return tree.Call(name, (number, draw(numerals)))
        case "ROUND":
            digits = draw(st.sampled_from([(), (tree.Literal(0),), (tree.Literal(1),), (tree.Literal(-1),)]))
            return tree.Call("ROUND", (number, *digits))
        case name:
            return tree.Call(name, (number,))


def text_call(draw: Draw, text: tree.Expression) -> tree.Call:
    """A function whose value is a text."""
    match draw(st.sampled_from(["LOWER", "UPPER", "SUBSTRING", "CONCAT", "COALESCE"])):
        case "SUBSTRING":
            size = draw(st.sampled_from([(), (tree.Literal(1),), (tree.Literal(2),)]))
            return tree.Call("SUBSTRING", (text, tree.Literal(draw(st.integers(-2, 2))), *size))
        case "CONCAT" | "COALESCE" as name:
            return tree.Call(name, (text, draw(words)))
        case name:
            return tree.Call(name, (text,))


class Vocabulary(NamedTuple):
    """How conditions speak of attributes: bare inside brackets, dotted outside, and with PREV where it is allowed."""

    attribute: Callable[[Draw, str], tree.Expression]

    def numeric(self, draw: Draw, depth: int = 1) -> tree.Expression:
        kinds = ["attribute", "attribute", "attribute", "operation", "minus", "function"]
        kind = draw(st.sampled_from(kinds)) if depth else None
        if kind == "operation":
            left = self.numeric(draw, 0)
            right = self.numeric(draw, 0) if draw(st.booleans()) else draw(numerals)
            return tree.Arithmetic(draw(st.sampled_from("+-*/%")), left, right)
        if kind == "minus":
            return tree.Minus(self.numeric(draw, 0))
        if kind == "function":
            return numeric_call(draw, self.numeric(draw, 0), self.attribute(draw, "s"))
        return self.attribute(draw, draw(st.sampled_from(NUMBERS)))

    def comparison(self, draw: Draw) -> tree.Comparison:
        op = draw(st.sampled_from(COMPARISONS))
        if one_in(draw, 4):
            text = self.attribute(draw, "s")
            return tree.Comparison(op, text_call(draw, text) if one_in(draw, 3) else text, draw(words))
        if one_in(draw, 8):
            lapse = tree.Arithmetic("-", self.attribute(draw, "time"), self.attribute(draw, "time"))
            return tree.Comparison(op, lapse, draw(lengths))
        if one_in(draw, 12):
            return tree.Comparison(op, self.attribute(draw, "v"), tree.Literal(None))
        left, right = self.numeric(draw), self.numeric(draw) if one_in(draw, 3) else draw(numerals)
        return tree.Comparison(op, right, left) if one_in(draw, 4) else tree.Comparison(op, left, right)

    def predicate(self, draw: Draw, depth: int = 2) -> tree.Predicate:
        kinds = ["comparison", "comparison", "like", "in", "between", "null"] + ["and", "or", "not"] * (depth > 0)
        negated = one_in(draw, 4)
        match draw(st.sampled_from(kinds)):
            case "comparison":
                return self.comparison(draw)
            case "like":
                regex = draw(st.booleans())
                pattern = draw(
                    st.sampled_from(["a", "^b", "a.*b", "a|b"] if regex else ["a%", "_", "%b", "a_b", "%", ""])
                )
                return tree.Like(self.attribute(draw, "s"), pattern, regex, negated)
            case "in":
                if draw(st.booleans()):
                    return tree.In(
                        self.attribute(draw, "s"), tuple(draw(st.lists(words, min_size=1, max_size=2))), negated
                    )
                items = draw(st.lists(numerals | intervals() | st.just(tree.Literal(None)), min_size=1, max_size=3))
                return tree.In(self.numeric(draw), tuple(items), negated)
            case "between":
                low = self.numeric(draw, 0) if one_in(draw, 3) else draw(numerals)
                return tree.Between(self.numeric(draw), low, draw(numerals), negated, range_form=draw(st.booleans()))
            case "null":
                operand = self.attribute(draw, "s") if draw(st.booleans()) else self.numeric(draw)
                return tree.IsNull(operand, negated)
            case "not":
                return tree.Neg(self.predicate(draw, depth - 1))
            case kind:
                items = (self.predicate(draw, depth - 1), self.predicate(draw, depth - 1))
                return joined(tree.Conj if kind == "and" else tree.Disj, items)  # type: ignore[no-any-return]


@st.composite
def intervals(draw: Draw) -> tree.Interval:
    low, high = draw(st.none() | numerals), draw(numerals)
    return tree.Interval(low, high) if draw(st.booleans()) else tree.Interval(high, low)


def joined(kind: Any, items: tuple[Any, ...]) -> Any:
    """A flat chain, as the parser makes it: `(a AND b) AND c` has three items."""
    return kind(tuple(part for item in items for part in (item.items if isinstance(item, kind) else (item,))))


def condition(draw: Draw, names: list[str], depth: int = 1) -> tree.FilterCondition:
    """A condition on single events."""
    name = draw(st.sampled_from(names))
    match draw(st.sampled_from(["bracket", "bracket", "dotted"] + ["and", "or", "not"] * (depth > 0))):
        case "bracket":
            return tree.Bracket(name, Vocabulary(lambda _, a: tree.Attribute(a)).predicate(draw))
        case "dotted":
            return Vocabulary(lambda _, a: tree.Ref(name, a)).comparison(draw)
        case "not":
            return tree.Neg(condition(draw, names, depth - 1))
        case kind:
            items = tuple(condition(draw, names, depth - 1) for _ in range(2))
            return joined(tree.Conj if kind == "and" else tree.Disj, items)  # type: ignore[no-any-return]


# attributes to compare with each other, mostly with themselves, so that joins hit
COMPARABLE = (
    [("k", "k")] * 4 + [("v", "v")] * 2 + [("f", "f"), ("s", "s"), ("k", "v"), ("v", "f"), ("f", "k"), ("w", "v")]
)


def correlated_condition(draw: Draw, own: list[str], names: list[str], depth: int = 1) -> tree.FilterCondition:
    """A condition across events: on a variable of `own`, on others of `names`, on what came before."""
    name = draw(st.sampled_from(own))
    other = draw(st.sampled_from([n for n in names if n != name] or names))
    kinds = ["equality"] * 4 + ["comparison", "arithmetic", "neighbours"] * 2 + ["bracket"]
    kinds = ["neighbours"] if name == other else kinds + (["and", "or", "not"] if depth else ["single"])
    match draw(st.sampled_from(kinds)):
        case "equality":
            left, right = draw(st.sampled_from(COMPARABLE))
            return tree.Comparison("=", tree.Ref(name, left), tree.Ref(other, right))
        case "comparison":
            left, right = draw(st.sampled_from(COMPARABLE))
            return tree.Comparison(draw(st.sampled_from(COMPARISONS)), tree.Ref(name, left), tree.Ref(other, right))
        case "arithmetic":
            left, right = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBERS))
            result = tree.Arithmetic(draw(st.sampled_from("+-+-*/%")), tree.Ref(name, left), tree.Ref(other, right))
            third = [n for n in names if n not in (name, other)]
            limit = tree.Ref(draw(st.sampled_from(third)), left) if third and draw(st.booleans()) else draw(numerals)
            return tree.Comparison(draw(st.sampled_from(COMPARISONS)), result, limit)
        case "bracket":
            speaks = Vocabulary(lambda d, a: d(st.sampled_from([tree.Attribute(a), tree.Ref(other, a), tree.Prev(a)])))
            return tree.Bracket(name, speaks.predicate(draw, 1))
        case "neighbours":
            return neighbours(draw, name)
        case "single":
            return condition(draw, own, 0)
        case "not":
            return tree.Neg(correlated_condition(draw, own, names, depth - 1))
        case kind:
            items = tuple(correlated_condition(draw, own, names, depth - 1) for _ in range(2))
            return joined(tree.Conj if kind == "and" else tree.Disj, items)  # type: ignore[no-any-return]


def neighbours(draw: Draw, name: str) -> tree.FilterCondition:
    """PREV compared with the event after it; mostly so that the first event, which has none before it, may pass."""

    def comparison(owned: Callable[[str], tree.Expression]) -> tree.Comparison:
        left, right = draw(st.sampled_from(COMPARABLE))
        before: tree.Expression = tree.Prev(right)
        if right != "s" and one_in(draw, 4):
            before = tree.Arithmetic(draw(st.sampled_from("+-")), before, draw(numerals))
        op = draw(st.sampled_from(["=", "=", "!=", *COMPARISONS]))
        return tree.Comparison(op, before, owned(left)) if one_in(draw, 4) else tree.Comparison(op, owned(left), before)

    if one_in(draw, 4):
        return comparison(lambda a: tree.Ref(name, a))
    predicate: tree.Predicate = comparison(tree.Attribute)
    if one_in(draw, 3):
        kind = draw(st.sampled_from([tree.Conj, tree.Disj]))
        predicate = joined(kind, (predicate, comparison(tree.Attribute)))
    if not one_in(draw, 3):
        predicate = joined(tree.Disj, (predicate, tree.IsNull(tree.Prev(draw(st.sampled_from("kv"))))))
    return tree.Bracket(name, tree.Neg(predicate) if one_in(draw, 8) else predicate)


# attributes to order, mostly with themselves; whole numbers with floats too
ORDERED = [("v", "v")] * 5 + [("f", "f")] * 2 + [("s", "s")] * 2 + [("v", "f"), ("f", "v"), ("w", "w")]


class Between(NamedTuple):
    """Conditions between the events of a sequence: `names` are its variables in their order."""

    names: list[str]

    def condition(self, draw: Draw, depth: int = 1) -> tree.FilterCondition:
        kinds = ["plain"] * 6 + ["shifted", "sum", "prev", "prev", "bracket", "lapse"] * 2
        kinds += ["or", "or", "not"] * (depth > 0)
        match draw(st.sampled_from(kinds)):
            case "plain":
                (one, other), (left, right) = self.two(draw), draw(st.sampled_from(ORDERED))
                return compared(draw, tree.Ref(one, left), tree.Ref(other, right))
            case "shifted":
                one, other = self.two(draw)
                return compared(draw, shifted(draw, number_of(draw, one)), shifted(draw, number_of(draw, other)))
            case "sum":
                return self.sum(draw)
            case "lapse":
                one, other = self.two(draw)
                lapse: tree.Expression = tree.Arithmetic("-", tree.Ref(one, "time"), tree.Ref(other, "time"))
                if draw(st.booleans()):
                    lapse = tree.Call("ABS", (lapse,))
                return compared(draw, lapse, draw(lengths))
            case "prev":
                return tree.Bracket(draw(st.sampled_from(self.names[1:])), self.step(draw))
            case "bracket":
                return self.bracket(draw)
            case "not":
                return tree.Neg(self.condition(draw, depth - 1))
            case _:
                return joined(  # type: ignore[no-any-return]
                    tree.Disj, (self.condition(draw, depth - 1), self.condition(draw, depth - 1))
                )

    def two(self, draw: Draw) -> tuple[str, str]:
        """Two variables in either order; neighbours no more often than others."""
        one, other = draw(st.permutations(self.names))[:2]
        return one, other

    def sum(self, draw: Draw) -> tree.FilterCondition:
        """An operation on two variables, compared with a number, with a third one or with one of the two."""
        one, other = self.two(draw)
        left = tree.Arithmetic(draw(st.sampled_from("+-+-+-*/%")), number_of(draw, one), number_of(draw, other))
        right = number_of(draw, draw(st.sampled_from(self.names))) if draw(st.booleans()) else draw(numerals)
        return compared(draw, left, shifted(draw, right))

    def step(self, draw: Draw) -> tree.Predicate:
        """A comparison with the event before."""
        left, right = draw(st.sampled_from(ORDERED))
        if left == "s" or draw(st.booleans()):
            return compared(draw, tree.Attribute(left), tree.Prev(right))
        if draw(st.booleans()):
            return compared(draw, tree.Attribute(left), shifted(draw, tree.Prev(right)))
        if one_in(draw, 3):
            return compared(draw, tree.Arithmetic("-", tree.Attribute("time"), tree.Prev("time")), draw(lengths))
        bound = number_of(draw, draw(st.sampled_from(self.names))) if draw(st.booleans()) else draw(numerals)
        return compared(draw, tree.Arithmetic("-", tree.Attribute(left), tree.Prev(right)), bound)

    def bracket(self, draw: Draw) -> tree.FilterCondition:
        """A predicate on an event, another and the one before: each combination of events decides for itself."""
        name, other = self.two(draw)
        own = tree.Attribute(draw(st.sampled_from("vf")))
        negated = one_in(draw, 4)
        match draw(st.sampled_from(["between", "null", "or", "or", "or"])):
            case "between":
                low, high = number_of(draw, other), number_of(draw, draw(st.sampled_from(self.names)))
                return tree.Bracket(name, tree.Between(own, low, shifted(draw, high), negated))
            case "null":
                return tree.Bracket(name, tree.IsNull(tree.Arithmetic("+", own, number_of(draw, other)), not negated))
        items = compared(draw, own, number_of(draw, other)), draw(st.sampled_from([self.step, self.flag]))(draw)
        either: tree.Predicate = joined(tree.Disj, items)
        return tree.Bracket(name, tree.Neg(either) if negated else either)

    def flag(self, draw: Draw) -> tree.Predicate:
        return compared(draw, tree.Attribute("k"), draw(numerals))


def compared(draw: Draw, left: tree.Expression, right: tree.Expression) -> tree.Comparison:
    # an equality seldom holds, and has tests of its own
    return tree.Comparison(draw(st.sampled_from(["<", "<=", ">", ">=", "!=", "<", "<=", ">", ">=", "="])), left, right)


def number_of(draw: Draw, name: str) -> tree.Ref:
    return tree.Ref(name, draw(st.sampled_from(["v", "v", "v", "f", "w", "k"])))


def shifted(draw: Draw, operand: tree.Expression) -> tree.Expression:
    """The operand as it is, or moved, scaled, turned round."""
    match draw(st.sampled_from(["as it is", "as it is", "+", "-", "*", "from", "minus"])):
        case "as it is":
            return operand
        case "from":
            return tree.Arithmetic("-", draw(numerals), operand)
        case "minus":
            return operand if isinstance(operand, tree.Literal) else tree.Minus(operand)
        case op:
            return tree.Arithmetic(op, operand, draw(numerals))


# --- formulas ---


class Shape:
    """How much plus a formula may still hold, its types, whether they may name their stream, how parts are joined."""

    def __init__(self, types: list[str], named: bool, joints: list[str]) -> None:
        self.plus_left = 2
        self.types = types
        self.named = named
        self.joints = joints


def skeleton(draw: Draw, atoms: int, shape: Shape) -> tree.Formula:
    """A formula without filters, of this many atoms."""
    formula: tree.Formula
    if atoms == 1:
        stream = draw(st.sampled_from([None, None, *STREAMS])) if shape.named else None
        formula = tree.Event(draw(st.sampled_from(shape.types)), stream)
    else:
        first = draw(st.integers(1, atoms - 1))
        items = (skeleton(draw, first, shape), skeleton(draw, atoms - first, shape))
        match draw(st.sampled_from(shape.joints)):
            case "then":
                formula = chain(items, draw(st.sampled_from([tree.Joint.THEN] * 3 + [tree.Joint.TOUCH])))
            case "or":
                formula = joined(tree.Or, items)
            case _:
                formula = joined(tree.All, items)
    if shape.plus_left and one_in(draw, 4):
        shape.plus_left -= 1
        formula = repeated(draw, formula)
    if one_in(draw, 2 if atoms == 1 else 4):
        formula = tree.As(formula, draw(st.sampled_from(VARIABLES)))
    return formula


def repeated(draw: Draw, formula: tree.Formula) -> tree.Plus | tree.Count:
    """One or more, or a count."""
    joint = draw(st.sampled_from([tree.Joint.THEN, tree.Joint.TOUCH]))
    if draw(st.booleans()):
        return tree.Plus(formula, joint)
    least, most = draw(st.sampled_from([(0, 1), (0, 1), (0, None), (2, 2), (1, 2), (0, 2), (2, None), (2, 3), (1, 1)]))
    return tree.Count(formula, least, most, joint)


def chain(items: tuple[tree.Formula, tree.Formula], joint: tree.Joint = tree.Joint.THEN) -> tree.Then:
    parts = [item if isinstance(item, tree.Then) else tree.Then((item,), ()) for item in items]
    return tree.Then(parts[0].items + parts[1].items, (*parts[0].joints, joint, *parts[1].joints))


def subformulas(formula: tree.Formula) -> list[tree.Formula]:
    return [node for node in oracle.walk(formula) if isinstance(node, tree.Formula)]


def wrapped(formula: tree.Formula, target: tree.Formula, wrap: Callable[[tree.Formula], tree.Formula]) -> tree.Formula:
    """The formula, with `wrap` put around the very node `target`."""
    if formula is target:
        return wrap(formula)
    match formula:
        case tree.Then(items=items):
            return tree.Then(tuple(wrapped(item, target, wrap) for item in items), formula.joints)
        case tree.All(items=items):
            return tree.All(tuple(wrapped(item, target, wrap) for item in items))
        case tree.Or(items=items):
            return tree.Or(tuple(wrapped(item, target, wrap) for item in items))
        case tree.As():
            return tree.As(wrapped(formula.formula, target, wrap), formula.variable)
        case tree.Plus() | tree.Count() | tree.Within():
            return replace(formula, formula=wrapped(formula.formula, target, wrap))
        case tree.Filter():
            return tree.Filter(wrapped(formula.formula, target, wrap), formula.condition)
        case tree.PartitionBy():
            return tree.PartitionBy(wrapped(formula.formula, target, wrap), formula.parts)
    return formula


def sequence(draw: Draw, names: list[str], types: list[str], named: bool) -> tree.Formula:
    """One event after another, each with a name; some iterated, some in brackets of their own."""
    items: list[tree.Formula] = []
    pluses = 2
    for name in names:
        stream = draw(st.sampled_from([None, None, *STREAMS])) if named else None
        item: tree.Formula = tree.Event(draw(st.sampled_from(types)), stream)
        if pluses and one_in(draw, 3):
            pluses -= 1
            item = (
                repeated(draw, item)
                if draw(st.booleans())
                else tree.Plus(item, tree.Joint.TOUCH if one_in(draw, 6) else tree.Joint.THEN)
            )
        items.append(tree.As(item, name))
    if len(items) > 2 and one_in(draw, 3):
        first = draw(st.integers(0, len(items) - 2))
        pair = (items[first], items[first + 1])
        group: tree.Formula
        match draw(st.sampled_from(["plus", "all", "or"])):
            case "plus" if pluses:
                group = repeated(draw, chain(pair))
            case "or":
                group = tree.Or(pair)
            case _:
                group = tree.All(pair)
        items[first : first + 2] = [group]
    formula = items[0]
    for item in items[1:]:
        formula = chain((formula, item), tree.Joint.TOUCH if one_in(draw, 12) else tree.Joint.THEN)
    return formula


def with_condition(draw: Draw, formula: tree.Formula, names: list[str]) -> tree.Formula:
    """One more condition: mostly on the whole; at times on a part, so that it is asked of each round by itself."""
    chosen = Between(names).condition(draw)
    target = draw(st.sampled_from(subformulas(formula))) if one_in(draw, 4) else formula
    result = wrapped(formula, target, lambda f: tree.Filter(f, chosen))
    return tree.Filter(formula, chosen) if oracle.unbound(result) else result


def with_filter(draw: Draw, formula: tree.Formula) -> tree.Formula:
    """One more filter, somewhere; on variables of the enclosing formula where these bind it."""
    target = draw(st.sampled_from(subformulas(formula)))
    own = sorted(oracle.variables(target))
    names = sorted(oracle.variables(formula)) if one_in(draw, 3) else own
    chosen = condition(draw, names)
    result = wrapped(formula, target, lambda f: tree.Filter(f, chosen))
    if oracle.unbound(result):
        chosen = condition(draw, own)
        result = wrapped(formula, target, lambda f: tree.Filter(f, chosen))
    return result


def with_correlated_filter(draw: Draw, formula: tree.Formula) -> tree.Formula:
    """The same across events; a filter on a single event looks at the others from there."""
    target = draw(st.sampled_from(subformulas(formula)))
    own, every = sorted(oracle.variables(target)), sorted(oracle.variables(formula))
    outside = not has_several(target) or one_in(draw, 3)
    chosen = correlated_condition(draw, own, every if outside else own)
    result = wrapped(formula, target, lambda f: tree.Filter(f, chosen))
    if oracle.unbound(result):
        chosen = correlated_condition(draw, every, every)
        result = tree.Filter(formula, chosen)
    return result


def has_several(formula: tree.Formula) -> bool:
    """Whether a match of the formula may hold more than one event."""
    return any(isinstance(node, tree.Then | tree.All | tree.Plus | tree.Count) for node in subformulas(formula))


def with_operator(draw: Draw, formula: tree.Formula) -> tree.Formula:
    several = [node for node in subformulas(formula) if has_several(node)]
    target = draw(st.sampled_from(several if several and not one_in(draw, 6) else subformulas(formula)))
    parts = tuple(draw(st.lists(covering_parts(target), min_size=1, max_size=2)))
    return wrapped(formula, target, lambda f: tree.PartitionBy(f, parts))


def with_window(draw: Draw, formula: tree.Formula) -> tree.Formula:
    several = [node for node in subformulas(formula) if has_several(node)]
    target = draw(st.sampled_from(several or subformulas(formula)))
    window = draw(windows_from(1).filter(lambda window: window is not None))
    return wrapped(formula, target, lambda f: tree.Within(f, window))


def covering_names(draw: Draw, formula: tree.Formula) -> list[str]:
    """Variables under which every atom stands: of each AS its own, or those of what it names."""
    match formula:
        case tree.Event():
            return [formula.type]
        case tree.As() if draw(st.booleans()):
            return [formula.variable]
        case tree.Then(items=items) | tree.All(items=items) | tree.Or(items=items):
            return [name for item in items for name in covering_names(draw, item)]
        case _:
            return covering_names(draw, formula.formula)


@st.composite
def covering_parts(draw: Draw, formula: tree.Formula) -> tree.Part:
    attributes = st.sampled_from(draw(st.sampled_from([["k"], ["k"], ["k", "k", "v"], ["v", "f"], ["k", "f"], ["s"]])))
    if one_in(draw, 3):
        return tree.Part(tuple(tree.PartRef(draw(attributes)) for _ in range(1 + one_in(draw, 6))))
    names = covering_names(draw, formula)
    if one_in(draw, 4):
        names.append(draw(st.sampled_from(sorted(oracle.variables(formula)))))
    refs = (tree.PartRef(draw(attributes), name) for name in dict.fromkeys(names))
    return tree.Part((*refs, tree.PartRef(draw(attributes))) if one_in(draw, 12) else tuple(refs))


# --- queries ---


@st.composite
def clause_parts(draw: Draw, formula: tree.Formula) -> tree.Part:
    types = sorted(oracle.event_types(formula))
    match draw(st.sampled_from(["bare", "bare", "bare", "types", "types", "pair"])):
        case "bare":
            return tree.Part((tree.PartRef(draw(st.sampled_from(["k", "k", "k", "s", "f"]))),))
        case "pair":
            return tree.Part((tree.PartRef("k"), tree.PartRef(draw(st.sampled_from(["v", "f"])))))
    some = draw(st.lists(st.sampled_from(types), min_size=1, unique=True)) if one_in(draw, 4) else types
    return tree.Part(tuple(tree.PartRef(draw(st.sampled_from(["k", "k", "v", "f"])), name) for name in some))


Windows = st.SearchStrategy[tree.Window | None]


def windows_from(least: int) -> Windows:
    """No window, or one of each kind, of this size and a little more."""
    return st.one_of(
        st.none(),
        st.none(),
        st.builds(tree.EventsWindow, st.integers(least, least + 6)),
        st.builds(tree.TimeWindow, st.integers(least + 1, least + 6).map(lambda ms: ms * 1_000_000)),
        st.builds(tree.AttributeWindow, st.integers(least, least + 4), st.sampled_from(["w", "v", "f"])),
    )


windows = windows_from(0)


@st.composite
def selections(draw: Draw, formula: tree.Formula) -> tuple[tree.SelectItem, ...] | None:
    if draw(st.booleans()):
        return None
    if one_in(draw, 6):
        return ()
    names = draw(st.lists(st.sampled_from(sorted(oracle.variables(formula))), min_size=1, max_size=3, unique=True))
    return tuple(tree.SelectItem(name, ("v",) if one_in(draw, 6) else ()) for name in names)


def query_of(
    draw: Draw, formula: tree.Formula, partition: tuple[tree.Part, ...], named: bool, windows: Windows = windows
) -> tree.Query:
    return tree.Query(
        formula,
        items=draw(selections(formula)),
        strategy=draw(st.none() | st.sampled_from(tree.Strategy)),
        distinct=one_in(draw, 4),
        streams=tuple(STREAMS) if named else (),
        partition=partition,
        window=draw(windows),
        consume=draw(st.sampled_from(tree.Consume)) if one_in(draw, 3) else tree.Consume.NONE,
        limit=draw(st.none() | st.none() | st.integers(1, 3)),
    )


def clause(draw: Draw, parts: st.SearchStrategy[tree.Part]) -> tuple[tree.Part, ...]:
    return (draw(parts), draw(parts)) if one_in(draw, 4) else (draw(parts),)


@st.composite
def uncorrelated_cases(draw: Draw, named: bool = False) -> Generated:
    """Queries without conditions across events; `named`: over two streams, with `stream>type` in the formula."""
    types = draw(st.sampled_from([["A"], ["A", "B"], ["A", "B", "C"], TYPES]))
    joints = ["then", "then", "then", "or", "or", "all"]
    formula = skeleton(draw, draw(st.sampled_from([1, 2, 2, 3, 3, 3, 4, 5])), Shape(types, named, joints))
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
        formula = with_filter(draw, formula)
    partition = clause(draw, clause_parts(formula)) if one_in(draw, 4) else ()
    query = query_of(draw, formula, partition, named)
    return Generated(query, draw(streams(formula, longest_stream(formula), named)))


@st.composite
def correlated_cases(draw: Draw, named: bool = False) -> Generated:
    """Queries with comparisons of several variables, PREV, or PARTITION BY as an operator, one inside the other."""
    types = draw(st.sampled_from([["A"], ["A", "B"], ["A", "B"], ["A", "B", "C"]]))
    joints = ["then", "then", "then", "then", "or", "all", "all"]
    formula = skeleton(draw, draw(st.sampled_from([1, 2, 2, 3, 3, 3, 4, 5])), Shape(types, named, joints))
    filters, operators = draw(st.sampled_from([(1, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1), (1, 1), (2, 1), (1, 2)]))
    for _ in range(filters):
        formula = with_correlated_filter(draw, formula)
    for _ in range(operators):
        formula = with_operator(draw, formula)
    if one_in(draw, 8):
        formula = with_filter(draw, formula)
    if one_in(draw, 5):
        formula = with_window(draw, formula)
    partition: tuple[tree.Part, ...] = ()
    if one_in(draw, 4):
        partition = clause(draw, draw(st.sampled_from([clause_parts, covering_parts]))(formula))
    # five sides of ALL that are compared, iterated or missing may be refused: there are too many orders of their events
    sides = [node for node in oracle.walk(formula) if isinstance(node, tree.All)]
    assume(all(sum(isinstance(part, tree.Event) for part in oracle.walk(side)) < 5 for side in sides))
    query = query_of(draw, formula, partition, named)
    return Generated(query, draw(likely_streams(formula, min(8, longest_stream(formula)), named)))


@st.composite
def conditioned_cases(draw: Draw, named: bool = False) -> Generated:
    """Sequences and iterations with one to four conditions between their events, of every kind but joins."""
    names = [*VARIABLES, "u"][: draw(st.sampled_from([3, 2, 3, 3, 4]))]
    types = draw(st.sampled_from([["A"], ["A", "B"], ["A", "B"], ["A", "B", "C"]]))
    formula = sequence(draw, names, types, named)
    for _ in range(draw(st.sampled_from([1, 1, 2, 2, 3, 4]))):
        formula = with_condition(draw, formula, names)
    if one_in(draw, 10):
        formula = with_operator(draw, formula)
    if one_in(draw, 6):
        formula = with_window(draw, formula)
    partition = clause(draw, clause_parts(formula)) if one_in(draw, 12) else ()
    query = query_of(draw, formula, partition, named, windows_from(3))
    events: list[dict[str, Any]] = []
    for _ in range(4):  # a stream without a match says little: another one
        events = draw(likely_streams(formula, min(10, longest_stream(formula)), named, CLOSE))
        if oracle.candidates(query, sorted(events, key=lambda e: (e["time"], e.get("__stream__", "")))):
            break
    return Generated(query, events)


def longest_stream(formula: tree.Formula) -> int:
    """What the oracle can still take: each plus doubles the valuations with every event, ALL multiplies them."""
    nodes = subformulas(formula)
    pluses = sum(isinstance(node, tree.Plus | tree.Count) for node in nodes)
    alls = sum(len(node.items) - 1 for node in nodes if isinstance(node, tree.All))
    if pluses == 0:
        return 12 if alls < 2 else 8
    return 8 - min(2, alls) - (pluses - 1)


# --- measures ---

_MOST_AGGREGATES = ("COUNT", "COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST")
_FURTHER_AGGREGATES = ("COUNT", "COUNT", "STDDEV", "VARIANCE", "MEDIAN", "PERCENTILE")


def aggregate(draw: Draw, names: list[str], texts: bool = True) -> tree.Aggregate:
    name = draw(st.sampled_from(names))
    function = draw(st.sampled_from([*_MOST_AGGREGATES, *_MOST_AGGREGATES, *_FURTHER_AGGREGATES]))
    if function == "COUNT" and draw(st.booleans()):
        return tree.Aggregate("COUNT", name)
    distinct = function == "COUNT" and draw(st.booleans())
    number: int | Decimal | None = None
    if function == "PERCENTILE":
        number = draw(st.sampled_from([0, 1, Decimal("0.25"), Decimal("0.9")]))
    elif function in ("FIRST", "LAST") and one_in(draw, 4):
        number = draw(st.integers(1, 2))
    if texts and function in ("COUNT", "MIN", "MAX", "FIRST", "LAST") and one_in(draw, 3):
        return tree.Aggregate(function, name, tree.Ref(name, "s"), distinct, number)
    operand: tree.Expression = number_of(draw, name)
    return tree.Aggregate(function, name, shifted(draw, operand) if one_in(draw, 3) else operand, distinct, number)


def aggregate_condition(draw: Draw, names: list[str], depth: int = 1) -> tree.FilterCondition:
    """A condition on aggregates and times of a part, and on single events beside them."""
    total = aggregate(draw, names, texts=False)
    kinds = ["count", "count", "number", "number", "number", "two", "single", "single", "text", "lapse", "null", "in"]
    kinds += ["prev"] + ["and", "or", "or", "not"] * (depth > 0)
    match draw(st.sampled_from(kinds)):
        case "count":
            limit = tree.Literal(draw(st.integers(0, 3)))
            number, op = tree.Aggregate("COUNT", draw(st.sampled_from(names))), draw(st.sampled_from(COMPARISONS))
            return tree.Comparison(op, limit, number) if one_in(draw, 4) else tree.Comparison(op, number, limit)
        case "number":
            return compared(draw, shifted(draw, total), draw(numerals))
        case "two":
            return compared(draw, shifted(draw, total), aggregate(draw, names, texts=False))
        case "single":
            return compared(draw, total, shifted(draw, number_of(draw, draw(st.sampled_from(names)))))
        case "text":
            name = draw(st.sampled_from(names))
            text = tree.Aggregate(draw(st.sampled_from(["MIN", "MAX", "FIRST", "LAST"])), name, tree.Ref(name, "s"))
            if draw(st.booleans()):
                return tree.Like(text, draw(st.sampled_from(["a%", "_", "%b"])), False, draw(st.booleans()))
            return tree.Comparison(draw(st.sampled_from(COMPARISONS)), text, draw(words))
        case "lapse":
            return compared(draw, tree.Lapse("DURATION"), draw(lengths))
        case "null":
            return tree.IsNull(total, draw(st.booleans()))
        case "in":
            if draw(st.booleans()):
                return tree.Between(total, draw(numerals), aggregate(draw, names, texts=False), draw(st.booleans()))
            return tree.In(total, (draw(numerals), draw(intervals())), draw(st.booleans()))
        case "prev":
            name = draw(st.sampled_from(names))
            return compared(draw, tree.Arithmetic("-", tree.Ref(name, "v"), tree.Prev("v")), total)
        case "not":
            return tree.Neg(aggregate_condition(draw, names, depth - 1))
        case kind:
            other = aggregate_condition(draw, names, depth - 1) if draw(st.booleans()) else condition(draw, names, 0)
            items = (aggregate_condition(draw, names, depth - 1), other)
            return joined(tree.Conj if kind == "and" else tree.Disj, items)  # type: ignore[no-any-return]


def with_aggregate(draw: Draw, formula: tree.Formula) -> tree.Formula:
    """One more filter with an aggregate: mostly on the whole, at times on a part; then of a variable outside, too."""
    if one_in(draw, 3):
        target = draw(st.sampled_from(subformulas(formula)))
        outside = one_in(draw, 3) and not may_be_missing(target)
        names = sorted(oracle.variables(formula if outside else target))
        chosen = aggregate_condition(draw, names)
        result = wrapped(formula, target, lambda f: tree.Filter(f, chosen))
        if not oracle.unbound(result):
            return result
    chosen = aggregate_condition(draw, sorted(oracle.variables(formula)))
    return tree.Filter(formula, chosen)


@st.composite
def aggregated_cases(draw: Draw, named: bool = False) -> Generated:
    """Iterations with aggregates in filters, alone and with conditions of other kinds."""
    types = draw(st.sampled_from([["A"], ["A", "B"], ["A", "B"], ["A", "B", "C"]]))
    if draw(st.booleans()):
        names = VARIABLES[: draw(st.sampled_from([1, 2, 3, 3]))]
        formula = sequence(draw, names, types, named)
    else:
        joints = ["then", "then", "then", "or", "all"]
        formula = skeleton(draw, draw(st.sampled_from([1, 2, 2, 3, 3])), Shape(types, named, joints))
    if not any(isinstance(node, tree.Plus | tree.Count) for node in subformulas(formula)):
        formula = repeated(draw, formula)
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        formula = with_aggregate(draw, formula)
    if one_in(draw, 4):
        formula = with_correlated_filter(draw, formula)
    if one_in(draw, 8):
        formula = with_operator(draw, formula)
    if one_in(draw, 8):
        formula = with_window(draw, formula)
    partition = clause(draw, clause_parts(formula)) if one_in(draw, 6) else ()
    query = query_of(draw, formula, partition, named, windows_from(3))
    return Generated(query, draw(likely_streams(formula, min(8, longest_stream(formula)), named, CLOSE)))


@st.composite
def chosen_cases(draw: Draw) -> Generated:
    """A case that compares events, whose strategy compares matches."""
    case: Generated = draw(conditioned_cases() | correlated_cases() | aggregated_cases())
    strategy = draw(st.sampled_from([tree.Strategy.NEXT, tree.Strategy.LAST, tree.Strategy.MAX]))
    return case._replace(query=replace(case.query, strategy=strategy))


@st.composite
def measured_cases(draw: Draw, cases: st.SearchStrategy[Generated]) -> Generated:
    """A case whose query computes something of its matches."""
    case: Generated = draw(cases)
    names, once = sorted(oracle.variables(case.query.formula)), selection(case.query).singles

    def measure() -> tree.Measure:
        single = sorted(set(names) & once)
        match draw(st.sampled_from(["aggregate", "aggregate", "attribute", "difference", "time"])):
            case "attribute" if single:
                return tree.Measure(tree.Ref(draw(st.sampled_from(single)), draw(st.sampled_from("vfsk"))))
            case "difference" if single:
                total = tree.Aggregate("SUM", names[0], number_of(draw, names[0]))
                return tree.Measure(tree.Arithmetic("-", total, number_of(draw, draw(st.sampled_from(single)))), "d")
            case "time":
                return tree.Measure(tree.Lapse(draw(st.sampled_from(["START_TIME", "END_TIME", "DURATION"]))))
        return tree.Measure(aggregate(draw, names))

    measures = tuple(measure() for _ in range(draw(st.integers(1, 3))))
    items = tuple(tree.SelectItem(name) for name in draw(st.sets(st.sampled_from(names))))
    return case._replace(query=replace(case.query, distinct=False, items=items, measures=measures))
