"""Feeds a machine large pieces of a stream that ends, key by key, where nothing that the query says concerns several
substreams at once (`engine.common.pieces`)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ceql.engine.common import pieces
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import Events
from ceql.engine.common.machine import Machine
from ceql.engine.common.pieces import Pieces
from ceql.recognition.frame import Recognition


class InPieces(Recognition):
    """A recognition that may hold events back."""

    _piece: Pieces | None = None

    def _may_divide_it(self, machine: Machine, divides: bool) -> None:
        """Let a machine be divided, or go through pieces by key, if its substreams are apart."""
        machine.divides = divides
        if divides and self.holds_back and not self.counting and self._kept is None:
            self._piece = Pieces(self.bound.options.memory)

    @property
    def _may_release(self) -> bool:
        """Not while events are held back, which name their substreams by number."""
        return self._piece is None or not self._piece.held

    def _feed_machine(self, events: Events, resume: bool) -> Iterator[Chunk]:
        piece = self._piece
        if piece is None or not (piece.held or self._are_many):
            yield from super()._feed_machine(events, resume)
        elif piece.add(events):
            yield from self._feed_piece(piece, last=False)

    @property
    def _are_many(self) -> bool:
        """Whether there are so many substreams that it is worth while to go through events by key."""
        assert self.keys is not None
        return isinstance(self.machine, Machine) and self.keys.known >= pieces.MANY

    def _feed_piece(self, piece: Pieces, last: bool) -> Iterator[Chunk]:
        machine = self.machine
        assert isinstance(machine, Machine)
        if piece.held >= pieces.FEW:
            yield from machine.flush()
            found = piece.run(machine, last)
            if found is not None:
                yield from found
                return
            self._piece = None
        self.unfinished = piece.take()
        yield from super()._feed_machine(self.unfinished, resume=False)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The matches that are left, once no event will come."""
        if self._piece is not None and self._piece.held:
            yield from self._results(self._feed_piece(self._piece, last=True))
        yield from super().finish()
