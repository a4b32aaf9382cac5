"""A query over Parquet files: what a pass may leave out, and the rows of matches, read when they are asked for.

In: a bound plan and a `io.parquet_scan.ParquetScan`. Out: `EventBatch`es with the columns that recognition needs, in
order of time. Of the other columns, only pieces of the files that have events of matches are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from ceql.io.ordering import InOrder
from ceql.io.parquet_pieces import Piece
from ceql.io.parquet_scan import Held, Left, Looking, ParquetScan, Sieve, Wanted
from ceql.io.schemas import conform, no_rows, one_batch, take_rows
from ceql.io.sort_keys import Int64s
from ceql.io.sorted_runs import EventBatch
from ceql.io.source import Source
from ceql.predicates.columns import MaskColumn
from ceql.predicates.possible import may_hold
from ceql.recognition.bound_plan import BoundPlan, compared_attributes
from ceql.recognition.input import Input
from ceql.recognition.rows import Positions, RowStore
from ceql.recognition.types_seen import TypesSeen
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves

_WIDE = 64  # positions that lie this far apart are sorted


class FileScan(Input):
    """The passes of a query over Parquet files that are in order of time, or are so piece by piece."""

    prunes = True

    def __init__(self, bound: BoundPlan, scan: ParquetScan, batch_rows: int, types: TypesSeen) -> None:
        self._bound = bound
        self._scan = scan
        self._batch_rows = batch_rows
        self._types = types
        self._order: Int64s | None = None
        self._rows: list[_PieceRows] = []

    @staticmethod
    def over(bound: BoundPlan, sources: Sequence[Source], types: TypesSeen) -> FileScan | None:
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
        return FileScan(bound, scan, source.batch_rows, types)

    def batches(self, columns: Sequence[str] | None, keep: bool = False) -> Iterator[EventBatch]:
        types, names = self._types, self._scan.schema.names if columns is None else columns
        self._order = None
        if keep:
            self._rows = []
        wanted = self._scan.wanted(names, _codable(self._bound, names))
        skipped = 0
        for found in self._scan.read(wanted, self._looking(wanted)):
            if isinstance(found, Left):
                skipped += found.piece.rows
                for batch in found.seen:
                    types.look(EventBatch(batch, 0))
                continue
            self._note(found.piece, found.order)
            if keep:
                self._rows.append(_PieceRows(self._scan, found, wanted))
            for batch in found.batches:
                for first in range(0, batch.num_rows, self._batch_rows):
                    made = EventBatch(batch.slice(first, self._batch_rows), 0, skipped=skipped)
                    skipped = 0
                    types.look(made)
                    yield made
        types.conclude()

    @property
    def order(self) -> Int64s | None:
        return self._order

    def _looking(self, wanted: Wanted) -> Looking:
        bound, plan, types = self._bound, self._bound.plan, self._types
        # with AFTER MATCH and a window, any event may decide a match
        waits = bool(plan.automaton.absences or (plan.query.after_match is not None and plan.query.window is not None))
        if not bound.skips or waits:
            return lambda: None
        may_matter = partial(may_hold, bound.guards)
        # whoever sees no event of a type that the query needs is told which types there are
        tells_types = bound.type is None or bound.type in wanted.coded
        return lambda: Sieve(may_matter, types.settled) if types.settled or tells_types else None

    def _note(self, piece: Piece, order: Int64s | None) -> None:
        if order is not None:
            if self._order is None:
                self._order = np.arange(self._scan.pieces.rows)
            self._order[piece.first : piece.first + piece.rows] = piece.first + order

    def forget_before(self, position: int) -> None:
        while len(self._rows) > 1 and self._rows[0].following <= position:
            del self._rows[0]

    def rows(self, numbers: Positions) -> pa.Table:
        schema = self._bound.schema
        here, back = _distinct(numbers)
        parts = []
        for held in self._rows:
            own = here[np.searchsorted(here, held.first) : np.searchsorted(here, held.following)]
            if len(own):
                parts.append(held.take(own))
        batch = parts[0] if len(parts) == 1 else pa.concat_batches([no_rows(schema), *parts])
        return pa.table(batch if back is None else take_rows(batch, pa.array(back)))


class _PieceRows:
    """The rows of a piece: those of the columns that the pass has read, and the others when they are asked for."""

    def __init__(self, scan: ParquetScan, found: Held, wanted: Wanted) -> None:
        self._scan = scan
        self._found = found
        self.first = found.piece.first
        self.following = self.first + found.piece.rows
        self._columns = [name for name in scan.schema.names if name not in wanted.columns]

    @cached_property
    def _known(self) -> RowStore:
        """The columns that the pass has read, in order of time."""
        return self._stored(self._found.batches)

    @cached_property
    def _others(self) -> RowStore:
        """The other columns, in the order of the file."""
        wanted = Wanted(self._columns, self._scan.pieces.coded(self._columns))
        return self._stored(self._scan.load(self._found.piece, wanted))

    def _stored(self, batches: Iterable[pa.RecordBatch]) -> RowStore:
        store = RowStore(self._scan.schema, self.first)
        for batch in batches:
            store.add(batch)
        return store

    @cached_property
    def _position_of(self) -> Int64s | None:
        """Where each row of the piece stands in order of time."""
        return None if self._found.order is None else np.argsort(self._found.order)

    def take(self, rows: Positions) -> pa.RecordBatch:
        """These rows of the files, which ascend."""
        known = rows if self._position_of is None else self.first + self._position_of[rows - self.first]
        parts = [one_batch(self._known.take(known))]
        if self._columns:
            parts.append(one_batch(self._others.take(rows)))
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
