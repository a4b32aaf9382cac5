"""Names events and their values by the variables of the formula."""

from __future__ import annotations

from collections.abc import Iterable

from ceql.analysis.conditions import replaced, spell_out
from ceql.analysis.shape import Shape
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition, print_expression, print_name


def leaf_variable(shape: Shape, leaf: int) -> str:
    """The variable of a leaf's events, or their type."""
    here = shape.leaf[leaf]
    return min(here.variables - {here.type}, default=here.type)


def leaf_name(shape: Shape, leaf: int) -> str:
    """The same as it is written in a query."""
    return print_name(leaf_variable(shape, leaf))


def event_name(shape: Shape, leaves: Iterable[int]) -> str:
    """What an event that is read at any of these leaves is called."""
    return " or ".join(dict.fromkeys(leaf_name(shape, leaf) for leaf in sorted(leaves)))


def print_value(term: t.Expression, name: str) -> str:
    """A value of the event that is called `name`."""
    if isinstance(term, t.Attribute):
        return (
            f"({name}).{print_name(term.name)}"
            if " " in name and "`" not in name
            else f"{name}.{print_name(term.name)}"
        )
    return f"({print_expression(term)}) of {name}"


def print_own(what: t.Expression | t.Predicate, variable: str) -> str:
    """A value of a variable's event, or whether a condition holds for it.

    >>> print_own(t.Arithmetic("+", t.Attribute("price"), t.Literal(90)), "a")
    'a.price + 90'
    >>> print_own(t.Comparison(">", t.Attribute("price"), t.Literal(90)), "a")
    'whether a.price > 90'
    """
    if isinstance(what, t.Expression):
        return print_bare(spell_out(what, variable))
    return print_bare(spell_out(what, variable))


def print_bare(what: t.Expression | t.Predicate) -> str:
    """The same without a name."""
    return print_expression(what) if isinstance(what, t.Expression) else f"whether {print_condition(what)}"


def print_of_previous(what: t.Predicate) -> str:
    """Whether a condition holds for the event before.

    >>> print_of_previous(t.IsNull(t.Attribute("k")))
    'whether PREV.k IS NULL'
    """
    return print_bare(replaced(what, lambda leaf: t.Prev(leaf.name) if isinstance(leaf, t.Attribute) else leaf))


def listed(words: Iterable[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} and {last}" if first else last
