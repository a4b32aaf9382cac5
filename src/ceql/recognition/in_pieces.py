"""Feeds a machine large pieces of a stream that ends, key by key, where nothing that the query says concerns several
substreams at once (`engine.common.pieces`)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import Events
from ceql.engine.common.machine import Machine
from ceql.engine.common.pieces import Pieces
from ceql.recognition.frame import Recognition


class InPieces(Recognition):
    """A recognition that may hold events back."""

    _pieces: Pieces | None = None

    def _may_divide_it(self, machine: Machine, divides: bool) -> None:
        """Let a machine be divided, or hold events back for it, if its substreams are apart."""
        machine.divides = divides
        if divides and self.holds_back and not self.counting and self._kept is None:
            machine.divides = False
            self._pieces = Pieces(self.bound.options.memory)

    @property
    def _may_release(self) -> bool:
        """Not while events are held back, which name their substreams by number."""
        return self._pieces is None or not self._pieces.held

    def _feed_machine(self, events: Events, resume: bool) -> Iterator[Chunk]:
        if self._pieces is None:
            yield from super()._feed_machine(events, resume)
        elif self._pieces.add(events):
            yield from self._feed_piece(last=False)

    def _feed_piece(self, last: bool) -> Iterator[Chunk]:
        pieces, machine = self._pieces, self.machine
        assert pieces is not None
        assert isinstance(machine, Machine)
        found = pieces.run(machine, last)
        if found is not None:
            yield from found
            return
        self._pieces = None
        machine.divides = True
        self.unfinished = pieces.take()
        yield from super()._feed_machine(self.unfinished, resume=False)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The matches that are left, once no event will come."""
        machine = self.machine  # which says if events are held back
        if self._pieces is not None and isinstance(machine, Machine):
            yield from self._results(self._feed_piece(last=True))
        yield from super().finish()
