"""Refuses what AFTER MATCH cannot be run with.

In: the shape of a query with AFTER MATCH, after substreams and neighbours have settled what they can. Out: nothing, or
a `QueryError` that says what to write instead. An ordered run is told apart by its state and start alone, so that each
condition must be decided by one event, and an event that may not come must be told by its own attributes.
"""

from __future__ import annotations

from ceql.analysis.shape import Claim, Length, Same, Shape
from ceql.errors import QueryError, Span
from ceql.syntax import tree as t


def check_preferred(shape: Shape, query: t.Query, source: str) -> None:
    """Refuse conditions between events, windows that time does not pass, and NOT that looks beyond a match."""
    assert query.after_match is not None
    for claim in (*shape.at_leaves().claims, *shape.denials):
        raise _refused(claim.text, _instead(claim, query), source, claim.span)
    if isinstance(query.window, t.AttributeWindow):
        advice = "Write WITHIN a duration, or WITHIN a number of EVENTS."
        raise _refused(f"WITHIN {query.window.size} [{query.window.attribute}]", advice, source, query.window.span)
    for number, absence in enumerate(shape.absences):
        if shape.trails(number):
            advice = "Without AFTER MATCH, each match that ends so is found."
            raise _refused(f"{absence.text} at the end", advice, source, absence.span)
        if shape.leads(number) and query.window is not None:
            advice = "Leave out WITHIN, or the NOT."
            raise _refused(f"{absence.text} at the beginning, beside WITHIN,", advice, source, absence.span)


def _refused(what: str, advice: str, source: str, span: Span | None) -> QueryError:
    return QueryError(f"{what} cannot be decided beside AFTER MATCH yet", source, span, advice)


def _instead(claim: Claim, query: t.Query) -> str:
    """What to write instead of a condition that several events decide."""
    match claim.what:
        case Length():
            return "Write WITHIN after the formula: the clause bounds the whole match."
        case Same():
            return "Write the clause PARTITION BY after the formula: each key then has starts of its own."
    skips = query.after_match is not None and query.after_match.skip is not t.Skip.TO_NEXT
    keyed = " If all events share the value, write PARTITION BY after the formula." if skips else ""
    return (
        f"Conditions of single events, and of those that ':' joins, can stand beside AFTER MATCH.{keyed} Without AFTER "
        "MATCH any condition can."
    )
