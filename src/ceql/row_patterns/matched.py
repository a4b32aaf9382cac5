"""The matches of a pattern over rows in order, as arrays: which rows, and which place of the pattern read each.

A match is a range of the rows; rows are those of the sorted table. The rows of all matches, one match after the other,
are the *matched rows*; a row that is in several matches is there several times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ceql.jit import Array


@dataclass(frozen=True)
class Partitions:
    """Where each partition begins in the sorted table; the last entry is the number of rows."""

    bounds: Array
    before: Array | None = None
    """How many matches each had in rows that came earlier, of a stream."""

    @cached_property
    def of_row(self) -> Array:
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


@dataclass(frozen=True)
class Searched:
    """The rows of each partition of a stream in which matches are looked for: from `begin` to `end`."""

    begin: Array
    end: Array
    whole: Array
    """Whether the partition begins there, too."""
    before: Array
    """How many matches each partition had in rows that came earlier."""


@dataclass(frozen=True)
class Matches:
    """Matches in order of partition and start."""

    start: Array
    length: Array
    place: Array
    """Of each matched row: the place that read it."""
    partitions: Partitions

    @cached_property
    def offsets(self) -> Array:
        """Where the matched rows of each match begin; one entry more than there are matches."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.length)])

    @cached_property
    def owner(self) -> Array:
        """Of each matched row: its match."""
        return np.repeat(np.arange(len(self.start)), self.length)

    @cached_property
    def row(self) -> Array:
        """Of each matched row: the row of the table."""
        return np.asarray(np.arange(len(self.place)) - np.repeat(self.offsets[:-1] - self.start, self.length))

    @cached_property
    def partition(self) -> Array:
        return np.asarray(np.searchsorted(self.partitions.bounds, self.start, side="right") - 1)

    @cached_property
    def number(self) -> Array:
        """Of each match: its number in its partition, from 1."""
        if not len(self.start):
            return np.zeros(0, np.int64)
        first = np.flatnonzero(np.concatenate([[True], np.diff(self.partition) != 0]))
        number = np.arange(len(self.start)) - np.repeat(first, np.diff(np.append(first, len(self.start)))) + 1
        before = self.partitions.before
        return number if before is None else np.asarray(number + before[self.partition])

    def only(self, chosen: Array) -> Matches:
        """Some of the matches."""
        return Matches(
            self.start[chosen], self.length[chosen], self.place[np.repeat(chosen, self.length)], self.partitions
        )


def in_order(start: Array, first: Array, length: Array, place: Array, partitions: Partitions) -> Matches:
    """Matches in order of their starts. The places of each are `length` entries of `place`, from `first` on."""
    order = np.argsort(start, kind="stable")
    length = length[order]
    begins = np.cumsum(length) - length
    entries = np.arange(int(length.sum())) + np.repeat(first[order] - begins, length)
    return Matches(start[order], length, place[entries], partitions)


@dataclass(frozen=True)
class Outputs:
    """The rows of the result: of each its match (-1: none), its matched row (-1: none), and its row of the table."""

    match: Array
    matched: Array
    row: Array


def outputs(matches: Matches, shown: Array, rows: int, all_rows: bool, empty: str) -> Outputs:
    """The rows that the result has, in order. `shown` says of each matched row whether it is."""
    none = np.full(1, -1)
    is_empty = matches.length == 0
    if not all_rows:
        last = np.where(is_empty, -1, matches.offsets[1:] - 1)
        return Outputs(np.arange(len(matches.start)), last, matches.start)
    kept = np.flatnonzero(shown)
    found = Outputs(matches.owner[kept], kept, matches.row[kept])
    if empty != "omit" and is_empty.any():
        alone = np.flatnonzero(is_empty)
        found = _both(found, Outputs(alone, np.repeat(none, len(alone)), matches.start[alone]))
        order = np.argsort(found.match, kind="stable")
        found = Outputs(found.match[order], found.matched[order], found.row[order])
    if empty == "unmatched":
        in_match = np.zeros(rows, bool)
        in_match[matches.row] = True
        in_match[matches.start[is_empty]] = True
        alone = np.flatnonzero(~in_match)
        # The rows of a match stay together: a row between matches comes where it would have begun one.
        begins = np.concatenate([matches.start[found.match], alone])
        found = _both(found, Outputs(np.repeat(none, len(alone)), np.repeat(none, len(alone)), alone))
        order = np.argsort(begins, kind="stable")
        found = Outputs(found.match[order], found.matched[order], found.row[order])
    return found


def _both(a: Outputs, b: Outputs) -> Outputs:
    return Outputs(
        np.concatenate([a.match, b.match]), np.concatenate([a.matched, b.matched]), np.concatenate([a.row, b.row])
    )
