"""Whether any event has a type that the query names, and if none has, what to say.

In: the batches of a run. Out: nothing, or a warning after the last one. As soon as one named type has come, nothing
more is looked at, so that most runs look at one batch.
"""

from __future__ import annotations

from copy import copy

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import NoMatchWarning, nearest, warn_caller
from ceql.io.sorted_runs import EventBatch
from ceql.io.soundness import require_utf8
from ceql.recognition.bound_plan import BoundPlan

_KNOWN, _SHOWN = 1000, 5
_FIRST = 1 << 10


class TypesSeen:
    """Collects the types that come, until one is a type of the query."""

    def __init__(self, bound: BoundPlan, named: set[str] | None = None) -> None:
        self._bound = bound
        self._named = bound.plan.named_types if named is None else frozenset(named)
        self._seen: dict[str, None] = {}
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
        found = [bound.streams[k] for k in streams if bound.type is None or k in bound.untyped]
        index = -1 if bound.type is None else batch.data.schema.get_field_index(bound.type)
        if index >= 0:
            column = require_utf8(batch.data.column(index), f"column '{bound.type}' is the type of events and")
            for part in (column.slice(0, _FIRST), column.slice(_FIRST)):  # the first rows tell most of the time
                values = pc.unique(part).cast(pa.string()).to_pylist()
                found += values[:_KNOWN]
                self.settled = not self._named.isdisjoint(values)
                if self.settled:
                    break
        if len(self._seen) < _KNOWN:
            self._seen.update(dict.fromkeys(name for name in found if name is not None))
        self.settled = self.settled or not self._named.isdisjoint(self._seen)

    def conclude(self) -> None:
        """Warn, if events came and none of a named type."""
        if self.settled or not self._events:
            return
        self.settled = True
        warn_caller(self._message(), NoMatchWarning)

    def _message(self) -> str:
        bound, seen, named = self._bound, list(self._seen), sorted(self._named)
        several = "the types" if len(named) > 1 else "the type"
        text = f"no event has {several} that the query names ({_listed(named)})"
        if bound.type is None:
            text += f": no column has types, so the type of each event is the name of its stream ({_listed(seen)})"
        elif seen:
            text += f": the column '{bound.type}' has {_listed(seen)}"
        else:
            text += f": the column '{bound.type}' is NULL throughout"
        hints = [near for near in dict.fromkeys(nearest(name, seen) for name in named) if near is not None]
        if hints:
            return f"{text}. Did you mean {' and '.join(repr(hint) for hint in hints[:_SHOWN])}?"
        if bound.type is not None and not self._named.isdisjoint(bound.streams):
            return f"{text}. If the name of the stream is the type of its events, pass type=None"
        return f"{text}. If the types are in another column, name it with type="


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_SHOWN]) + more
