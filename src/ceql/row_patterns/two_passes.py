"""The matches of a pattern whose conditions look at rows and their neighbours: two passes over the rows (`kernels`).

`runs` finds them, too, and is needed wherever a condition asks for other rows of the match, or rows still come. It
keeps a list of runs for each row; with all rows and all truths at hand, two passes do without, in a quarter of the time
for V shapes and a fortieth for `(A+)+ B` (`python -m bench.row_patterns matchers 300000`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceql.errors import DataError, ResourceError
from ceql.jit import Array
from ceql.row_patterns import kernels
from ceql.row_patterns.automaton import OrderedPattern
from ceql.row_patterns.kernels import Places
from ceql.row_patterns.matched import Matches, Partitions
from ceql.row_patterns.statement import PAST_LAST, TO_FIRST, TO_LAST, TO_NEXT

MAX_MATCHED = 2**31
UNBOUND = "AFTER MATCH SKIP TO: a match has no row of this variable"
STANDS = "AFTER MATCH SKIP TO: the row is the match's own first, where the search would begin again"
SKIPS = {PAST_LAST: kernels.PAST, TO_NEXT: kernels.NEXT, TO_FIRST: kernels.FIRST, TO_LAST: kernels.LAST}


def find_matches(
    pattern: OrderedPattern,
    guards: Sequence[Array | None],
    guard_of: dict[str, int],
    partitions: Partitions,
    skip: str,
    targets: frozenset[str],
) -> Matches:
    """The matches. `guards` are the truths of conditions at each row, None of one that always is true."""
    rows = int(partitions.bounds[-1])
    places = in_arrays(pattern, guard_of, targets)
    symbols, holds = _symbols(guards, rows)
    bits, sets = _sets(places, symbols, holds, partitions)
    state = np.zeros(4, np.int64)
    room = rows if skip == PAST_LAST else max(1024, 2 * rows)
    starts, lengths = np.empty(rows, np.int64), np.empty(rows, np.int64)
    read = np.empty(room, np.int32)
    while True:
        reason = kernels.find(places, bits, sets, partitions.bounds, SKIPS[skip], state, starts, lengths, read)
        if reason != kernels.FULL:
            break
        if len(read) >= MAX_MATCHED:
            raise ResourceError(
                f"the matches have more than {MAX_MATCHED:,} rows in all: write AFTER MATCH SKIP PAST LAST ROW, or a "
                "pattern whose matches are shorter",
                "matched rows",
            )
        read = np.concatenate([read, np.empty(len(read), np.int32)])
    if reason == kernels.UNBOUND:
        raise DataError(UNBOUND)
    if reason == kernels.STANDS:
        raise DataError(STANDS)
    made = state[kernels.MADE]
    return Matches(starts[:made].copy(), lengths[:made].copy(), read[: state[kernels.WRITTEN]], partitions)


def in_arrays(pattern: OrderedPattern, guard_of: dict[str, int], targets: frozenset[str]) -> Places:
    places = pattern.places
    begin = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(place.after) for place in places], dtype=np.int64)])
    return Places(
        guard=np.array([guard_of[place.variable] for place in places], np.int64),
        begin=begin,
        after=np.array([after for place in places for after in place.after], np.int64),
        accepts=np.array([place.accepts for place in places], np.int64),
        target=np.array([place.variable in targets for place in places], bool),
        first=np.array(pattern.first.places, np.int64),
        other=np.array(pattern.other.places, np.int64),
        empty=np.array([pattern.first.empty, pattern.other.empty], bool),
    )


def _symbols(guards: Sequence[Array | None], rows: int) -> tuple[Array, Array]:
    """The number of each row's set of guards that hold, and of each number which do."""
    asked = [k for k, guard in enumerate(guards) if guard is not None]
    symbols = np.zeros(rows, np.uint16)
    holds = np.ones((1, len(guards)), bool)
    for k in asked:
        guard = guards[k]
        assert guard is not None
        symbols = symbols * np.uint16(2) + guard
        holds = np.repeat(holds, 2, axis=0)
        holds[0::2, k] = False
        if len(holds) > 256:
            used = np.flatnonzero(np.bincount(symbols, minlength=len(holds)))
            number = np.zeros(len(holds), np.uint16)
            number[used] = np.arange(len(used))
            if len(used) > 2**14:
                raise ResourceError(
                    f"the conditions of DEFINE tell more than {2**14:,} kinds of row apart", "conditions"
                )
            symbols, holds = number[symbols], holds[used]
    return symbols, holds


def _sets(places: Places, symbols: Array, holds: Array, partitions: Partitions) -> tuple[Array, Array]:
    """The sets of places, and the number of each row's."""
    words = (len(places.guard) + 63) // 64
    bits = np.zeros((16, words), np.uint64)
    before = np.full((16, len(holds)), kernels.NO_SET, np.int32)
    number = {b"end": kernels.AT_END, bits[0].tobytes(): kernels.NOTHING}
    sets = np.empty(int(partitions.bounds[-1]), np.int32)
    count = len(partitions.bounds) - 1
    state = np.array([count - 1, len(sets) - 1, 0], np.int64)
    found = np.empty(words, np.uint64)
    while kernels.look_back(symbols, partitions.bounds, before, state, sets) == kernels.NEW_SET:
        symbol, after = symbols[state[1]], state[2]
        kernels.make_set(places, holds[symbol], bits, after, found)
        key = found.tobytes()
        if key not in number:
            made = number[key] = len(number)
            if made == len(bits):
                bits = np.concatenate([bits, np.zeros_like(bits)])
                before = np.concatenate([before, np.full_like(before, kernels.NO_SET)])
            bits[made] = found
        before[after, symbol] = number[key]
    return bits, sets
