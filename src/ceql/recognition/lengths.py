"""The measures of windows inside a formula, as columns of the events (`analysis.lengths`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ceql.analysis.lengths import bound_name, key_name, never_falls
from ceql.analysis.shape import Length
from ceql.engine.common.layout import NO_KEY, W_COUNTED
from ceql.engine.groups.layout import LEAST_VALUE
from ceql.io.schemas import take_rows
from ceql.jit import Array
from ceql.plans import Plan
from ceql.recognition.options import Options
from ceql.recognition.window import NOTHING_LIVE, BoundWindow, bind_window
from ceql.syntax import tree as t


class Lengths:
    """The windows inside the formula of a query, bound to a schema."""

    def __init__(self, plan: Plan, schema: pa.Schema, time: str | None, options: Options, open_schema: bool) -> None:
        auto = plan.automaton
        asked = auto.carrying.conditions if auto.carrying is not None else ()
        lengths = (c.claim.what for c in asked if isinstance(c.claim.what, Length))
        windows = dict.fromkeys(length.window for length in lengths)
        self._bound: dict[t.Window, BoundWindow] = {
            window: bind_window(plan, schema, time, options, open_schema, window) for window in windows
        }
        self.names = tuple(dict.fromkeys(name for w in windows for name in (key_name(w), bound_name(w))))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that measure windows."""
        return tuple(dict.fromkeys(bound.column for bound in self._bound.values() if bound.column is not None))

    def extended(self, schema: pa.Schema) -> pa.Schema:
        """The schema with these columns."""
        return pa.schema([*schema, *(pa.field(name, pa.int64()) for name in self.names)]) if self.names else schema

    def measured(
        self, batch: pa.RecordBatch, rows: Array | None, positions: Array, times: Array | None, places: Array | None
    ) -> pa.RecordBatch:
        """These rows of a batch (all, when None) with these columns.

        `positions`, `times` and `places`, which are the numbers of the events in their substreams, are of these rows.
        """
        taken = batch if rows is None else take_rows(batch, pa.array(rows))
        if not self.names:
            return taken
        columns: dict[str, Array] = {}
        for window, bound in self._bound.items():
            if bound.kind == W_COUNTED:
                assert places is not None
                keys, lowest = places, places - bound.width
            else:
                keys, lowest = bound.keys(batch, rows, positions, times)
            if not never_falls(window):
                keys, lowest = _above_null(keys), _above_null(lowest)
            columns[key_name(window)] = keys
            columns[bound_name(window)] = np.maximum(lowest, LEAST_VALUE)
        for name, column in columns.items():
            taken = taken.append_column(name, pa.array(column))
        return taken


def _above_null(keys: Array) -> Array:
    """Keys or bounds without those that stand for NULL: an event without the attribute has a key below all others."""
    found = np.where(keys == NOTHING_LIVE, keys, np.minimum(keys, NOTHING_LIVE - 3) + 2)
    return np.where(keys == NO_KEY, LEAST_VALUE, found)
