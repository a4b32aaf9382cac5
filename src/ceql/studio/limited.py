"""Tables as sources of events that can be stopped: when a time is over, or by whoever looks on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import pyarrow as pa

from ceql.errors import ResourceError
from ceql.io.sources import TableSource

_ROWS = 1 << 14


class Limited(TableSource):
    """The events of a table, as long as no more than `seconds` have passed since the source was made."""

    sound = True

    def __init__(self, table: pa.Table, name: str | None, seconds: float):
        super().__init__(name, _ROWS, lambda: table)
        self._seconds = seconds
        self._until = monotonic() + seconds

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        for batch in super()._batches(columns):
            if monotonic() > self._until:
                raise ResourceError(f"stopped after {self._seconds:g} seconds (--time-limit)", limit="time-limit")
            yield batch


class Watched(TableSource):
    """The events of a table; `look` is told how many more have been read, and may raise an error.

    A source may be read twice, first to see whether it is in order; then it is told to count from the beginning.
    """

    sound = True

    def __init__(self, table: pa.Table, name: str | None, look: Callable[[int], None]):
        super().__init__(name, _ROWS, lambda: table)
        self._look = look
        self._read = 0

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        self._look(-self._read)
        self._read = 0
        for batch in super()._batches(columns):
            self._read += batch.num_rows
            self._look(batch.num_rows)
            yield batch
