"""Dialects of MATCH_RECOGNIZE: where a search goes on if AFTER MATCH is left out, and which labels are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ceql.errors import ArgumentError


@dataclass(frozen=True)
class Dialect:
    """What a dialect says where the statement does not; the defaults are those of the standard."""

    skip_past: bool | None = True  # the default of AFTER MATCH: PAST LAST ROW, TO NEXT ROW, or not known
    case: Literal["upper", "kept", "ignored"] = "upper"  # of labels without quotes; 'ignored': with quotes too

    def label(self, name: str, quoted: bool) -> str:
        """The name by which a label of PATTERN is known."""
        kept = self.case == "kept" or (quoted and self.case == "upper")
        return name if kept else name.upper()


DIALECTS = {
    "trino": Dialect(),
    "oracle": Dialect(),
    "snowflake": Dialect(),
    "flink": Dialect(skip_past=False, case="kept"),
    "databricks": Dialect(skip_past=None, case="ignored"),
    "duckdb": Dialect(case="ignored"),
}


def dialect_of(name: str | None) -> Dialect:
    """The dialect of a name; None is the standard."""
    if name is None:
        return Dialect()
    if name not in DIALECTS:
        raise ArgumentError(f"dialect= is one of {', '.join(DIALECTS)}, or None for the standard, not {name!r}")
    return DIALECTS[name]
