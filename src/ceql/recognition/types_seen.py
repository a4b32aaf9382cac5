"""Tells of types that a query needs and no event has: nothing can match without them.

In: the batches of a run. Out: nothing, or one warning after the last batch. As soon as the types that came are enough
for a match, nothing more is looked at, so that most runs look at one batch. On Spark the types are collected by a job,
and `no_match_message` says the same of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.analysis.needed_types import lacking
from ceql.analysis.scopes import there
from ceql.errors import NoMatchWarning, nearest, warn_caller
from ceql.io.sorted_runs import EventBatch
from ceql.io.soundness import require_utf8
from ceql.plans import Plan
from ceql.recognition.bound_plan import BoundPlan
from ceql.syntax import tree as t

_KNOWN, _SHOWN = 1000, 5
_FIRST = 1 << 10
_FEW = 64


class TypesSeen:
    """Collects the types that come, until they are enough for a match of each query."""

    def __init__(self, bound: BoundPlan, plans: Mapping[str, Plan]) -> None:
        """Of queries over the events of `bound`, by name."""
        self._bound = bound
        self._queries = {name: plan.query.formula for name, plan in plans.items()}
        self._waiting = [*self._queries.values()]  # those that cannot match yet
        self._named = frozenset[str]().union(*(plan.types for plan in plans.values()))
        self._seen: dict[str, None] = {}
        self._came = frozenset[str]()
        self._events = False
        self.settled = bound.decided is not None
        """Whether there is nothing more to look at."""

    def copy(self) -> TypesSeen:
        """The same, which does not change when this does."""
        other = copy(self)
        other._seen = self._seen.copy()
        return other

    def look(self, batch: EventBatch) -> None:
        """Take a batch into account."""
        if self.settled or not batch.data.num_rows:
            return
        self._events = True
        bound = self._bound
        streams = [batch.stream] if isinstance(batch.stream, int) else np.unique(batch.stream).tolist()
        self._add([bound.streams[k] for k in streams if bound.type is None or k in bound.untyped])
        index = -1 if bound.type is None else batch.data.schema.get_field_index(bound.type)
        if index >= 0:
            column = require_utf8(batch.data.column(index), f"column '{bound.type}' is the type of events and")
            for part in (column.slice(0, _FIRST), column.slice(_FIRST)):  # the first rows tell most of the time
                if not self.settled:
                    self._add(_distinct(part))

    def _add(self, found: list[str | None]) -> None:
        if len(self._seen) < _KNOWN:
            self._seen.update(dict.fromkeys(name for name in found[:_KNOWN] if name is not None))
        came = self._came.union(self._named.intersection(name for name in found if name is not None))
        if len(came) > len(self._came):
            self._came = came
            self._waiting = [formula for formula in self._waiting if lacking(formula, came)]
            self.settled = not self._waiting

    def conclude(self) -> None:
        """Warn, if events came and none of a type that is needed."""
        if self.settled or not self._events:
            return
        self.settled = True
        bound = self._bound
        seen = [*self._seen, *self._came]
        message = no_match_message(self._queries, seen, bound.type, bound.streams)
        if message is not None:
            warn_caller(message, NoMatchWarning)


def no_match_message(
    queries: Mapping[str, t.Formula], seen: Collection[str], column: str | None, streams: Collection[str | None] = ()
) -> str | None:
    """What to say of queries that lack a type; None if none does. A query that is alone may have the name "".

    `seen` are the types that came, `column` is where they stand. Without a column, they are the names of `streams`.
    """
    seen = list(dict.fromkeys(seen))
    came = frozenset(seen)
    lacks = {name: kinds for name, formula in queries.items() if (kinds := lacking(formula, came))}
    if not lacks:
        return None
    missing = sorted(frozenset().union(*lacks.values()))
    several = "s" * (len(missing) > 1)
    in_vain = came.isdisjoint(kind for name in lacks for kind in there(queries[name]))
    if in_vain and len(queries) == 1:
        text = f"no event has the type{several} that the query names ({_listed(missing)})"
    else:
        who = "the query" if len(queries) == 1 else f"quer{'ies' if len(lacks) > 1 else 'y'} {_listed(list(lacks))}"
        text = f"no event has the type{several} {_listed(missing)}, without which {who} cannot match"
    if column is None:
        text += f": no column has types, so the type of each event is the name of its stream ({_listed(seen)})"
    elif seen:
        text += f": the column '{column}' has {_listed(seen)}"
    else:
        text += f": the column '{column}' is NULL throughout"
    hints = [near for near in dict.fromkeys(nearest(name, seen) for name in missing) if near is not None]
    if hints:
        return f"{text}. Did you mean {' and '.join(repr(hint) for hint in hints[:_SHOWN])}?"
    if not in_vain:
        return text
    if column is not None and not {*missing}.isdisjoint(streams):
        return f"{text}. If the name of the stream is the type of its events, pass type=None"
    return f"{text}. If the types are in another column, name it with type="


def _distinct(column: pa.Array) -> list[str | None]:
    if len(column) <= _FEW:
        return list(dict.fromkeys(column.to_pylist()))
    values: list[str | None] = pc.unique(column).cast(pa.string()).to_pylist()
    return values


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_SHOWN]) + more
