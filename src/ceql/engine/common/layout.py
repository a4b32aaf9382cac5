"""Layout of what kernels of both loops share: registers, reasons to come back, windows, arrays of events and output.

Arrays that belong together are the rows or columns of one array. Each array that a kernel takes makes it slower to
compile, and the loops take many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.jit import Array, record

# Registers: int64 scalars that outlive a call. Each loop adds its own from OWN on.
NODES = 0  # rows of the graph in use
EVENT = 1  # index, in the batch, of the event being processed
PHASE = 2  # what is left to do for that event
MATCHES = 3  # matches in the output buffers
POSITIONS = 4  # positions in the output buffers
ROOTS = 5  # nodes to enumerate at the current event
TOTAL = 6  # count mode: matches counted since the caller last looked
SEEN = 7  # matches of the current position, as far as it matters whether there are any
HORIZON = 8  # the greatest bound met, for windows that all partitions share
SUMMED = 9  # count mode without a window: the nodes whose matches are known
LEAST = 10  # the least start key that a match ending at the current event may have
OWN = 11
# Those of the readers come after all others, and no snapshot has them.
NOTED = 32  # positions whose matches are still to be read, see `Roots`
NOTED_NODES = 33  # and their roots
READ = 34  # how many of these positions have been read
TOTALLED = 35  # and of how many the matches have been counted
SPARED_AT = 36  # where events come by key: and how many were noted when the nodes were `SPARED`
UNREAD = 37  # no position that is still to be read has a lower bound than this
HEIGHT = 38  # of the search that stands on the stack
LIVE_FROM = 39  # when counting in a window: no node before this one is live
LIVE_COUNT = 40  # and how many nodes were, when that was last counted
COUNTED = 41  # how often matches were counted
PICKED = 42  # of the positions among whose matches a strategy chooses, those that have been through
TO_PICK = 43  # and all
# Where events come by key (`common.pieces`):
UNTIL = 44  # the bounds of later events are not below this
BASE = 45  # one more than the old nodes: those before the event `FROM`; 0 where events come in order of time
FROM = 46
KEPT = 47  # whether a substream at rest holds younger ones
SPARED = 48  # no substream at rest holds younger nodes than those, and no root that was noted until then
REGISTERS = 49

# Why a loop comes back. Each loop adds its own reasons from OWN_REASONS on.
DONE = 0
FULL = 1  # the output buffers are full
BLOCKS = 2  # a position has more matches than the buffers hold
COLLECT = 3  # the graph is full
GROW_PATH = 4  # a match is longer, or the search deeper, than there is room for
HAND_OVER = 5  # the caller chooses among the matches of this position
WENT_BACK = 6  # the attribute of the window fell to where memory has been given back
OVERFLOW = 7  # a position has more matches than an int64 can count
READ_FIRST = 8  # there is no room for what is still to be read
OWN_REASONS = 9

FRESH, OUTPUT, AFTER = range(3)  # phases of an event

# Windows, by what a loop has to do for them: the keys are given; events of the substream are counted; the attribute may
# fall, so that keys are its running maximum and each start is checked by itself.
W_GIVEN, W_COUNTED, W_ENVELOPE = range(3)

# What happens at a position that has matches: they are enumerated or counted, the caller chooses among them, or none
# are made, and the loop reports how far runs get.
ENUMERATE, COUNT, CHOOSE, FOLLOW = range(4)

NEVER = np.iinfo(np.int64).max  # later than every start
NO_KEY = np.iinfo(np.int64).min  # of an event that can start no match: its window attribute is NULL
TOO_MANY = 1 << 61  # sums are given up above this, well before they overflow

# Columns of the table of partitions. Each loop adds its own from OWN_COLUMNS on.
COUNTER = 0  # events seen (W_COUNTED) or the greatest attribute seen (W_ENVELOPE)
BOUND = 1  # the greatest bound seen
FLOOR = 2  # starts with keys below this were given up (W_ENVELOPE)
OWN_COLUMNS = 3

# Rows of the matches in the output. The times are there only where events have times.
START, END, PARTITION, OFFSET, START_TIME, END_TIME = range(6)


@record
class Events(NamedTuple):
    """The events of a batch that can change something, as parallel arrays."""

    symbol: Array  # int32
    position: Array  # int64
    partition: Array  # int32
    key: Array  # int64: the start key of a match that starts here
    bound: Array  # int64: the least start key that a match ending here may have
    time: Array  # int64, or length 0
    values: Array  # int32[events, terms]: numbers of the values that are looked up, -1 for NULL; the loop over groups


NO_VALUES: Array = np.zeros((0, 0), np.int32)


BLOCK = 32  # runs that are found in order and scanned before they are sorted; at most 64, a power of two


@record
class Settings(NamedTuple):
    """What does not change while a recogniser lives."""

    window: int
    width: int  # of a W_COUNTED window
    exact: bool  # starts must be checked one by one (W_ENVELOPE)
    mode: int
    limit: int  # matches per position, 0 for all
    consume: int  # 0 none, 1 partition, 2 any
    latest: int = 0  # one match is enough: 0 no, 1 of the latest starts, 2 of the only latest start
    chain: bool = True  # whether every match is a chain: a search gives its events in order
    ordered: bool = True  # whether matches are wanted in order here
    few: int = NEVER  # matches of a position: if there are more, they are chosen or come in blocks
    labelled: bool = True  # whether labels are written: not when all matches have the same
    lanes: int = 1  # positions whose matches are counted together
    notes: bool = True  # whether anybody reads what is found
    waits: bool = False  # whether the caller must say, before the next event is read, if a position has a match
    picks: bool = False  # whether the matches of earliest start alone are shown (NEXT, LAST)
    log: bool = False  # whether events are logged, to be gone through again
    emit_from: int = 0  # matches that end before this event of the batch are not wanted
    block: int = BLOCK  # see there; less in tests


@record
class Output(NamedTuple):
    """Buffers that the enumeration fills, and the stack of its search.

    Match i has the positions `position[match[OFFSET, i]:match[OFFSET, i + 1]]` with as many labels. Each loop has its
    own columns of the stack and the path.
    """

    match: Array  # int64[4 or 6, matches + 1]
    position: Array  # int64
    label: Array  # int32
    stack: Array  # int64[depth, columns]
    path: Array  # int64[depth, 2]
    spare: Array  # int64[6, matches or positions]: scratch of the sort by start
