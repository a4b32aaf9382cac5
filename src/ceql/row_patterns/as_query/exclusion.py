"""Decides if two conditions can hold for the same row, and what it takes that one does not hold.

All conditions here are in negation normal form. The proof finds a contradiction between comparisons of
the same two values, or of one value with literals. It is sound, and knows `price < PREV(price)` from
`price > PREV(price)`, but it does no arithmetic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

from ceql.syntax import tree
from ceql.syntax.walking import below, leaves

MOST_CASES = 64
_OUTCOMES = {"<": {-1}, "<=": {-1, 0}, "=": {0}, ">=": {0, 1}, ">": {1}, "!=": {-1, 1}}
_LOSSLESS = {"ABS", "FLOOR", "CEIL", "LOWER", "UPPER", "LENGTH", "YEAR", "MONTH", "DAY"}  # NULL only of NULL


def exclusive(one: tree.Condition | None, other: tree.Condition | None, same_match: bool) -> bool:
    """True if no row satisfies both; None is no condition.

    Other variables stand for the same rows only if both conditions belong to one partial match (`same_match`).
    """
    return all(_contradictory([*a, *b], same_match) for a, b in product(_cases(one), _cases(other)))


def not_true(condition: tree.Condition) -> tree.Condition:
    """Holds where `condition` is false or unknown."""
    match condition:
        case tree.Conj(items):
            return tree.Disj(tuple(map(not_true, items)))
        case tree.Disj(items):
            return tree.Conj(tuple(map(not_true, items)))
        case tree.IsNull(operand, negated):
            return tree.IsNull(operand, not negated)
    missing = [tree.IsNull(operand) for operand in below(condition) if leaves(operand)]
    return tree.Disj((_inverse(condition), *missing))


def never_null(condition: tree.Condition | None) -> set[tree.Expression]:
    """The attributes of events that are not NULL where the condition holds."""
    match condition:
        case None:
            return set()
        case tree.Conj(items):
            return set[tree.Expression]().union(*map(never_null, items))
        case tree.Disj(items):
            return set.intersection(*map(never_null, items))
        case tree.IsNull(operand, negated):
            return set(_needed(operand)) if negated else set()
    return {leaf for operand in below(condition) for leaf in _needed(operand)}


def _needed(expression: tree.Expression) -> Iterator[tree.Attribute | tree.Prev | tree.Ref]:
    """The attributes that are not NULL where the expression is not."""
    match expression:
        case tree.Call(function) if function not in _LOSSLESS:
            return
        case tree.Call(_, arguments):
            for argument in arguments:
                yield from _needed(argument)
        case tree.Arithmetic(_, left, right):
            yield from _needed(left)
            yield from _needed(right)
        case tree.Minus(operand):
            yield from _needed(operand)
        case tree.Attribute() | tree.Prev() | tree.Ref():
            yield expression


def _inverse(condition: tree.Condition) -> tree.Condition:
    match condition:
        case tree.Comparison(op, left, right):
            return tree.Comparison(tree.NEGATED[op], left, right)
        case tree.Between(operand, low, high, negated):
            return tree.Between(operand, low, high, not negated)
        case tree.In(operand, items, negated):
            return tree.In(operand, items, not negated)
        case tree.Like(operand, pattern, regex, negated):
            return tree.Like(operand, pattern, regex, not negated)
    raise AssertionError(condition)


def _cases(condition: tree.Condition | None) -> list[list[tree.Condition]]:
    """The condition as an OR of ANDs; no more than `MOST_CASES`: one that says nothing stands for the rest."""
    match condition:
        case None:
            return [[]]
        case tree.Disj(items):
            found = [case for item in items for case in _cases(item)]
        case tree.Conj(items):
            found = [[]]
            for item in items:
                found = [[*a, *b] for a, b in product(found, _cases(item))][: MOST_CASES + 1]
        case _:
            found = [[condition]]
    return found if len(found) <= MOST_CASES else [[]]


def _contradictory(atoms: list[tree.Condition], same_match: bool) -> bool:
    """True if the conditions cannot all hold."""
    if not same_match:
        atoms = [atom for atom in atoms if not any(isinstance(leaf, tree.Ref) for leaf in leaves(atom))]
    needed = set[tree.Expression]().union(*(never_null(atom) for atom in atoms))
    outcomes: defaultdict[tuple[tree.Expression, tree.Expression], set[int]] = defaultdict(lambda: {-1, 0, 1})
    with_literals: defaultdict[tree.Expression, list[tree.Condition]] = defaultdict(list)
    texts: set[tuple[tree.Expression, str, bool]] = set()
    for atom in atoms:
        match atom:
            case tree.IsNull(operand, False):
                if operand in needed:
                    return True
            case tree.Comparison(op, left, tree.Literal()):
                with_literals[left].append(atom)
            case tree.Comparison(op, tree.Literal() as literal, right):
                with_literals[right].append(tree.Comparison(tree.FLIPPED[op], right, literal))
            case tree.Comparison(op, left, right):
                if repr(left) > repr(right):
                    op, left, right = tree.FLIPPED[op], right, left
                outcomes[left, right] &= _OUTCOMES[op]
            case tree.In(operand) | tree.Between(operand, tree.Literal(), tree.Literal()):
                with_literals[operand].append(atom)
            case tree.Like(operand, pattern, _, negated):
                if (operand, pattern, not negated) in texts:
                    return True
                texts.add((operand, pattern, negated))
    return not all(outcomes.values()) or not all(map(_some_value, with_literals.values()))


def _some_value(atoms: list[tree.Condition]) -> bool:
    """Whether a value can satisfy all of these comparisons with literals.

    Literals in order have the ranks 1, 3, 5 …; the values between them have the even ranks.
    """
    values = {literal for atom in atoms for literal in _literals(atom)}
    kinds = {str if isinstance(value, str) else bool if isinstance(value, bool) else float for value in values}
    if len(kinds) != 1:
        return True
    ranks = {value: 2 * k + 1 for k, value in enumerate(sorted(values))}  # type: ignore[type-var]
    return any(all(_holds(atom, rank, ranks) for atom in atoms) for rank in range(2 * len(ranks) + 1))


def _literals(atom: tree.Condition) -> list[object]:
    match atom:
        case tree.Comparison(_, _, tree.Literal(value)):
            return [value]
        case tree.Between(_, tree.Literal(low), tree.Literal(high)):
            return [low, high]
        case tree.In(_, items):
            return [item.value for item in items if isinstance(item, tree.Literal)]
    return []


def _holds(atom: tree.Condition, rank: int, ranks: dict[object, int]) -> bool:
    match atom:
        case tree.Comparison(op, _, tree.Literal(value)):
            other = ranks[value]
            return (rank > other) - (rank < other) in _OUTCOMES[op]
        case tree.Between(_, tree.Literal(low), tree.Literal(high), negated):
            return (ranks[low] <= rank <= ranks[high]) != negated
        case tree.In(_, _, negated):
            return (rank in {ranks[value] for value in _literals(atom)}) != negated
    return True
