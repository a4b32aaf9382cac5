"""Names for the first and the last row of a variable with several rows.

`B.price` in the condition of another variable is the price of the last row of B so far, and FIRST(B.price) that of its
first row. In a query these rows get names of their own: `B+` becomes `(T:* : T AS B_last) AS B`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ceql.row_patterns.pattern import Choice, Leaf, Node, Repeat, Sequence
from ceql.syntax import tree


@dataclass(frozen=True)
class Occurrence:
    """Where a variable stands, if it does so once: its own quantifier, and whether something repeats around it."""

    leaf: Leaf
    repeat: Repeat | None
    looped: bool

    @property
    def single(self) -> bool:
        """It has one row at most."""
        return not self.looped and (self.repeat is None or self.repeat.most == 1)


def occurrences(pattern: Node) -> dict[str, Occurrence | None]:
    """Of each variable, in order; None if it stands at several places."""
    found: dict[str, Occurrence | None] = {}

    def walk(node: Node, looped: bool) -> None:
        match node:
            case Leaf(variable):
                found[variable] = None if variable in found else Occurrence(node, None, looped)
            case Repeat(Leaf(variable) as leaf):
                found[variable] = None if variable in found else Occurrence(leaf, node, looped)
            case Repeat(item, _, most):
                walk(item, looped or most != 1)
            case Sequence(items) | Choice(items):
                for item in items:
                    walk(item, looped)

    walk(pattern, False)
    return found


def counted(formula: tree.Formula, least: int, most: int | None) -> tree.Formula:
    """The formula, so many times in a row."""
    match least, most:
        case 1, 1:
            return formula
        case 1, None:
            return tree.Plus(formula, tree.Joint.TOUCH)
        case 0, 1:
            return tree.Count(formula, 0, 1)
        case _:
            return tree.Count(formula, least, most, tree.Joint.TOUCH)


def split(event: tree.Event, least: int, most: int | None, first: str | None, last: str | None) -> tree.Formula:
    """`least` to `most` events in a row, of which the first and the last have names."""
    sure = max(least, 1)
    named = [name for name in (first, last) if name is not None]
    several = _chain(event, sure, most, first, last)
    if len(named) == 2 and sure == 1:
        one = tree.As(tree.As(event, named[0]), named[1])
        several = one if most == 1 else tree.Or((one, _chain(event, 2, most, first, last)))
    return several if least else tree.Count(several, 0, 1)


def _chain(event: tree.Event, least: int, most: int | None, first: str | None, last: str | None) -> tree.Formula:
    ends = (first is not None) + (last is not None)
    items: list[tree.Formula] = [] if first is None else [tree.As(event, first)]
    if most != ends:
        items.append(counted(event, max(0, least - ends), None if most is None else most - ends))
    if last is not None:
        items.append(tree.As(event, last))
    return items[0] if len(items) == 1 else tree.Then(tuple(items), (tree.Joint.TOUCH,) * (len(items) - 1))
