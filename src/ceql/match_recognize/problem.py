"""What cannot be translated, with its place in the SQL."""

from __future__ import annotations

from ceql.errors import Span


class Untranslatable(Exception):
    """A construct whose meaning cannot be kept, or SQL that cannot be read."""

    def __init__(self, message: str, span: Span | None, advice: str | None = None):
        super().__init__(message)
        self.message = message
        self.span = span
        self.advice = advice
