"""From the complete runs of a correlated query to its matches.

A run is only a candidate if claims are left to check, if two runs may be the same match, or if a strategy chooses among
the matches of a position. Candidates come in chunks, and every step
works on whole chunks: checks, labels, duplicates, strategy, order, LIMIT.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ceql.automata.correlated import Correlated
from ceql.automata.strategies.candidates import Places, sums
from ceql.engine.common.chunk import Chunk, joined, rows
from ceql.jit import Array
from ceql.plans import Plan
from ceql.recognition.result_columns import masks_of

Check = Callable[[Chunk], Array]
_ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


class Labels:
    """The sets of selected variables that events are bound to, numbered; the first are those of the marks."""

    def __init__(self, auto: Correlated, selected: tuple[str, ...], columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.shared = auto.shares_events
        wanted = frozenset(selected)
        self._number: dict[frozenset[str], int] = {}
        self.of_mark: Array = np.array([self.number(auto.label(mark) & wanted) for mark in auto.marks], np.int32)

    def number(self, label: frozenset[str]) -> int:
        return self._number.setdefault(label, len(self._number))

    @property
    def hidden(self) -> int | None:
        """The number of the empty label, if an event may have it: it is not selected."""
        return self._number.get(frozenset())

    @property
    def sets(self) -> list[frozenset[str]]:
        return list(self._number)

    @property
    def masks(self) -> Array:
        """Which variables each label binds."""
        return masks_of(self._number, self.columns)

    def union(self, one: Array, other: Array) -> Array:
        """The labels of events that have both."""
        pairs, inverse = np.unique(np.stack([one, other]), axis=1, return_inverse=True)
        sets = self.sets
        numbers = [self.number(sets[a] | sets[b]) for a, b in pairs.T.tolist()]
        return np.array(numbers, np.int32)[inverse.reshape(-1)]

    @property
    def of_marks_alone(self) -> bool:
        """Whether each event of a run is shown, under the label of its mark."""
        return not self.shared and self.hidden is None

    def of(self, chunk: Chunk) -> Chunk:
        """A chunk with labels for marks, each event once, and without the events that are not selected."""
        labels = self.of_mark[chunk.labels]
        positions, lengths = chunk.positions, np.diff(chunk.offsets)
        match_of = np.repeat(np.arange(len(lengths)), lengths)
        while self.shared:
            again = np.zeros(len(positions), np.bool_)
            again[1:] = (positions[1:] == positions[:-1]) & (match_of[1:] == match_of[:-1])
            again[1:] &= ~again[:-1]  # of three alike, this round unites the second and the next the third
            second = np.flatnonzero(again)
            if not len(second):
                break
            labels[second - 1] = self.union(labels[second - 1], labels[second])
            positions, labels, match_of = positions[~again], labels[~again], match_of[~again]
        if self.hidden is not None:
            shown = labels != self.hidden
            positions, labels, match_of = positions[shown], labels[shown], match_of[shown]
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(np.bincount(match_of, minlength=len(lengths)), out=offsets[1:])
        return chunk._replace(offsets=offsets, positions=positions, labels=labels)


class Chooser:
    """Makes matches of candidates."""

    def __init__(self, plan: Plan, labels: Labels, check: Check | None, places: Places, unsure: bool) -> None:
        query = plan.query
        self.labels = labels
        self.check = check
        self.places = places
        self.unsure = unsure  # whether two runs may be one match
        self.distinct = query.distinct
        self.strategy = plan.strategy
        self.limit = plan.limit

    def sift(self, chunk: Chunk) -> Chunk:
        """The candidates that satisfy all claims, with labels for marks."""
        if self.check is not None:
            chunk = rows(chunk, np.flatnonzero(self.check(chunk)))
        return self.labels.of(chunk)

    def choose(self, chunks: list[Chunk]) -> list[Chunk]:
        """The matches among the candidates of some positions, sorted by end; within one end, latest start first."""
        chunks = [chunk for chunk in chunks if len(chunk.start)]
        if not chunks:
            return []
        found = joined(chunks)
        # strategies compare neighbours of one end; what NOT at the end has held back comes in the order of deadlines
        found = rows(found, np.lexsort((np.arange(len(found.start)), -found.start, found.end)))
        if self.unsure:
            found = rows(found, _first_of_each(found, self.distinct))
        if self.strategy is not None:
            found = rows(found, self.strategy.choose(found, self.places))
        if self.limit:
            ends, first = np.unique(found.end, return_index=True)
            rank = np.arange(len(found.end)) - first[np.searchsorted(ends, found.end)]
            found = rows(found, np.flatnonzero(rank < self.limit))
        return [found] if len(found.start) else []


def _first_of_each(found: Chunk, distinct: bool) -> Array:
    """The matches that are not the same as an earlier one, told apart by two hashes of 64 bits."""
    lengths = np.diff(found.offsets)
    place = (np.arange(found.offsets[-1]) - np.repeat(found.offsets[:-1], lengths)).astype(np.uint64)
    columns = [found.end, found.start, lengths]
    with np.errstate(over="ignore"):
        for odd in _ODD:
            factor = np.uint64(odd)
            word = found.positions.astype(np.uint64) * factor
            if not distinct:
                word ^= (found.labels.astype(np.uint64) + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)
            word = (word ^ (word >> np.uint64(32))) * factor + place * np.uint64(0xA0761D6478BD642F)
            word = (word ^ (word >> np.uint64(29))) * factor
            columns.append(sums(word ^ (word >> np.uint64(32)), found.offsets).view(np.int64))
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return np.sort(order[new])
