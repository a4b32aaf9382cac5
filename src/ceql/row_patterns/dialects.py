"""Dialects of MATCH_RECOGNIZE: what they say where a statement does not, and how sqlglot reads their expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ceql.errors import ArgumentError


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

    def label(self, name: str, quoted: bool) -> str:
        """The name by which a label of PATTERN is known."""
        kept = self.case == "kept" or (quoted and self.case == "upper")
        return name if kept else name.upper()


DIALECTS = {
    "trino": Dialect(),
    "oracle": Dialect(syntax="oracle", nulls="large"),
    "snowflake": Dialect(syntax="snowflake", nulls="large", confined=True),
    "flink": Dialect(skip_past=False, case="kept", nulls="small", whole_means=True),
    "databricks": Dialect(syntax="databricks", skip_past=None, case="ignored", nulls="small"),
    "duckdb": Dialect(syntax="duckdb", case="ignored"),
    "spark": Dialect(syntax="spark", nulls="small"),
}


def dialect_of(name: str | None) -> Dialect:
    """The dialect of a name; None is the standard."""
    if name is None:
        return Dialect()
    if name not in DIALECTS:
        raise ArgumentError(f"dialect= is one of {', '.join(DIALECTS)}, or None for the standard, not {name!r}")
    return DIALECTS[name]
