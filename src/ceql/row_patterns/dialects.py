"""Dialects of MATCH_RECOGNIZE: what they say where a statement does not, and how sqlglot reads their expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from ceql.errors import ArgumentError

Function = Callable[..., Any] | str
"""Over Arrow arrays, a value for each row; or an expression of SQL as `(x, y) -> SUM(x * y)`, which may aggregate."""


@dataclass(frozen=True)
class Dialect:
    """What a dialect says where the statement does not; the defaults are those of the standard, as Trino reads it."""

    syntax: str = "trino"
    """The dialect of sqlglot for expressions: how `/` divides whole numbers is one of the things that it says."""
    skip_past: bool | None = True
    """The default of AFTER MATCH: PAST LAST ROW, TO NEXT ROW, or not known."""
    case: Literal["upper", "kept", "ignored"] = "upper"
    """Of labels without quotes; 'ignored': with quotes too."""
    nulls: Literal["last", "large", "small"] = "last"
    """Where ORDER BY puts NULL unless it says so: last in both directions, as the largest, or as the smallest value."""
    whole_means: bool = False
    """Whether AVG of whole numbers is one, cut towards zero."""
    confined: bool = False
    """Whether PREV and NEXT of MEASURES stay in the match, and are NULL beyond it."""

    in_days: bool = False
    """Whether a date less a date is a number of days, and a number beside a date is one of days."""
    functions: Mapping[str, Function] = field(default_factory=dict)
    """Functions of the user's, by their names in lower case."""
    moment: datetime | None = None
    """What CURRENT_TIMESTAMP is, if it was said."""

    def label(self, name: str, quoted: bool) -> str:
        """The name by which a label of PATTERN is known."""
        kept = self.case == "kept" or (quoted and self.case == "upper")
        return name if kept else name.upper()


DIALECTS = {
    "trino": Dialect(),
    "oracle": Dialect(syntax="oracle", nulls="large", in_days=True),
    "snowflake": Dialect(syntax="snowflake", nulls="large", confined=True),
    "flink": Dialect(skip_past=False, case="kept", nulls="small", whole_means=True),
    "databricks": Dialect(syntax="databricks", skip_past=None, case="ignored", nulls="small"),
    "duckdb": Dialect(syntax="duckdb", case="ignored"),
    "spark": Dialect(syntax="spark", nulls="small"),
}


def dialect_of(
    name: str | None, functions: Mapping[str, Function] | None = None, now: datetime | None = None
) -> Dialect:
    """The dialect of a name, with functions of the user's and the current time; None is the standard."""
    if name is not None and name not in DIALECTS:
        raise ArgumentError(f"dialect= is one of {', '.join(DIALECTS)}, or None for the standard, not {name!r}")
    for each, function in (functions or {}).items():
        if not isinstance(function, str) and not callable(function):
            message = f"functions={{{each!r}: …}} is a function over Arrow arrays, or text as '(x, y) -> SUM(x * y)'"
            raise ArgumentError(f"{message}, not {function!r}")
    known = DIALECTS[name] if name is not None else Dialect()
    lower = {each.lower(): function for each, function in (functions or {}).items()}
    return replace(known, functions=lower, moment=now)
