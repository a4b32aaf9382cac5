"""The rows of a stream, kept as long as a match may still name them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.engine.common.check import require
from ceql.errors import DataError
from ceql.io.schemas import no_rows, take_rows

_MANY = 1 << 17  # more rows than were needed when they were last thinned out

Positions = npt.NDArray[np.int64]


class _Piece(NamedTuple):
    """Rows from position `first` on, one after another, or at `positions` where there are gaps."""

    first: int
    batch: pa.RecordBatch
    positions: Positions | None

    def rows_at(self, positions: Positions) -> Positions:
        return positions - self.first if self.positions is None else np.searchsorted(self.positions, positions)


class RowStore:
    """Rows of a stream by position. Batches are kept whole, by reference, until `keep` thins them out."""

    def __init__(self, schema: pa.Schema, first: int = 0) -> None:
        self.schema = schema
        self._pieces: list[_Piece] = []
        self._next = first
        self._needed = 0

    def add(self, batch: pa.RecordBatch, first: int | None = None) -> None:
        """Append the next events; with `first`, from this position on, in place of any that are there."""
        if first is not None:
            self.cut(first)
        if batch.num_rows:
            self._pieces.append(_Piece(self._next, batch, None))
            self._next += batch.num_rows

    def skip(self, count: int) -> None:
        """Leave out the next events, which nobody will ask for."""
        self._next += count

    def cut(self, position: int) -> None:
        """Drop the batches from `position` on."""
        while self._pieces and self._pieces[-1].first >= position:
            self._pieces.pop()
        self._next = position

    def forget_before(self, position: int) -> None:
        """Drop the batches that end before `position`."""
        del self._pieces[: max(0, bisect_right(self._starts, position) - 1)]

    def keep(self, positions: Positions) -> None:
        """Drop all rows but those at these positions, which ascend and are all here."""
        self._needed = len(positions)
        if not len(positions):
            self._pieces = []
            return
        (batch,) = self.take(positions).combine_chunks().to_batches()
        self._pieces = [_Piece(int(positions[0]), batch, positions)]

    def restore(self, positions: Positions, batch: pa.RecordBatch, following: int) -> None:
        """Start from rows at these positions, which ascend; the next row is at `following`."""
        if len(positions):
            ascend = (np.diff(positions) > 0).all() and 0 <= positions[0] <= positions[-1] < following
            require(ascend and len(positions) == batch.num_rows, "its rows are not at ascending positions")
        self._pieces = [_Piece(int(positions[0]), batch, positions)] if len(positions) else []
        self._next, self._needed = following, len(positions)

    def copy(self) -> RowStore:
        """The same rows, which do not change when rows are added or forgotten later."""
        other = RowStore(self.schema, self._next)
        other._pieces = self._pieces.copy()
        return other

    def take(self, positions: Positions) -> pa.Table:
        """The events at these positions, in this order."""
        if not self._pieces:
            return pa.table(no_rows(self.schema))
        if len(positions) and int(positions.min()) < self._pieces[0].first:
            raise DataError("the snapshot is damaged: its partial matches have events that it does not keep")
        ascend = bool((positions[1:] >= positions[:-1]).all())
        order = np.arange(len(positions)) if ascend else np.argsort(positions, kind="stable")
        ordered = positions if ascend else positions[order]
        cuts = np.append(np.searchsorted(ordered, self._starts), len(ordered))
        pieces = []
        for k, (begin, end) in enumerate(pairwise(cuts.tolist())):
            if begin < end:
                rows = self._pieces[k].rows_at(ordered[begin:end])
                pieces.append(pa.table(take_rows(self._pieces[k].batch, pa.array(rows))))
        if not pieces:
            return pa.table(self._pieces[-1].batch.slice(0, 0))
        table = pa.concat_tables(pieces, promote_options="permissive").combine_chunks()
        if ascend:
            return table
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        batches = table.to_batches()
        return pa.table(take_rows(batches[0], pa.array(back))) if batches else table

    def batch_at(self, positions: Positions) -> pa.RecordBatch:
        """The same as one batch."""
        table = self.take(positions).combine_chunks()
        batches = table.to_batches()
        return batches[0] if batches else no_rows(table.schema)

    @property
    def are_many(self) -> bool:
        """Whether it is time to thin them out."""
        return self.count > 2 * self._needed + _MANY

    @property
    def _starts(self) -> list[int]:
        return [piece.first for piece in self._pieces]

    @property
    def following(self) -> int:
        """The position of the next event."""
        return self._next

    @property
    def count(self) -> int:
        """How many rows are kept."""
        return sum(piece.batch.num_rows for piece in self._pieces)

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return sum(p.batch.nbytes + (0 if p.positions is None else int(p.positions.nbytes)) for p in self._pieces)

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """The kept rows, in order."""
        return [piece.batch for piece in self._pieces]

    @property
    def first(self) -> int:
        """The position of the first kept event."""
        return self._pieces[0].first if self._pieces else self._next
