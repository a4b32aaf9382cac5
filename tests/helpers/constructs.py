"""Which constructs of the language a query has, to tell what random queries cover."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from ceql.syntax import tree as t
from ceql.syntax.functions import AGGREGATES, FUNCTIONS
from ceql.syntax.walking import nodes

_INNER = {"Query", "Part", "PartRef", "Interval", "SelectItem"}  # parts of others, which say no more


def of(query: t.Query) -> set[str]:
    """The names of the constructs of a query.

    >>> from ceql.syntax.parser import parse
    >>> sorted(of(parse("SELECT ANY * WHERE A : B+ WITHIN 3 EVENTS LIMIT 2")))
    ['ANY', 'Event', 'EventsWindow', 'LIMIT', 'Plus', 'Then', 'Then TOUCH']
    """
    return set(_of(query)) - _INNER


def _of(query: t.Query) -> Iterator[str]:
    for node in nodes(query):
        yield type(node).__name__
        match node:
            case t.Then(joints=joints):
                yield from (f"Then {joint.name}" for joint in joints if joint is not t.Joint.THEN)
            case t.Plus(joint=joint) | t.Count(joint=joint) if joint is not t.Joint.THEN:
                yield f"{type(node).__name__} {joint.name}"
            case t.Call(function) | t.Aggregate(function):
                yield f"{function}()"
            case t.Within(window=window):
                yield type(window).__name__
            case t.Event(stream=str()):
                yield "stream>type"
    if query.window is not None:
        yield type(query.window).__name__
    if query.strategy is not None:
        yield query.strategy.name
    if query.consume is not t.Consume.NONE:
        yield f"CONSUME BY {query.consume.name}"
    clauses = {
        "DISTINCT": query.distinct, "LIMIT": query.limit is not None, "PARTITION BY": query.partition,
        "FROM several": len(query.streams) > 1, "SELECT items": query.items,
    }  # fmt: skip
    yield from (name for name, there in clauses.items() if there)


_CLASSES = {name for name, kind in inspect.getmembers(t, inspect.isclass) if "span" in getattr(kind, "__slots__", ())}
EVERY = (
    frozenset(
        _CLASSES
        | {f"{kind} {joint}" for kind in ("Then", "Plus", "Count") for joint in ("TOUCH", "NEXT")}
        | {"stream>type"}
        | {"DISTINCT", "LIMIT", "PARTITION BY", "FROM several", "SELECT items"}
        | {strategy.name for strategy in t.Strategy}
        | {f"CONSUME BY {consume.name}" for consume in t.Consume if consume is not t.Consume.NONE}
        | {window.__name__ for window in (t.EventsWindow, t.TimeWindow, t.AttributeWindow)}
        | {f"{name}()" for name in (*FUNCTIONS, *AGGREGATES)}
    )
    - _INNER
)
