"""A table as a source of events that gives up when a time is over, for what reads all events in one call."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import pyarrow as pa

from ceql.errors import ResourceError
from ceql.io.sources import TableSource

_ROWS = 1 << 14


class Limited(TableSource):
    """The events of a table, as long as no more than `seconds` have passed since the source was made."""

    sound = True

    def __init__(self, table: pa.Table, seconds: float):
        super().__init__(None, _ROWS, lambda: table)
        self._seconds = seconds
        self._until = monotonic() + seconds

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        for batch in super()._batches(columns):
            if monotonic() > self._until:
                raise ResourceError(f"stopped after {self._seconds:g} seconds (--time-limit)", limit="time-limit")
            yield batch
