"""Tables as sources of events, whose reading can be watched and stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import pyarrow as pa

from ceql.errors import ResourceError
from ceql.io.sources import TableSource

_ROWS = 1 << 12


class Stop:
    """Ends a work between two batches: when its seconds are over, or when somebody cancels it."""

    def __init__(self, seconds: float) -> None:
        self._until = monotonic() + seconds
        self._late = f"stopped after {seconds:g} seconds (--time-limit)"
        self._cancelled: str | None = None

    def cancel(self, why: str) -> None:
        """Stop as soon as the batch at hand is done."""
        self._cancelled = self._cancelled or f"cancelled: {why}"

    def check(self, _: int = 0) -> None:
        """Raises an error if the work is to end."""
        if self._cancelled is not None:
            raise ResourceError(self._cancelled, limit="cancelled")
        if monotonic() > self._until:
            raise ResourceError(self._late, limit="time-limit")


class Watched(TableSource):
    """The events of a table; `look` is told how many more have been read, and may raise an error.

    A source may be read twice, first to see whether it is in order; then it is told to count from the beginning.
    """

    sound = True

    def __init__(self, table: pa.Table, name: str | None, look: Callable[[int], None], rows: int = _ROWS):
        super().__init__(name, rows, lambda: table)
        self._look = look
        self._read = 0

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        self._look(-self._read)
        self._read = 0
        for batch in super()._batches(columns):
            self._read += batch.num_rows
            self._look(batch.num_rows)
            yield batch
