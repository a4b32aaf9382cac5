"""Refuses what AFTER MATCH cannot be run with.

In: the shape of a query with AFTER MATCH, after substreams and neighbours have settled what they can. Out: nothing, or
a `QueryError` that says what to write instead. Each condition must be decided by what a run carries.
"""

from __future__ import annotations

from collections.abc import Sequence

from ceql.analysis.shape import Claim, Shape
from ceql.errors import QueryError, Span
from ceql.syntax import tree as t


def check_preferred(shape: Shape, query: t.Query, source: str) -> None:
    """Refuse NOT that looks back as far as a window reaches."""
    for number, absence in enumerate(shape.absences):
        if shape.leads(number) and query.window is not None:
            advice = "Leave out WITHIN, or the NOT."
            raise _refused(f"{absence.text} at the beginning, beside WITHIN,", advice, source, absence.span)


def check_decided(left: Sequence[Claim], source: str) -> None:
    """Refuse conditions that only whole matches tell: another may then be preferred."""
    for claim in left:
        raise _refused(claim.text, "Without AFTER MATCH any condition can.", source, claim.span)


def _refused(what: str, advice: str, source: str, span: Span | None) -> QueryError:
    return QueryError(f"{what} cannot be decided beside AFTER MATCH yet", source, span, advice)
