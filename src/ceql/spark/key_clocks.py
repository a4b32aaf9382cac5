"""Remembers how far each key has been recognised, where events are recognised as they come (`emit="now"`).

An event is late if its key has a later one already. A key is forgotten when the watermark has passed its last event,
since whatever comes behind the watermark is late anyway. So there are as many clocks as keys with events since then.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ceql.io.schemas import take_rows
from ceql.jit import Array
from ceql.spark.task_spec import TIME


class KeyClocks:
    """The time of the last event of each key; of the whole stream, where it has no keys."""

    def __init__(self, keys: tuple[str, ...], known: pa.RecordBatch | None = None) -> None:
        self._columns = [*keys, TIME]
        self.known = known
        """A row for each key: its columns and its time."""

    def split(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Rows in order of time: those that are in order of their keys' times as well, and those that are late."""
        own = rows.select(self._columns)
        before = own.slice(0, 0) if self.known is None else self.known.cast(own.schema)
        both = pa.concat_batches([before, own])
        codes = _codes(both)
        times = both.column(TIME).cast(pa.int64()).to_numpy()
        clocks = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.int64).min)
        clocks[codes[: before.num_rows]] = times[: before.num_rows]
        late = times[before.num_rows :] < clocks[codes[before.num_rows :]]
        # the last row of each key is its latest: rows are in order of time, and a late one is behind its clock
        kept = np.concatenate([np.arange(before.num_rows), before.num_rows + np.flatnonzero(~late)])
        _, last = np.unique(codes[kept][::-1], return_index=True)
        self.known = take_rows(both, pa.array(kept[::-1][last]))
        return take_rows(rows, pa.array(np.flatnonzero(~late))), take_rows(rows, pa.array(np.flatnonzero(late)))

    def forget(self, watermark: int) -> None:
        """Forget the keys whose last event the watermark (in microseconds) has passed."""
        if self.known is not None:
            ahead = self.known.column(TIME).cast(pa.int64()).to_numpy() > watermark
            self.known = take_rows(self.known, pa.array(np.flatnonzero(ahead))) if ahead.any() else None

    @property
    def newest(self) -> int | None:
        """The latest of all times, in microseconds."""
        return None if self.known is None else int(self.known.column(TIME).cast(pa.int64()).to_numpy().max())


def _codes(rows: pa.RecordBatch) -> Array:
    """A number for each row: that of its key."""
    codes: Array = np.zeros(rows.num_rows, np.int64)
    for name in rows.schema.names[:-1]:
        own = rows.column(name)
        own = own if pa.types.is_dictionary(own.type) else own.dictionary_encode()
        numbers = own.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (len(own.dictionary) + 1) + numbers, return_inverse=True)
    return codes
