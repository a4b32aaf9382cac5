"""A query over Parquet files: what a pass may leave out, and the rows of matches, read when they are asked for.

In: a bound plan and a `io.parquet_scan.ParquetScan`. Out: `EventBatch`es with the columns that recognition needs, in
order of time. Of the other columns, only pieces of the files that have events of matches are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ceql.analysis.conditions import leaves
from ceql.io.ordering import InOrder
from ceql.io.parquet_scan import Held, Looking, ParquetScan, Wanted, side_by_side
from ceql.io.schemas import conform, no_rows, take_rows
from ceql.io.sort_keys import Int64s
from ceql.io.sorted_runs import EventBatch
from ceql.io.source import Source
from ceql.plan import CorrelatedPlan
from ceql.predicates.columns import MaskColumn
from ceql.predicates.possible import may_hold
from ceql.recognition.bound_plan import BoundPlan, compared_attributes
from ceql.recognition.rows import Positions, RowStore
from ceql.recognition.types_seen import TypesSeen
from ceql.syntax import tree as t


class FileScan:
    """The passes of a query over Parquet files that are in order of time, or are so piece by piece."""

    def __init__(self, bound: BoundPlan, scan: ParquetScan, batch_rows: int) -> None:
        self._bound = bound
        self._scan = scan
        self._batch_rows = batch_rows
        self.order: Int64s | None = None
        """Of the pass begun last: the row of the files that each event is; None while they are the same."""
        self._position_of: Int64s | None = None
        self._rows: list[_PieceRows] = []
        self._keeps = False

    @staticmethod
    def over(bound: BoundPlan, sources: Sequence[Source]) -> FileScan | None:
        """The scan of these sources; None if they are not one that can be read so."""
        (source,) = sources if len(sources) == 1 else (None,)
        if source is None:
            return None
        inner = source.source if isinstance(source, InOrder) else source
        scan = inner.scan(bound.time)
        if scan is None or not scan.schema.equals(bound.schema):
            return None
        if not scan.says_sorted() and not (isinstance(source, InOrder) and source.is_sorted):
            return None
        if isinstance(source, InOrder):
            scan.check_room = source.check_room
        return FileScan(bound, scan, source.batch_rows)

    def batches(self, columns: Sequence[str], types: TypesSeen, keep: bool = False) -> Iterator[EventBatch]:
        """A pass over the events, with these columns; with `keep`, one whose rows can be asked for."""
        self.order = self._position_of = None
        self._rows, self._keeps = [], keep
        wanted = self._scan.wanted(columns, _codable(self._bound, columns))
        skipped = 0
        for found in self._scan.read(wanted, self._looking(types)):
            if not isinstance(found, Held):
                skipped += found.rows
                continue
            self._note(found, wanted)
            for batch in found.batches:
                for first in range(0, batch.num_rows, self._batch_rows):
                    made = EventBatch(batch.slice(first, self._batch_rows), 0, skipped=skipped)
                    skipped = 0
                    types.look(made)
                    yield made
        types.conclude()

    def _looking(self, types: TypesSeen) -> Looking:
        bound, plan = self._bound, self._bound.plan
        waits = isinstance(plan, CorrelatedPlan) and bool(plan.automaton.absences)
        if not bound.skips or waits:
            return lambda: None
        # whoever sees no event of a type that the query names is told which types there are
        return lambda: (lambda bounds: may_hold(bound.guards, bounds)) if types.settled else None

    def _note(self, found: Held, wanted: Wanted) -> None:
        piece = found.piece
        if found.order is not None:
            if self.order is None or self._position_of is None:
                self.order, self._position_of = np.arange(self._scan.pieces.rows), np.arange(self._scan.pieces.rows)
            span = slice(piece.first, piece.first + piece.rows)
            self.order[span] = piece.first + found.order
            self._position_of[piece.first + found.order] = np.arange(piece.first, piece.first + piece.rows)
        if self._keeps:
            self._rows.append(_PieceRows(self._scan, found, wanted))

    def forget_before(self, position: int) -> None:
        """Give up the rows of pieces that end before `position`."""
        while len(self._rows) > 1 and self._rows[0].following <= position:
            del self._rows[0]

    def rows(self, rows: Positions) -> pa.Table:
        """Events by their rows in the files, in this order, repeats too; of the pieces that were not given up."""
        positions = rows if self._position_of is None else self._position_of[rows]
        schema = self._bound.schema
        here, back = np.unique(positions, return_inverse=True)
        parts = [no_rows(schema)]
        for held in self._rows:
            own = here[np.searchsorted(here, held.first) : np.searchsorted(here, held.following)]
            if len(own):
                parts += [conform(batch, schema) for batch in held.take(own).to_batches()]
        table = pa.Table.from_batches(parts).combine_chunks()
        if len(here) == len(positions) and bool((np.diff(positions) > 0).all()):
            return table
        (batch,) = table.to_batches() or [no_rows(schema)]
        return pa.table(take_rows(batch, pa.array(back)))


class _PieceRows:
    """The rows of a piece: those of the columns that the pass has read, and the others when they are asked for."""

    def __init__(self, scan: ParquetScan, found: Held, wanted: Wanted) -> None:
        self._scan = scan
        self._found = found
        self._wanted = wanted
        self._store: RowStore | None = None
        self.first = found.piece.first
        self.following = self.first + found.piece.rows

    def take(self, positions: Positions) -> pa.Table:
        """The events at these positions, which ascend."""
        if self._store is None:
            self._store = RowStore(self._scan.schema, self.first)
            for batch in self._loaded():
                self._store.add(batch)
        return self._store.take(positions)

    def _loaded(self) -> list[pa.RecordBatch]:
        found, names = self._found, self._scan.schema.names
        others = [name for name in names if name not in self._wanted.columns]
        if not others:
            return found.batches
        loaded = self._scan.load(found.piece, Wanted(others, self._scan.pieces.coded(others)))
        if found.order is not None:
            table = pa.Table.from_batches(loaded).combine_chunks()
            loaded = [take_rows(batch, pa.array(found.order)) for batch in table.to_batches()]
        return side_by_side(found.batches, loaded, names)


def _codable(bound: BoundPlan, columns: Sequence[str]) -> list[str]:
    """The columns that may come as codes: text that guards compare with literals, and keys."""
    masked = {
        leaf.attribute if isinstance(leaf, t.Ref | t.Prev) else leaf.name
        for column in bound.guards.columns
        if isinstance(column, MaskColumn)
        for leaf in leaves(column.node)
    }
    others = {*masked, *compared_attributes(bound.plan), bound.time, bound.window.column}
    return [name for name in columns if name not in others]
