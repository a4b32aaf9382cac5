"""The matches of a run as arrays: where each begins and ends on the axis, its lane, its events and their variables.

The timeline asks it for ranges. It is made anew when a run has found more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.engine.common.chunk import Int64s
from ceql.io.schemas import one_batch
from ceql.results.axis import Floats
from ceql.results.tables import bound_events
from ceql.results.text import cell, to_python
from ceql.studio.runs import Run


@dataclass(eq=False)
class MatchIndex:
    """`first[k]` to `first[k + 1]` are the places of match k in `events` and `variable`."""

    run: Run
    table: pa.Table
    batch: pa.RecordBatch

    @classmethod
    def of(cls, run: Run) -> MatchIndex:
        table = run.table
        return cls(run, table, one_batch(table))

    @property
    def count(self) -> int:
        return int(self.batch.num_rows)

    @cached_property
    def places(self) -> Floats:
        return self.run.data.places[0]

    @cached_property
    def first(self) -> Int64s:
        lengths = np.asarray(self.batch.column("events").value_lengths()).astype(np.int64)
        return np.concatenate([[0], np.cumsum(lengths)])

    @cached_property
    def events(self) -> Int64s:
        found: Int64s = np.asarray(self.batch.column("events").flatten())
        return found

    @cached_property
    def variables(self) -> list[str]:
        """The names that colours stand for: the selected variables, else the types of the events."""
        found = [name for name, _, _ in bound_events(self.batch.slice(0, 0), self.run.query.plan.selection)]
        return found if self._selects else self._types[1]

    @property
    def _selects(self) -> bool:
        """Whether SELECT names variables; if it does not, there may still be measures."""
        selection = self.run.query.plan.selection
        return bool(selection.variables) and not selection.distinct

    @cached_property
    def _types(self) -> tuple[Int64s, list[str]]:
        """The number of the type of each event of each match, and the names of these types."""
        name, table = self.run.data.columns.type, self.run.data.table
        if name is None or name not in table.schema.names:
            return np.zeros(len(self.events), np.int64), ["events"]
        column = table[name].take(pa.array(self.events)).combine_chunks()
        column = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
        names = [cell(value) for value in column.dictionary.to_pylist()]
        return np.asarray(column.indices.fill_null(0)).astype(np.int64), names

    @cached_property
    def variable(self) -> Int64s:
        """Of each event of each match, the first variable it is bound to; -1 if it is not shown."""
        if not self._selects:
            return self._types[0]
        found: Int64s = np.full(len(self.events), -1, np.int64)
        shown = list(bound_events(self.batch, self.run.query.plan.selection))
        for k, (_, _, bound) in reversed(list(enumerate(shown))):
            found[bound] = k
        return found

    @cached_property
    def start(self) -> Floats:
        found: Floats = self.places[np.asarray(self.batch.column("start"))]
        return found

    @cached_property
    def end(self) -> Floats:
        found: Floats = self.places[np.asarray(self.batch.column("end"))]
        return found

    @cached_property
    def longest(self) -> float:
        return float((self.end - self.start).max()) if self.count else 0.0

    @cached_property
    def keys(self) -> list[str]:
        """The columns of the substream's keys."""
        names: list[str] = self.batch.schema.names
        return names[4 if "end_time" in names else 2 : names.index("events")]

    @cached_property
    def lane(self) -> Int64s:
        """The number of the substream of each match, in order of first appearance."""
        return self._lanes[0]

    @cached_property
    def lane_names(self) -> list[str]:
        return self._lanes[1]

    @cached_property
    def _lanes(self) -> tuple[Int64s, list[str]]:
        code: Int64s = np.zeros(self.count, np.int64)
        for name in self.keys:
            own = np.asarray(pc.dictionary_encode(self.batch.column(name)).indices.fill_null(-1)).astype(np.int64)
            _, code = np.unique(code * (own.max(initial=0) + 2) + own + 1, return_inverse=True)
        _, firsts, numbers = np.unique(code, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(firsts))
        heads = self.batch.select(self.keys).take(pa.array(np.sort(firsts))) if self.keys else None
        names = [] if heads is None else [to_python(column, " ") for column in heads.columns]
        return rank[numbers], [", ".join(cell(value) for value in row) for row in zip(*names, strict=True)]

    def rows_of_lane(self, lane: int) -> Int64s | None:
        """The rows of a substream that has matches; None where its keys are no columns of the events."""
        if self._codes is None:
            return None
        if lane not in self._rows:
            match = int(np.argmax(self.lane == lane))
            own = self._codes[self.batch.column("end")[match].as_py()]
            self._rows[lane] = np.flatnonzero(self._codes == own)
        return self._rows[lane]

    @cached_property
    def _codes(self) -> Int64s | None:
        """The number of the substream of each row."""
        table = self.run.data.table
        if not self.keys or any(name not in table.schema.names for name in self.keys):
            return None
        codes: Int64s | None = None
        for name in self.keys:
            column = table[name].combine_chunks()
            column = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
            own = np.asarray(column.indices.fill_null(-1)).astype(np.int64)
            if codes is None:
                codes = own
            else:
                _, codes = np.unique(codes * (own.max(initial=0) + 2) + own + 1, return_inverse=True)
        return codes

    @cached_property
    def _rows(self) -> dict[int, Int64s]:
        return {}

    @cached_property
    def values(self) -> dict[int, pa.Array | None]:
        """The columns of the table that were sorted or searched by, by their numbers (`match_table.py`)."""
        return {}

    @cached_property
    def orders(self) -> dict[Any, Int64s]:
        """The order in which the table was last shown, if not that of the matches."""
        return {}

    def visible(self, low: float, high: float) -> Int64s:
        """The matches that reach into a range."""
        return np.flatnonzero((self.end >= low) & (self.start <= high))

    def marks(self, match: int, most: int) -> list[tuple[float, int, int]]:
        """The place, the variable and the row of the events of a match; of many, some evenly spread."""
        begin, end = self.first[match], self.first[match + 1]
        shown = begin + np.flatnonzero(self.variable[begin:end] >= 0)
        if len(shown) > most:
            shown = shown[np.unique(np.linspace(0, len(shown) - 1, most).astype(int))]
        rows = self.events[shown]
        return list(zip(self.places[rows].tolist(), self.variable[shown].tolist(), rows.tolist(), strict=True))
