"""Windows inside a formula: `(φ WITHIN w)`, as columns that conditions between events can read.

What measures a window gives each event two numbers: its key as the first event of a part, and its bound, the least key
that the first event of a part ending here may have (`recognition.window`). A part is within its window if the key of
its first event is not below the bound of its last one. Positions and times never fall, so that it is enough to compare
each event with the least key so far. An attribute may fall: the first and the last event of a part are compared when
the part is complete.

The two numbers are columns of the events that no user can name.
"""

from __future__ import annotations

from dataclasses import replace

from ceql.syntax import tree as t
from ceql.syntax.printer import print_window

HIDDEN = "\x1f"  # not NUL, which ends a name in C
"""Begins the names of columns that are no attributes of the events."""
TIME = f"{HIDDEN}time of the event"
"""Stands for the column of times, which a plan does not know."""


def key_name(window: t.Window) -> str:
    """The column of the keys; windows of one kind share it."""
    match window:
        case t.EventsWindow():
            return f"{HIDDEN}position"
        case t.TimeWindow():
            return f"{HIDDEN}time"
        case t.AttributeWindow():
            return f"{HIDDEN}start of {print_window(window)}"


def bound_name(window: t.Window) -> str:
    """The column of the bounds."""
    return f"{HIDDEN}least start of {print_window(window)}"


def is_hidden(name: str) -> bool:
    """Whether a column is one of these."""
    return name.startswith(HIDDEN)


def never_falls(window: t.Window) -> bool:
    """Whether the measure of a window never falls."""
    return not isinstance(window, t.AttributeWindow)


def window_of_all(query: t.Query) -> t.Query:
    """The query, with a window on its whole formula as its WITHIN clause, which costs less.

    >>> from ceql.syntax.parser import parse
    >>> window_of_all(parse("SELECT * WHERE ((A ; B WITHIN 5 EVENTS) WITHIN 9 EVENTS)")).window
    EventsWindow(count=5)
    """
    formula, window = _taken_out(query.formula, query.window)
    return query if window is query.window else replace(query, formula=formula, window=window)


def window_that_decides(query: t.Query) -> t.Query:
    """The query, with a window over an attribute as one on its formula, if there is AFTER MATCH: no event says that it
    has passed, so that it decides nothing.

    >>> from ceql.syntax.parser import parse
    >>> query = parse("SELECT * WHERE A ; B WITHIN 5 [v] AFTER MATCH SKIP PAST LAST EVENT")
    >>> window_that_decides(query).window is None, type(window_that_decides(query).formula).__name__
    (True, 'Within')
    """
    if query.after_match is None or not isinstance(query.window, t.AttributeWindow):
        return query
    return replace(query, formula=t.Within(query.formula, query.window, span=query.window.span), window=None)


def _taken_out(formula: t.Formula, window: t.Window | None) -> tuple[t.Formula, t.Window | None]:
    match formula:
        case t.Within(inner, own):
            inner, left = _taken_out(inner, window)
            both = _both(own, left)
            return (inner, both) if both is not None else (replace(formula, formula=inner), left)
        case t.Filter(inner) | t.As(inner) | t.PartitionBy(inner):
            inner, window = _taken_out(inner, window)
            return replace(formula, formula=inner), window
        case _:
            return formula, window


def _both(one: t.Window, other: t.Window | None) -> t.Window | None:
    """The window that says what two say; None if it takes two to say it."""
    match one, other:
        case _, None:
            return one
        case t.EventsWindow(a), t.EventsWindow(b):
            return one if a <= b else other
        case t.TimeWindow(a), t.TimeWindow(b):
            return one if a <= b else other
        case t.AttributeWindow(a, name), t.AttributeWindow(b, same) if name == same:
            return one if a <= b else other
        case _:
            return None
