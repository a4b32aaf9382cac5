"""The events themselves, kept as long as a match may still name them."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.io.schemas import take_rows


class RowStore:
    """Batches of a stream by position. Batches are kept whole, by reference."""

    def __init__(self, schema: pa.Schema, first: int = 0) -> None:
        self.schema = schema
        self._starts: list[int] = []
        self._batches: list[pa.RecordBatch] = []
        self._next = first

    def add(self, batch: pa.RecordBatch) -> None:
        """Append the next events."""
        if batch.num_rows:
            self._starts.append(self._next)
            self._batches.append(batch)
            self._next += batch.num_rows

    def forget_before(self, position: int) -> None:
        """Drop the batches that end before `position`."""
        keep = max(0, bisect_right(self._starts, position) - 1)
        if keep:
            del self._starts[:keep]
            del self._batches[:keep]

    def copy(self) -> RowStore:
        """The same rows, unmoved by what is added or forgotten later."""
        other = RowStore(self.schema, self._next)
        other._starts, other._batches = self._starts.copy(), self._batches.copy()
        return other

    def take(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        """The events at these positions, in this order."""
        if not self._batches:
            return self.schema.empty_table()
        owner = np.searchsorted(self._starts, positions, side="right") - 1
        order = np.argsort(owner, kind="stable")
        pieces = []
        for k in np.unique(owner).tolist():
            mine = positions[order[owner[order] == k]] - self._starts[k]
            pieces.append(pa.table(take_rows(self._batches[k], pa.array(mine))))
        if not pieces:
            return pa.table(self._batches[-1].slice(0, 0))
        table = pa.concat_tables(pieces, promote_options="permissive").combine_chunks()
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        batches = table.to_batches()
        return pa.table(take_rows(batches[0], pa.array(back))) if batches else table

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """What is kept, in order."""
        return self._batches

    @property
    def first(self) -> int:
        """The position of the first kept event."""
        return self._starts[0] if self._starts else self._next
