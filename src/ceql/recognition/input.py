"""Gives the events of an input in order, and the rows of matches under the caller's numbers.

In: sources, in memory or in files. Out: `EventBatch`es, for any number of passes if the sources can be read again.
`Merged` reads sources whole; `file_scan.FileScan` leaves out what cannot matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ceql.errors import LateEventsWarning, warn_caller
from ceql.io.ordering import InOrder, caller_rows
from ceql.io.schemas import no_rows
from ceql.io.sequencer import Sequencer, merge_sources
from ceql.io.sort_keys import Int64s
from ceql.io.sorted_runs import EventBatch
from ceql.io.source import Source
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.rows import Positions, RowStore
from ceql.recognition.types_seen import TypesSeen


class Input(ABC):
    """Events in order of time, pass by pass."""

    prunes = False
    """Whether a pass needs only the columns that recognition reads, even if rows are to be kept."""

    @abstractmethod
    def batches(self, columns: Sequence[str] | None, keep: bool = False) -> Iterator[EventBatch]:
        """A pass over the events, with these columns (None: all); with `keep`, one whose rows can be asked for."""

    @property
    @abstractmethod
    def order(self) -> Int64s | None:
        """Of the pass begun last: the caller's row of each event; None while that is its position."""

    @abstractmethod
    def forget_before(self, position: int) -> None:
        """Give up rows that end before `position`."""

    @abstractmethod
    def rows(self, numbers: Positions) -> pa.Table:
        """The events of these rows of the caller, in this order, repeats too, of the last pass that keeps rows."""

    def late(self) -> pa.Table:
        """The events of the last pass that came too late."""
        return pa.table({})


class Merged(Input):
    """The events of sources that are read whole and put together."""

    def __init__(self, bound: BoundPlan, sources: Sequence[Source], types: TypesSeen) -> None:
        self._bound = bound
        self._sources = sources
        self._types = types
        self._late: pa.Table | None = None
        self._rows = RowStore(bound.schema)
        self._position_of: Int64s | None = None  # of each of the caller's rows

    def batches(self, columns: Sequence[str] | None, keep: bool = False) -> Iterator[EventBatch]:
        bound, options, types, sources = self._bound, self._bound.options, self._types, self._sources
        if keep:
            self._rows, self._position_of = RowStore(bound.schema), None
        store = self._rows
        lateness = options.lateness_in(bound.time_type)
        sequencer = None
        if len(sources) == 1 and isinstance(sources[0], InOrder):
            events = sources[0].events(columns)
        else:
            if all(source.replayable for source in sources):
                lateness *= 0  # all is in order already
            sequencer = Sequencer(list(bound.streams), bound.time, lateness, options.max_buffered_rows)
            events = merge_sources(sources, sequencer, columns)
        for batch in events:
            if not types.settled:
                types.look(batch)
            if keep:
                store.add(batch.data)
            yield batch
        late = sequencer.late_rows if sequencer is not None else 0
        if not (late or types.settled):  # one that is left out may have the type
            types.conclude()
        self._late = sequencer.late() if sequencer is not None else None
        if late:
            warn_caller(
                f"{late} event{'s' * (late > 1)} came later than the lateness allows and took no part; "
                "raise lateness=, or see Matches.late()",
                LateEventsWarning,
            )

    @property
    def order(self) -> Int64s | None:
        return caller_rows(self._sources)

    def forget_before(self, position: int) -> None:
        self._rows.forget_before(position)

    def rows(self, numbers: Positions) -> pa.Table:
        order = self.order
        if order is None:
            return self._rows.take(numbers)
        if self._position_of is None:
            self._position_of = np.empty_like(order)
            self._position_of[order] = np.arange(len(order))
        return self._rows.take(self._position_of[numbers])

    def late(self) -> pa.Table:
        return self._late if self._late is not None else pa.table(no_rows(self._bound.schema))
