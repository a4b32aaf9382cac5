"""Reasons why a statement cannot be run, each with its place in the SQL.

A stage that cannot go on raises `Refused`. One that can notes the reason and goes on with the next part, so
that the author learns all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ceql.errors import QueryError, Span


class Refused(Exception):
    """A construct that cannot be evaluated, or SQL that cannot be read."""

    def __init__(self, message: str, span: Span | None, advice: str | None = None):
        super().__init__(message)
        self.message = message
        self.span = span
        self.advice = advice


class Problems(list[Refused]):
    """The reasons found so far."""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A reason that is raised in here is kept, and what comes after goes on."""
        try:
            yield
        except Refused as problem:
            self.append(problem)

    def error(self, sql: str, last: str | None = None) -> QueryError:
        """All reasons as one error, in the order of their places; it is that of the first, which lists the others, and
        ends with `last`."""
        first, *others = self._in_order(sql)
        also = [f"\nAlso: {QueryError(other.message, sql, other.span, other.advice)}" for other in others]
        ending = f"\n{last}" if last and also else last
        advice = "\n".join(filter(None, [first.advice, *also, ending])) or None
        return QueryError(first.message, sql, first.span, advice)

    def _in_order(self, sql: str) -> list[Refused]:
        once = {(problem.message, problem.span): problem for problem in self}
        return sorted(once.values(), key=lambda problem: problem.span or Span(len(sql), 0))
