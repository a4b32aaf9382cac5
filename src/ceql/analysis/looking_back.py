"""Tells authors how far NOT at the beginning looks back, where WITHIN makes that surprising.

In: a query. Out: nothing, or a note. The window is measured from the last event of a match, for NOT too: in
`NOT A ; B ; C WITHIN 5 MINUTES`, an A six minutes before C is no obstacle, even if it comes a minute before B.
"""

from __future__ import annotations

from dataclasses import replace

from ceql.syntax import tree as t
from ceql.syntax.printer import print_formula, print_window


def looks_back(query: t.Query) -> str | None:
    """What to say of NOT at the beginning of matches of several events beside WITHIN.

    >>> from ceql.syntax.parser import parse
    >>> print(looks_back(parse("SELECT * WHERE NOT A ; B ; C WITHIN 5 MINUTES")))
    NOT at the beginning looks back from the last event of a match: A more than 5 MINUTES before that is no obstacle,
    however short before the first event. If A may not come before the match at all, and the match alone is to be within
    5 MINUTES, write NOT A ; (B ; C WITHIN 5 MINUTES)
    >>> looks_back(parse("SELECT * WHERE NOT A ; B WITHIN 5 MINUTES")) is None
    True
    """
    chain = _leading(query.formula)
    if query.window is None or chain is None:
        return None
    there = [k for k, item in enumerate(chain.items) if not isinstance(item, t.Not)]
    first = there[0]
    if len(there) == 1 and _is_event(chain.items[first]):
        return None  # the first event is the last
    rest: t.Formula = replace(chain, items=chain.items[first:], joints=chain.joints[first:])
    within = t.Within(chain.items[first] if len(chain.items) == first + 1 else rest, query.window)
    absent = chain.items[:first]
    other = t.Then((*absent, within), (t.Joint.THEN,) * first)
    kinds = " or ".join(print_formula(item.formula) for item in absent if isinstance(item, t.Not))
    size = print_window(query.window)
    return (
        f"NOT at the beginning looks back from the last event of a match: {kinds} more than {size} before that is no "
        f"obstacle, however short before the first event. If {kinds} may not come before the match at all, and the "
        f"match alone is to be within {size}, write {print_formula(other)}"
    )


def _leading(formula: t.Formula) -> t.Then | None:
    """The sequence that begins with NOT, if the formula begins with it."""
    match formula:
        case t.Filter(inner) | t.PartitionBy(inner) | t.As(inner):
            return _leading(inner)
        case t.Then(items):
            return formula if isinstance(items[0], t.Not) else _leading(items[0])
        case t.Or(items):
            return next((found for item in items if (found := _leading(item)) is not None), None)
        case _:
            return None


def _is_event(formula: t.Formula) -> bool:
    while isinstance(formula, t.As | t.Filter):
        formula = formula.formula
    return isinstance(formula, t.Event)
