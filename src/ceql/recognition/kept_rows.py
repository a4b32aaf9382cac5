"""The events of matches that are kept, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from ceql.io.schemas import no_rows, take_rows
from ceql.io.sorted_runs import EventBatch
from ceql.jit import Array
from ceql.recognition.result_columns import positions_of


class KeptRows:
    """Rows by the numbers under which matches name them."""

    def __init__(self) -> None:
        self._numbers: list[Array] = []
        self._tables: list[pa.Table] = []
        self._sorted: tuple[Array, pa.Table] | None = None

    def add(self, matches: Sequence[pa.RecordBatch], take: Callable[[Array], pa.Table]) -> int:
        """Keep the events of these matches, which `take` gives now; the bytes that they take."""
        numbers = _named(matches)
        self._numbers.append(numbers)
        self._tables.append(take(numbers))
        return int(self._tables[-1].nbytes)

    def read(
        self, matches: Sequence[pa.RecordBatch], batches: Iterable[EventBatch], order: Array | None, schema: pa.Schema
    ) -> None:
        """Keep the events of these matches from a pass over the input; `order` has the number of each event."""
        numbers = _named(matches)
        places = np.full(0 if order is None else len(order), -1, np.int64)
        if order is not None:
            places[order] = np.arange(len(order))
        wanted = np.sort(numbers if order is None else places[numbers])
        first = 0
        for batch in batches:
            stop = first + batch.data.num_rows
            inside = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, stop)]
            if len(inside):
                self._numbers.append(inside if order is None else order[inside])
                self._tables.append(pa.table(take_rows(batch.data, pa.array(inside - first))))
            first = stop
        if not self._tables:
            self._numbers, self._tables = [numbers], [pa.table(no_rows(schema))]

    def take(self, numbers: Array) -> pa.Table:
        """The events of these numbers, in this order."""
        if self._sorted is None:
            if not self._tables:
                return pa.table({})
            known, first = np.unique(np.concatenate(self._numbers), return_index=True)
            table = pa.concat_tables(self._tables, promote_options="permissive").combine_chunks()
            self._sorted = known, table.take(pa.array(first))
        known, table = self._sorted
        return table.take(pa.array(np.searchsorted(known, numbers)))


def _named(matches: Sequence[pa.RecordBatch]) -> Array:
    """The numbers of the events of these matches, each once."""
    if not matches:
        return np.zeros(0, np.int64)
    return np.unique(np.concatenate([positions_of(batch) for batch in matches]))
