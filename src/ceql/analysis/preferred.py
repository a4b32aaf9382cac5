"""Refuses what AFTER MATCH cannot be run with.

In: the shape of a query with AFTER MATCH, after substreams and neighbours have settled what they can. Out: nothing, or
a `QueryError` that says what to write instead. Each condition must be decided by what a run carries.
"""

from __future__ import annotations

from collections.abc import Sequence

from ceql.analysis.shape import Claim, Shape
from ceql.errors import QueryError, Span
from ceql.syntax import tree as t


def check_preferred(shape: Shape, query: t.Query, before: Sequence[int], left: Sequence[Claim], source: str) -> None:
    """Refuse conditions that only whole matches tell, since another match may then be preferred; and NOT at the
    beginning that looks back by an attribute, or that some matches ask for and others do not:
    `before` says what may not come before each event at which matches begin."""
    for claim in left:
        raise _refused(claim.text, "Without AFTER MATCH any condition can.", source, claim.span)
    around = query.formula  # a window over an attribute stands there (see `lengths.window_that_decides`)
    by_attribute = isinstance(around, t.Within) and isinstance(around.window, t.AttributeWindow)
    if not by_attribute and (query.window is None or len(set(before)) == 1):
        return
    for number, absence in enumerate(shape.absences):
        if shape.leads(number):
            where = "beside WITHIN over an attribute" if by_attribute else "of one of several parts, beside WITHIN,"
            advice = "Leave out WITHIN, or the NOT."
            raise _refused(f"{absence.text} at the beginning {where}", advice, source, absence.span)


def _refused(what: str, advice: str, source: str, span: Span | None) -> QueryError:
    return QueryError(f"{what} cannot be decided beside AFTER MATCH yet", source, span, advice)
