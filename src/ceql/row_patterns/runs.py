"""The matches of a program (`program.build`): the loop over ordered runs, at most one for each wait and carried values.

It finds the preferred match of each start while rows come, whatever conditions ask of the match; its work for a row is
the number of waits times that of the values that runs carry, and never that of the ways to match.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.chunk import Chunk, joined
from ceql.engine.common.layout import NO_KEY
from ceql.jit import Array
from ceql.recognition.ordered_runs import OrderedRuns
from ceql.row_patterns.matched import Matches, Partitions, Searched, in_order
from ceql.row_patterns.program import TARGET, Program
from ceql.row_patterns.statement import PAST_LAST, TO_FIRST, TO_LAST, TO_NEXT
from ceql.syntax.tree import Skip

_SKIPS = {PAST_LAST: Skip.PAST_LAST, TO_NEXT: Skip.TO_NEXT, TO_FIRST: Skip.TO_FIRST, TO_LAST: Skip.TO_LAST}


def find_matches(program: Program, partitions: Partitions, skip: str, begin: Array | None = None) -> Matches:
    """The matches, in order of partition and start; of each partition from the row `begin` on, if that is given."""
    rows = np.arange(len(program.holds))
    at = _in_time(program, rows if begin is None else rows[rows >= begin[partitions.of_row]])
    runs, chunks = _fed(program, partitions, skip, at)
    return _matches(runs, [*chunks, *runs.finish()], at, partitions)


def find_decided(
    program: Program, partitions: Partitions, skip: str, searched: Searched, passed: int | None
) -> tuple[Matches, Array]:
    """The matches that no row to come can change, and the row at which the search goes on in each partition.

    All rows to come are later than `passed`, if that is given.
    """
    rows, of_row = np.arange(len(program.holds)), partitions.of_row
    at = _in_time(program, rows[(rows >= searched.begin[of_row]) & (rows < searched.end[of_row])])
    runs, chunks = _fed(program, partitions, skip, at)
    bound = NO_KEY
    if passed is not None and program.times is not None:
        bound = passed + 2 - program.width
        chunks += [*runs.machine.decide(bound), *runs.machine.flush()]
    first = runs.undecided(len(searched.end), bound)
    goes_on = np.where(first < len(at), np.append(at, 0)[first], searched.end)
    found = _matches(runs, chunks, at, partitions)
    return found.only(found.start < goes_on[found.partition]), goes_on


def _in_time(program: Program, rows: Array) -> Array:
    """Rows in order of time, as windows need them: rows are by partition."""
    return rows if program.times is None else rows[np.argsort(program.times[rows], kind="stable")]


def _fed(program: Program, partitions: Partitions, skip: str, at: Array) -> tuple[OrderedRuns, list[Chunk]]:
    """A recogniser that has read some rows, and the matches that they decide."""
    variable = TARGET if skip in (TO_FIRST, TO_LAST) else None
    runs = OrderedRuns(program.ordered, _SKIPS[skip], variable, windowed=program.times is not None)
    keys = bounds = None
    if program.times is not None:
        keys = program.times[at]
        bounds = np.where(keys == NO_KEY, NO_KEY, keys + 1 - program.width)
    words = program.words[at] if program.ordered.registers else None
    return runs, list(runs.feed(program.holds[at], words, partitions.of_row[at], keys, bounds))


def _matches(runs: OrderedRuns, chunks: list[Chunk], at: Array, partitions: Partitions) -> Matches:
    none = np.zeros(0, np.int64)
    if not chunks:
        return Matches(none, none, none.astype(np.int32), partitions)
    chunk = joined(chunks)
    place_of = np.array([_place(label) for label in runs.labels] + [-1], np.int32)
    places = place_of[np.asarray(chunk.labels)]
    return in_order(at[chunk.start], chunk.offsets[:-1], np.diff(chunk.offsets), places, partitions)


def _place(label: frozenset[str]) -> int:
    """The place of the pattern that a label names."""
    return int(next(name for name in label if name != TARGET))
