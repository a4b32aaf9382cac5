"""Candidates that wait: each under a number, and out they come in the order of these numbers.

Candidates are kept in pieces sorted by number. Small pieces of like size are merged, so that there are few, and a
candidate is moved a logarithmic number of times. To ask for those that are due looks at the first of each piece alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.check import require
from ceql.engine.common.chunk import Chunk, joined, rows, size
from ceql.jit import Array

MOST_MERGED = 1 << 17  # events of pieces that are merged: to merge large ones would take twice their memory
PLACES = 40  # bits of the place in a substream, in one number with the substream
_TIMES = ("start_time", "end_time")


class Held(NamedTuple):
    """Candidates, the number that each waits under, and a second number that stays with it."""

    chunk: Chunk
    number: Array
    further: Array
    oldest: int = 0
    """A position before which none of them has an event."""

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.number)

    def some(self, which: Array) -> Held:
        """These candidates, in this order."""
        return Held(rows(self.chunk, which), self.number[which], self.further[which], self.oldest)

    @classmethod
    def of(cls, parts: list[Held]) -> Held:
        """All of them."""
        number, further = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
        return cls(joined([part.chunk for part in parts]), number, further, min(part.oldest for part in parts))


class Waiting:
    """Candidates in order of their numbers."""

    def __init__(self) -> None:
        self._pieces: list[Held] = []
        self._gone: list[int] = []  # of each piece, how many of the first are out

    @property
    def count(self) -> int:
        """How many wait."""
        return sum(piece.size - gone for piece, gone in zip(self._pieces, self._gone, strict=True))

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return sum(size(piece.chunk) + int(piece.number.nbytes + piece.further.nbytes) for piece in self._pieces)

    @property
    def oldest(self) -> int | None:
        """A position before which no candidate that waits has an event; None if nothing waits."""
        return min((piece.oldest for piece in self._pieces), default=None)

    @property
    def least(self) -> int | None:
        """The least number; None if nothing waits."""
        heads = [int(p.number[gone]) for p, gone in zip(self._pieces, self._gone, strict=True) if gone < p.size]
        return min(heads, default=None)

    def add(self, held: Held) -> None:
        """Let these wait."""
        if not held.size:
            return
        held = held._replace(oldest=int(held.chunk.start.min()))
        piece = held.some(np.argsort(held.number, kind="stable"))
        while self._pieces and self._pieces[-1].size - self._gone[-1] <= 2 * piece.size:
            if len(self._pieces[-1].chunk.positions) + len(piece.chunk.positions) > MOST_MERGED:
                break
            both = Held.of([self._pop(), piece])
            piece = both.some(np.argsort(both.number, kind="stable"))
        self._pieces.append(piece)
        self._gone.append(0)

    def _pop(self) -> Held:
        piece, gone = self._pieces.pop(), self._gone.pop()
        return piece if not gone else piece.some(np.arange(gone, piece.size))

    def below(self, number: int) -> Held | None:
        """Take out those whose numbers are less."""
        found: list[Held] = []
        for k, (piece, gone) in enumerate(zip(self._pieces, self._gone, strict=True)):
            if gone < piece.size and piece.number[gone] < number:
                stop = int(np.searchsorted(piece.number, number))
                found.append(piece.some(np.arange(gone, stop)))
                self._gone[k] = stop
        self._tidy()
        return Held.of(found) if found else None

    def at(self, numbers: Array) -> Held | None:
        """Take out those that wait under one of these numbers, which ascend."""
        found: list[Held] = []
        kept: list[Held] = []
        for piece, gone in zip(self._pieces, self._gone, strict=True):
            begin = np.searchsorted(piece.number, numbers, side="left")
            end = np.searchsorted(piece.number, numbers, side="right")
            if (end > np.maximum(begin, gone)).any():
                out = np.zeros(piece.size + 1, np.int64)
                np.add.at(out, begin, 1)
                np.add.at(out, end, -1)
                due = np.cumsum(out[:-1]) > 0
                due[:gone] = False
                found.append(piece.some(np.flatnonzero(due)))
                piece, gone = piece.some(np.flatnonzero(~due & (np.arange(piece.size) >= gone))), 0
            elif gone:
                piece = piece.some(np.arange(gone, piece.size))
            kept.append(piece)
        self._pieces, self._gone = kept, [0] * len(kept)
        self._tidy()
        return Held.of(found) if found else None

    def all(self) -> Held | None:
        """Take all out."""
        found = self.peek()
        self._pieces, self._gone = [], []
        return found

    def peek(self) -> Held | None:
        """All that wait."""
        parts = [
            piece if not gone else piece.some(np.arange(gone, piece.size))
            for piece, gone in zip(self._pieces, self._gone, strict=True)
        ]
        return Held.of(parts) if parts else None

    def _tidy(self) -> None:
        """Give back pieces of which all, or more than half, is out."""
        kept = [(p, gone) for p, gone in zip(self._pieces, self._gone, strict=True) if gone < p.size]
        slim = [(p.some(np.arange(gone, p.size)), 0) if 2 * gone > p.size else (p, gone) for p, gone in kept]
        self._pieces, self._gone = [p for p, _ in slim], [gone for _, gone in slim]

    # --- state ---

    def state(self, name: str, anew: Array | None, by_place: bool) -> dict[str, Array]:
        """Return the waiting matches as arrays; `anew` are new numbers of substreams, part of numbers `by_place`."""
        held = self.peek()
        if held is None:
            return {}
        chunk = held.chunk
        if by_place and anew is not None:
            held = held._replace(number=_renumbered(held.number, anew), further=_renumbered(held.further, anew))
        columns = {
            "number": held.number, "further": held.further, "start": chunk.start, "end": chunk.end,
            "offsets": chunk.offsets, "positions": chunk.positions, "labels": chunk.labels,
        }  # fmt: skip
        if chunk.partition is not None:
            columns["partition"] = chunk.partition if anew is None else anew[chunk.partition]
        columns |= {time: getattr(chunk, time) for time in _TIMES if getattr(chunk, time) is not None}
        return {f"{name}.{key}": np.ascontiguousarray(column) for key, column in columns.items()}

    def restore(
        self, name: str, arrays: dict[str, Array], partitions: int, position: int, marks: int, by_place: bool
    ) -> None:
        """Continue from a `state`."""
        own = {key[len(name) + 1 :]: array for key, array in arrays.items() if key.startswith(f"{name}.")}
        self._pieces, self._gone = [], []
        if not own:
            return
        count = len(own["number"])
        per_match = [own[key] for key in ("further", "start", "end", "partition", *_TIMES) if key in own]
        require(all(len(column) == count for column in per_match), "what waits is cut off")
        offsets, positions = own["offsets"], own["positions"]
        require(len(offsets) == count + 1 and bool((np.diff(offsets) >= 0).all()), "what waits is cut off")
        require(int(offsets[0]) == 0 and int(offsets[-1]) == len(positions) == len(own["labels"]), "events are missing")
        inside = [own["start"], own["end"], positions]
        require(all(((p >= 0) & (p < position)).all() for p in inside), "what waits has events that never came")
        require(bool(((own["labels"] >= 0) & (own["labels"] < marks)).all()), "what waits has no such label")
        partition = own["partition"]
        substreams = [partition, *(own[key] >> PLACES for key in ("number", "further") if by_place)]
        require(all(((p >= 0) & (p < partitions)).all() for p in substreams), "there is no such substream")
        chunk = Chunk(
            own["start"], own["end"], offsets, positions, own["labels"].astype(np.int32), partition,
            *(own.get(time) for time in _TIMES),
        )  # fmt: skip
        self.add(Held(chunk, own["number"], own["further"]))


def _renumbered(numbers: Array, anew: Array) -> Array:
    return np.asarray((anew[numbers >> PLACES] << PLACES) + (numbers & ((1 << PLACES) - 1)))
