"""The matches of a program (`program.build`): the loop over ordered runs, at most one for each wait and carried values.

It finds the preferred match of each start while rows come, whatever conditions ask of the match; its work for a row is
the number of waits times that of the values that runs carry, and never that of the ways to match.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.common.chunk import joined
from ceql.jit import Array
from ceql.recognition.ordered_runs import OrderedRuns
from ceql.row_patterns.matched import Matches, Partitions
from ceql.row_patterns.program import TARGET, Program
from ceql.row_patterns.statement import PAST_LAST, TO_FIRST, TO_LAST, TO_NEXT
from ceql.syntax.tree import Skip

_SKIPS = {PAST_LAST: Skip.PAST_LAST, TO_NEXT: Skip.TO_NEXT, TO_FIRST: Skip.TO_FIRST, TO_LAST: Skip.TO_LAST}


def find_matches(program: Program, partitions: Partitions, skip: str) -> Matches:
    """The matches, in order of partition and start."""
    variable = TARGET if skip in (TO_FIRST, TO_LAST) else None
    runs = OrderedRuns(program.ordered, _SKIPS[skip], variable)
    words = program.words if program.ordered.registers else None
    chunks = [*runs.feed(program.holds, words, partitions.of_row), *runs.finish()]
    none = np.zeros(0, np.int64)
    if not chunks:
        return Matches(none, none, none.astype(np.int32), partitions)
    chunk = joined(chunks)
    lengths = np.diff(chunk.offsets)
    order = np.argsort(chunk.start, kind="stable")
    place_of = np.array([_place(label) for label in runs.labels] + [-1], np.int32)
    first = chunk.offsets[:-1][order]
    lengths = lengths[order]
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])[:-1]
    entries = np.arange(int(lengths.sum())) + np.repeat(first - begins, lengths)
    labels: Array = np.asarray(chunk.labels)[entries]
    return Matches(chunk.start[order], lengths, place_of[labels], partitions)


def _place(label: frozenset[str]) -> int:
    """The place of the pattern that a label names."""
    return int(next(name for name in label if name != TARGET))
