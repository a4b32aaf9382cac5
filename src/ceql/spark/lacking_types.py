"""Tells why a batch has no match, if it is for want of a type: no event has one that the query needs.

A result that is not empty lacks no type, so that nothing is looked at but after an action that gave nothing, and then
once. First it is asked for one event of each type that is needed, which Spark answers after a few partitions if there
is one. Only where there is none does a job collect the types that there are.

Actions of the DataFrame itself tell (`show`, `count`, `collect`, `toPandas` …). Writers do not: they are no methods of
it. Nor do streams, in which a type may still come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ceql.analysis.needed_types import lacking
from ceql.analysis.scopes import there
from ceql.errors import NoMatchWarning, warn_caller
from ceql.recognition.types_seen import no_match_message
from ceql.spark.frame_methods import SHOWN, with_methods
from ceql.spark.guard_columns import name_of
from ceql.spark.prepare import Prepared
from ceql.syntax import tree as t

_LISTS = {"collect", "take", "tail", "head", "first", "toPandas", "toArrow"}
_CHECK = "_ceql_check"
_MOST = 1000  # types that are looked at for a suggestion


def telling(found: DataFrame, prepared: Prepared, queries: Mapping[str, t.Formula]) -> DataFrame:
    """The matches; if an action gives none, it tells of types that no event has. `queries` are the formulas by name."""
    check = _Check(prepared, queries)

    def change(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        return partial(check.after, name, method) if name in {*_LISTS, "count", "isEmpty", SHOWN} else method

    found = with_methods(found, change)
    found.__dict__[_CHECK] = check
    return found


def tell_of_types(found: DataFrame) -> None:
    """Tell of types that no event has, if nothing has done so yet; `found` is a result of `match` without matches."""
    check: _Check = found.__dict__[_CHECK]
    if not check.done:
        check.tell()


class _Check:
    def __init__(self, prepared: Prepared, queries: Mapping[str, t.Formula]) -> None:
        self._frames, self._bound = prepared.streams, prepared.bound
        self._queries = queries
        self.done = False

    def after(self, name: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call an action, and tell if it gives nothing."""
        result = method(*given, **named)
        if not self.done and _is_empty(name, result):
            self.tell()
        return result

    def tell(self) -> None:
        """Warn, if no event has a type that is needed."""
        self.done = True
        if not any(lacking(formula, self._needed_types()) for formula in self._queries.values()):
            return
        seen, events = self._types()
        bound = self._bound
        message = no_match_message(self._queries, seen, bound.type, bound.streams) if events else None
        if message is not None:
            warn_caller(message, NoMatchWarning)

    def _needed_types(self) -> frozenset[str]:
        """The types that the queries name and some event has; as many of them as are enough."""
        came = frozenset[str]()
        for kind in sorted(frozenset[str]().union(*map(there, self._queries.values()))):
            if any(lacking(formula, came) for formula in self._queries.values()):
                came |= {kind} if any(self._has(k, kind) for k in range(len(self._frames))) else frozenset()
        return came

    def _has(self, number: int, kind: str) -> bool:
        column, frame = self._type(number), self._frames[number]
        if column is None:
            return kind == self._bound.streams[number] and not frame.isEmpty()
        return not frame.where(name_of(column) == F.lit(kind)).isEmpty()

    def _types(self) -> tuple[list[str], bool]:
        """The types of the events, those that the queries name first; and whether there are any events."""
        seen: list[str | None] = []
        named = sorted(frozenset[str]().union(*map(there, self._queries.values())))
        for number, frame in enumerate(self._frames):
            column = self._type(number)
            if column is None:
                seen += [] if frame.isEmpty() else [self._bound.streams[number]]
                continue
            kind = name_of(column)
            types = frame.select(kind.alias("kind")).distinct().orderBy(~F.col("kind").isin(named), "kind")
            seen += [row["kind"] for row in types.limit(_MOST).collect()]
        return [kind for kind in seen if kind is not None], bool(seen)

    def _type(self, number: int) -> str | None:
        """The column of types of a stream; None where the name of the stream is the type of its events."""
        return None if number in self._bound.untyped else self._bound.type


def _is_empty(action: str, result: Any) -> bool:
    match action:
        case "count":
            return bool(result == 0)
        case "isEmpty":
            return bool(result)
        case name if name == SHOWN:
            lines = str(result).splitlines()
            return "(0 rows)" in lines or (len(lines) == 4 and lines[2] == lines[3])
    return result is None or not len(result)
