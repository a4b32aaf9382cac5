"""Builds the nodes of formulas and conditions while the parser reads.

In: for each rule of ceql.lark, the parser calls the method of that name with the tokens and nodes that the rule
matched. Out: a node of `tree`. Nothing here recurses, so a query may be deep.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeVar

from lark import Token

from ceql.errors import Span
from ceql.syntax import tree
from ceql.syntax.absence import may_be_missing
from ceql.syntax.conditions import as_condition, as_expression, as_filter, as_predicate
from ceql.syntax.durations import nanoseconds_of
from ceql.syntax.functions import count_of_matches, function_call, without_aggregates
from ceql.syntax.limits import MAX_COUNT, QueryProblem, check_depth, read_number

Children = list[Any]
Node = TypeVar("Node", tree.Conj, tree.Disj, tree.All, tree.Or)


def span_of(children: Children) -> Span:
    """The span from the start of the first child to the end of the last."""
    first, last = children[0], children[-1]
    start = (first.start_pos or 0) if isinstance(first, Token) else first.span.start
    end = (last.end_pos or 0) if isinstance(last, Token) else last.span.end
    return Span(start, end)


def whole_number(token: Token, least: int, what: str) -> int:
    value = read_number(token, span_of([token]))
    if not isinstance(value, int) or not least <= value <= MAX_COUNT:
        raise QueryProblem(f"{what} is a whole number from {least} to 2^63 - 1, not {token}", span_of([token]))
    return value


def is_token(child: object, *kinds: str) -> bool:
    return isinstance(child, Token) and child.type in kinds


def without_punctuation(children: Children) -> Children:
    """The children without the tokens of punctuation and keywords."""
    return [child for child in children if not isinstance(child, Token) or child.type == "NAME"]


def flat_chain(kind: type[Node], children: Children, items: Children) -> Node:
    """A chain of `items`. The items of a chain of the same kind in parentheses become items of this one."""
    flat = [inner for item in items for inner in (item.items if isinstance(item, kind) else (item,))]
    return kind(tuple(flat), span=span_of(children))


def literal_of(token: Token) -> tree.Literal:
    value: Any
    match token.type:
        case "NUMBER":
            value = read_number(token, span_of([token]))
        case "STRING":
            value = token[1:-1].replace(token[0] * 2, token[0])
        case kind:
            value = {"TRUE": True, "FALSE": False, "NULL": None}[kind]
    return tree.Literal(value, span=span_of([token]))


def negative(literal: tree.Literal, span: Span) -> tree.Literal:
    # not `-value`, which rounds a Decimal to the digits of the context
    value = literal.value
    assert isinstance(value, int | Decimal)
    return tree.Literal(-value if isinstance(value, int) else value.copy_negate(), span=span)


def is_number(literal: tree.Literal) -> bool:
    return not isinstance(literal.value, bool | str | None)


def joint_of(sign: Token) -> tree.Joint:
    """How the rounds are joined of a count that begins with this token: `+`, `:+`, `->+`, `{`, ..."""
    return next(
        (joint for joint in (tree.Joint.NEXT, tree.Joint.TOUCH) if sign.startswith(joint.value)), tree.Joint.THEN
    )


def _may_begin_later(chain: tree.Then) -> bool:
    """Whether a chain has a meaning of its own after `->`: it does not always begin with its first item."""
    return isinstance(chain.items[0], tree.Not) or may_be_missing(chain.items[0])


class ConditionBuilder:
    """Names, expressions, predicates and filters."""

    def name(self, children: Children) -> Token:
        token: Token = children[0]
        if token.type != "QUOTED":
            return token
        text = token[1:-1].replace("``", "`")
        if not text:
            raise QueryProblem("A name cannot be empty", span_of(children))
        return token.update("NAME", text)

    def parentheses(self, children: Children) -> Any:
        return replace(children[1], span=span_of(children))

    def disjunction(self, children: Children) -> tree.Disj:
        return flat_chain(tree.Disj, children, [as_condition(c) for c in children[::2]])

    def conjunction(self, children: Children) -> tree.Conj:
        return flat_chain(tree.Conj, children, [as_condition(c) for c in children[::2]])

    def negated(self, children: Children) -> tree.Neg:
        return tree.Neg(as_condition(children[1]), span=span_of(children))

    def comparison(self, children: Children) -> tree.Comparison:
        left, op, right = children
        op = {"==": "=", "<>": "!="}.get(op, str(op))
        return tree.Comparison(op, as_expression(left), as_expression(right), span=span_of(children))

    def like(self, children: Children) -> tree.Like:
        operand, *negation, word, pattern = children
        text = str(literal_of(pattern).value)
        regex = word.type == "RLIKE"
        return tree.Like(as_expression(operand), text, regex, bool(negation), span=span_of(children))

    def in_set(self, children: Children) -> tree.In:
        items = tuple(without_punctuation(children[1:]))
        return tree.In(as_expression(children[0]), items, is_token(children[1], "NOT"), span=span_of(children))

    def in_range(self, children: Children) -> tree.Between:
        operand, low, high = map(as_expression, (children[0], children[-4], children[-2]))
        return tree.Between(operand, low, high, is_token(children[1], "NOT"), range_form=True, span=span_of(children))

    def between(self, children: Children) -> tree.Between:
        operand, low, high = map(as_expression, (children[0], children[-3], children[-1]))
        return tree.Between(operand, low, high, is_token(children[1], "NOT"), span=span_of(children))

    def is_null(self, children: Children) -> tree.IsNull:
        return tree.IsNull(as_expression(children[0]), is_token(children[2], "NOT"), span=span_of(children))

    def element(self, children: Children) -> tree.Literal | tree.Interval:
        dots = [i for i, child in enumerate(children) if isinstance(child, Token)]
        if not dots:
            literal: tree.Literal = children[0]
            return literal
        low = children[0] if dots[0] == 1 else None
        high = children[dots[0] + 1] if dots[0] + 1 < len(children) else None
        for end in (low, high):
            if end is not None and not (is_number(end) or isinstance(end.value, str)):
                raise QueryProblem("The ends of a range are numbers or texts", end.span)
        if low is not None and high is not None and is_number(low) != is_number(high):
            raise QueryProblem("The ends of a range are two numbers or two texts", span_of(children))
        return tree.Interval(low, high, span=span_of(children))

    def end(self, children: Children) -> tree.Literal:
        literal = literal_of(children[-1])
        return negative(literal, span_of(children)) if len(children) > 1 else literal

    def arithmetic(self, children: Children) -> tree.Arithmetic:
        left, op, right = children
        return tree.Arithmetic(str(op), as_expression(left), as_expression(right), span=span_of(children))

    def minus(self, children: Children) -> tree.Literal | tree.Duration | tree.Minus:
        operand = as_expression(children[1])
        if isinstance(operand, tree.Literal) and is_number(operand):
            return negative(operand, span_of(children))
        if isinstance(operand, tree.Duration):
            return tree.Duration(-operand.nanoseconds, span=span_of(children))
        return tree.Minus(operand, span=span_of(children))

    def literal(self, children: Children) -> tree.Literal:
        return literal_of(children[0])

    def duration(self, children: Children) -> tree.Duration:
        total = nanoseconds_of(children, "EVENTS is no unit of time")
        return tree.Duration(total, span=span_of(children))

    def call(self, children: Children) -> tree.Call | tree.Aggregate:
        if children[0].upper() in ("IF", "IIF"):
            raise QueryProblem("There is no IF", span_of(children), "Write the cases with AND and OR.")
        arguments = tuple(as_expression(child) for child in children[2:-1:2])
        return function_call(children[0], arguments, span_of(children))

    def distinct_call(self, children: Children) -> tree.Call | tree.Aggregate:
        arguments = tuple(as_expression(child) for child in children[3:-1:2])
        return function_call(children[0], arguments, span_of(children), distinct=True)

    def count_all(self, children: Children) -> tree.Aggregate:
        return count_of_matches(children[0], span_of(children))

    def attribute(self, children: Children) -> tree.Attribute:
        return tree.Attribute(str(children[0]), span=span_of(children))

    def ref(self, children: Children) -> tree.Ref:
        return tree.Ref(str(children[0]), ".".join(children[2::2]), span=span_of(children))

    def prev(self, children: Children) -> tree.Prev:
        return tree.Prev(".".join(children[2::2]), span=span_of(children))

    def bracket(self, children: Children) -> tree.Bracket:
        condition = as_condition(children[2])
        check_depth(condition)
        without_aggregates(condition, "inside x[...], which speaks of single events")
        return tree.Bracket(str(children[0]), as_predicate(condition), span=span_of(children))


class FormulaBuilder(ConditionBuilder):
    """The formulas of WHERE."""

    def filter(self, children: Children) -> tree.Filter:
        condition = as_condition(children[2])
        check_depth(condition)
        return tree.Filter(children[0], as_filter(condition), span=span_of(children))

    def partition_by(self, children: Children) -> tree.PartitionBy:
        return tree.PartitionBy(children[0], tuple(without_punctuation(children[1:])), span=span_of(children))

    def any_of(self, children: Children) -> tree.Or:
        return flat_chain(tree.Or, children, children[::2])

    def all_of(self, children: Children) -> tree.All:
        return flat_chain(tree.All, children, children[::2])

    def chain(self, children: Children) -> tree.Then:
        items: list[tree.Formula] = []
        joints: list[tree.Joint] = []
        for child in children:
            match child:
                case Token():
                    joints.append(tree.Joint(str(child)))
                case tree.Then() if not (joints and joints[-1] is tree.Joint.NEXT and _may_begin_later(child)):
                    items += child.items
                    joints += child.joints
                case _:
                    items.append(child)
        return tree.Then(tuple(items), tuple(joints), span=span_of(children))

    def absent(self, children: Children) -> tree.Not:
        variable = str(children[3]) if len(children) > 2 else None
        return tree.Not(children[1], variable, span=span_of(children))

    def absentees(self, children: Children) -> tree.Event | tree.Or:
        events = children[1:-1:2]
        return (
            tree.Or(tuple(events), span=span_of(children))
            if len(events) > 1
            else replace(events[0], span=span_of(children))
        )

    def named(self, children: Children) -> tree.As:
        return tree.As(children[0], str(children[2]), span=span_of(children))

    def repeated(self, children: Children) -> tree.Plus:
        return tree.Plus(children[0], joint_of(children[1]), span=span_of(children))

    def optional(self, children: Children) -> tree.Count:
        most = 1 if is_token(children[1], "QMARK") else None
        return tree.Count(children[0], 0, most, joint_of(children[1]), span=span_of(children))

    def reluctant(self, children: Children) -> tree.Plus | tree.Count:
        count: tree.Plus | tree.Count = children[0]
        return replace(count, reluctant=True, span=span_of(children))

    def counted(self, children: Children) -> tree.Count | tree.Plus:
        formula, opening, *inside = children[:-1]
        joint, span = joint_of(opening), span_of(children)
        least = 0 if is_token(inside[0], "COMMA") else whole_number(inside[0], 0, "A count")
        most: int | None = least
        if any(is_token(child, "COMMA") for child in inside):
            most = whole_number(inside[-1], 0, "A count") if is_token(inside[-1], "NUMBER") else None
        if most is not None and most < least:
            raise QueryProblem(
                f"A count goes from the lesser number to the greater, not from {least} to {most}",
                span_of(inside),
                f"Did you mean {{{most},{least}}}?",
            )
        if (least, most) == (1, None):
            return tree.Plus(formula, joint, span=span)
        return tree.Count(formula, least, most, joint, span=span)

    def windowed(self, children: Children) -> tree.Within:
        return tree.Within(children[0], children[2], span=span_of(children))

    def event(self, children: Children) -> tree.Event:
        stream = str(children[0]) if len(children) > 1 else None
        return tree.Event(str(children[-1]), stream, span=span_of(children))

    def part(self, children: Children) -> tree.Part:
        refs = [self.part_ref([c]) if isinstance(c, Token) else c for c in without_punctuation(children)]
        return tree.Part(tuple(refs), span=span_of(children))

    def part_ref(self, children: Children) -> tree.PartRef:
        name = str(children[0]) if len(children) > 1 else None
        return tree.PartRef(str(children[-1]), name, span=span_of(children))
