"""Reasons why a statement cannot be translated, each with its place in the SQL.

A stage that cannot go on raises `Untranslatable`. One that can notes the reason and goes on with the next part, so that
the author learns all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ceql.errors import QueryError, Span


class Untranslatable(Exception):
    """A construct whose meaning cannot be kept, or SQL that cannot be read."""

    def __init__(self, message: str, span: Span | None, advice: str | None = None):
        super().__init__(message)
        self.message = message
        self.span = span
        self.advice = advice


class Problems(list[Untranslatable]):
    """The reasons found so far."""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A reason that is raised in here is kept, and what comes after goes on."""
        try:
            yield
        except Untranslatable as problem:
            self.append(problem)

    def error(self, sql: str) -> QueryError:
        """All reasons as one error, in the order of their places; it is that of the first, which lists the others."""
        first, *others = self._in_order(sql)
        also = [f"\nAlso: {QueryError(other.message, sql, other.span, other.advice)}" for other in others]
        return QueryError(first.message, sql, first.span, "\n".join(filter(None, [first.advice, *also])) or None)

    def _in_order(self, sql: str) -> list[Untranslatable]:
        once = {(problem.message, problem.span): problem for problem in self}
        return sorted(once.values(), key=lambda problem: problem.span or Span(len(sql), 0))
