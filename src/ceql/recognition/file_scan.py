"""A query over Parquet files: what a pass may leave out, and the rows of matches, read when they are asked for.

In: a bound plan and a `io.parquet_scan.ParquetScan`. Out: `EventBatch`es with the columns that recognition needs, in
order of time. Of the other columns, only pieces of the files that have events of matches are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ceql.analysis.conditions import leaves
from ceql.io.ordering import InOrder, together
from ceql.io.parquet_pieces import Bounds, Picking
from ceql.io.parquet_scan import Held, Looking, ParquetScan, Sieve, Wanted
from ceql.io.schemas import conform, no_rows, one_batch, take_rows
from ceql.io.sort_keys import Int64s
from ceql.io.sorted_runs import EventBatch
from ceql.io.source import Source
from ceql.plan import CorrelatedPlan
from ceql.predicates.columns import AttributeColumn, MaskColumn
from ceql.predicates.possible import Possible, may_hold
from ceql.recognition.bound_plan import BoundPlan, compared_attributes
from ceql.recognition.rows import Positions, RowStore
from ceql.recognition.types_seen import TypesSeen
from ceql.syntax import tree as t

_WIDE = 64  # positions that lie this far apart are sorted


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
        wanted = self._scan.wanted(columns, _codable(self._bound, columns), self._telling())
        skipped = 0
        for found in self._scan.read(wanted, self._looking(types, wanted)):
            if not isinstance(found, Held):
                skipped += found.rows
                continue
            for batch in found.seen:
                types.look(EventBatch(batch, 0))
            self._note(found._replace(seen=()), wanted)
            for made in self._events(found, skipped):
                skipped = 0
                types.look(made)
                yield made
            skipped += 0 if found.rows is None else found.piece.rows - int(found.rows[-1] + 1 if len(found.rows) else 0)
        types.conclude()

    def _events(self, found: Held, skipped: int) -> Iterator[EventBatch]:
        """What was read of a piece in batches; the first one has `skipped` events before the piece."""
        rows, passed = found.rows, 0
        for batch in found.batches:
            for first in range(0, batch.num_rows, self._batch_rows):
                some = batch.slice(first, self._batch_rows)
                if rows is None:
                    yield EventBatch(some, 0, skipped=skipped)
                else:
                    own = rows[first : first + self._batch_rows]
                    yield EventBatch(some, 0, skipped=skipped + int(own[0]) - passed, places=own - own[0])
                    passed = int(own[-1]) + 1
                skipped = 0

    def _telling(self) -> list[str]:
        """The columns whose single values guards test; the time is read last."""
        columns = self._bound.guards.columns
        names = [column.attribute for column in columns if isinstance(column, AttributeColumn)]
        return [name for name in names if name != self._bound.time]

    def _looking(self, types: TypesSeen, wanted: Wanted) -> Looking:
        bound, plan = self._bound, self._bound.plan
        waits = isinstance(plan, CorrelatedPlan) and bool(plan.automaton.absences)
        if not bound.skips or waits:
            return lambda: None
        # a window that counts events counts them in order of time, so that all times must be known
        possible = None if plan.counts_events else Possible(bound.guards)
        knows_types = bound.type is None or bound.type in wanted.early

        def look() -> Sieve | None:
            # whoever sees no event of a type that the query needs is told which types there are
            return _Sieve(bound, possible, types.settled) if types.settled or knows_types else None

        return look

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
        here, back = _distinct(positions)
        parts = []
        for held in self._rows:
            own = here[np.searchsorted(here, held.first) : np.searchsorted(here, held.following)]
            if len(own):
                parts.append(held.take(own))
        batch = parts[0] if len(parts) == 1 else pa.concat_batches([no_rows(schema), *parts])
        return pa.table(batch if back is None else take_rows(batch, pa.array(back)))


class _Sieve(NamedTuple):
    """Which events of the files can matter to a query."""

    bound: BoundPlan
    possible: Possible | None
    leaves_out: bool

    def may_matter(self, bounds: Callable[[str], Bounds]) -> bool:
        return may_hold(self.bound.guards, bounds)

    def rows(self, batch: pa.RecordBatch) -> Int64s | None:
        return None if self.possible is None else self.possible.rows(batch)


class _PieceRows:
    """The rows of a piece: those of the columns that the pass has read, and the others when they are asked for."""

    def __init__(self, scan: ParquetScan, found: Held, wanted: Wanted) -> None:
        self._scan = scan
        self._found = found
        self.first = found.piece.first
        self.following = self.first + found.piece.rows
        others = [name for name in scan.schema.names if name not in wanted.columns]
        self._picked = [name for name in others if found.order is None and found.piece.can_pick(name)]
        self._loaded = [name for name in others if name not in self._picked]

    @cached_property
    def _picking(self) -> Picking:
        return self._found.piece.picking()

    @cached_property
    def _known(self) -> RowStore:
        """The columns that the pass has read."""
        rows, store = self._found.rows, RowStore(self._scan.schema, self.first)
        if rows is not None and len(rows):
            store.skip(int(rows[0]))
        for batch in self._found.batches:
            store.add(batch, places=None if rows is None else rows - rows[0])
        return store

    @cached_property
    def _others(self) -> RowStore:
        """The columns that are read as a whole, since their rows cannot be picked."""
        names, order, store = self._loaded, self._found.order, RowStore(self._scan.schema, self.first)
        batches = self._scan.load(self._found.piece, Wanted(names, self._scan.pieces.coded(names)))
        for batch in batches if order is None else [take_rows(together(batches), pa.array(order))]:
            store.add(batch)
        return store

    def take(self, positions: Positions) -> pa.RecordBatch:
        """The events at these positions, which ascend."""
        parts = [one_batch(self._known.take(positions))]
        if self._picked:
            picked = self._scan.pick(self._picking, self._picked, positions - self.first)
            if picked is None:
                self._picked, self._loaded = [], [*self._loaded, *self._picked]
                self.__dict__.pop("_others", None)
            else:
                parts.append(picked)
        if self._loaded:
            parts.append(one_batch(self._others.take(positions)))
        columns = {name: column for part in parts for name, column in zip(part.schema.names, part.columns, strict=True)}
        return conform(pa.record_batch(columns), self._scan.schema)


def _distinct(positions: Positions) -> tuple[Positions, Positions | None]:
    """Each of these positions once, ascending, and where each stands among them; None if they are so already."""
    if bool((positions[1:] > positions[:-1]).all()):
        return positions, None
    # sorting them would take longer: most matches lie near those before them
    first = positions.min()
    offsets = positions - first
    if (width := int(offsets.max()) + 1) > _WIDE * len(positions):
        return np.unique(positions, return_inverse=True)
    occurs = np.zeros(width, np.bool_)
    occurs[offsets] = True
    found = np.flatnonzero(occurs)
    place = np.empty(width, np.int64)
    place[found] = np.arange(len(found))
    return found + first, place[offsets]


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
