"""The exceptions and warnings of the package, and how they tell the author of a query or the owner of the data.

One family: a wrong query (`QueryError`, with its place and a suggestion), a query that does not
fit the columns it is run over (`SchemaError`), an argument that makes no sense (`ArgumentError`),
events that break a promise (`DataError`), a limit that was reached (`ResourceError`).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple


class Span(NamedTuple):
    """The place of a construct in the query's text: offsets of its first character and past its last."""

    start: int
    end: int


class CeqlError(Exception):
    """Anything that this package raises on purpose."""


class QueryError(CeqlError):
    """The query cannot be read, or does not mean anything.

    `line` and `column` count from 1; `caret` shows the line with a mark under the place.
    """

    def __init__(
        self, message: str, source: str | None = None, span: Span | None = None, suggestion: str | None = None
    ):
        self.message = message
        self.suggestion = suggestion
        self.line: int | None = None
        self.column: int | None = None
        self.caret: str | None = None
        if source is not None and span is not None:
            start = min(span.start, len(source))
            line_start = source.rfind("\n", 0, start) + 1
            line_end = source.find("\n", start)
            text = source[line_start : line_end if line_end >= 0 else len(source)]
            self.line = source.count("\n", 0, start) + 1
            self.column = start - line_start + 1
            width = max(1, min(span.end, line_start + len(text)) - start)
            indent = "".join("\t" if c == "\t" else " " for c in text[: self.column - 1])
            self.caret = f"{text}\n{indent}{'^' * width}"
        super().__init__(self._render())

    def _render(self) -> str:
        parts = [self.message]
        if self.line is not None:
            parts[0] += f" (line {self.line}, column {self.column})"
            parts.append("\n".join("  " + line for line in (self.caret or "").split("\n")))
        if self.suggestion:
            parts.append(self.suggestion)
        return "\n".join(parts)


class SchemaError(QueryError):
    """The query is sound, but not over these columns: an attribute is missing or has another type."""


class ArgumentError(CeqlError, ValueError):
    """An argument of a call makes no sense: a lateness below zero, a limit that is no number."""


class DataError(CeqlError):
    """An event breaks a promise that the engine relies on (a NULL time, a window attribute that goes back)."""


class NoMatchWarning(UserWarning):
    """The query can never match, or no event has a type that it names."""


class LateEventsWarning(UserWarning):
    """Events were set aside because they came later than the lateness allows."""


class ResourceError(CeqlError):
    """A limit that the caller can set was reached; the message names it. The state stays valid."""

    def __init__(self, message: str, limit: str):
        super().__init__(message)
        self.limit = limit

    def __reduce__(self) -> tuple[type[ResourceError], tuple[str, str]]:
        return type(self), (str(self), self.limit)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors of a query in here say which query of several they are about; one that is alone has no name."""
    try:
        yield
    except QueryError as error:
        if not name:
            raise
        error.message = f"query '{name}': {error.message}"
        error.args = (error._render(),)
        raise


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, and point at the line outside this package that the work is done for."""
    package = str(Path(__file__).parent) + os.sep
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def no_column(name: str, columns: list[str], source: str, span: Span | None, is_value: bool = False) -> SchemaError:
    """The error for an attribute that the events do not have, with the nearest column or all of them.

    `is_value`: a text could stand here as well, and may have been meant.
    """
    hint = did_you_mean(name, columns)
    if hint is None:
        hint = f"The columns are: {', '.join(columns)}."
        if is_value:
            hint += " Write IS NULL." if name.lower() in ("none", "nan") else f" A text is written in quotes: '{name}'."
    return SchemaError(f"the events have no column '{name}'", source, span, hint)


def did_you_mean(name: str, known: list[str]) -> str | None:
    """A sentence that offers the nearest known name, or None when none is near.

    >>> did_you_mean("prise", ["price", "volume"])
    "Did you mean 'price'?"
    """
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if not near:
        folded = [k for k in known if k.lower() == name.lower()]
        near = folded[:1]
    return f"Did you mean '{near[0]}'?" if near else None


def nearest(name: str, known: list[str]) -> str | None:
    """The known name that was probably meant, whatever its case.

    >>> nearest("Sel", ["BUY", "SELL"]), nearest("A", ["B"])
    ('SELL', None)
    """
    folded = {k.strip().casefold(): k for k in reversed(known)}
    near = get_close_matches(name.strip().casefold(), list(folded), n=1)
    return folded[near[0]] if near else None
