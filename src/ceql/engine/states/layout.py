"""The arrays that the kernels share, grouped by what they are for, and the registers' names."""

from __future__ import annotations

from typing import NamedTuple

from ceql.jit import Array

# Registers: int64 scalars that outlive a call. NODES is register 0 (arena.py).
POOL = 1  # words in use in the pool of partition records
EPOCH = 2  # raised by CONSUME BY ANY: records of an older epoch are empty
EVENT = 3  # index, in the batch, of the event being processed
PHASE = 4  # what is left to do for that event
MATCHES = 5  # matches in the output buffers
ENTRIES = 6  # positions in the output buffers
HOLE_STATE = 7  # the table entry that was missing
HOLE_SYMBOL = 8
LOG = 9  # entries in the replay log
ACTIVE = 10  # active states of the loaded partition
LOADED = 11  # the loaded partition, or -1
ROOTS = 12  # nodes to enumerate at the current event
TOTAL = 13  # count mode: matches counted since the caller last looked
SEEN = 14  # output positions met since the start (those with at least one match)
HORIZON = 15  # the greatest bound met, for windows that all partitions share
SUMMED = 16  # count mode without a window: the nodes whose matches are known
REGISTERS = 17

TOO_MANY = 1 << 61  # sums are given up above this, well before they overflow

# What the loop returns: why it came back.
DONE, HOLE, FULL, BLOCKS, COLLECT, GROW, GROW_PATH, REPLAY, WENT_BACK, OVERFLOW = range(10)

# Phases of an event.
FRESH, OUTPUT, AFTER = range(3)

# Windows, by what the loop has to do for them.
W_GIVEN, W_COUNTED, W_ENVELOPE = range(3)

# What happens at a position that has matches; to FOLLOW is to make none, and to report how far runs get.
ENUMERATE, COUNT, HAND_OVER, FOLLOW = range(4)

# Table entries.
MISSING, NO_OP, DEAD = -1, -2, -3


class Tables(NamedTuple):
    """The determinised automaton, as far as it is known."""

    next: Array  # int32[states, symbols]: MISSING, NO_OP, DEAD or an offset into edges
    edges: (
        Array  # int32: count, whether the last edge stays (unbound, to the state itself), (label or -1, target) pairs
    )
    accept: Array  # uint8[states]: 0 no, 1 yes, 2 yes and nothing leaves the state
    initial_next: Array  # int32[states, symbols]: the initial state after a symbol (NEXT, LAST, MAX)


class Events(NamedTuple):
    """The events of a batch that can change something, as parallel arrays."""

    symbol: Array  # int32
    position: Array  # int64
    partition: Array  # int32
    key: Array  # int64: the start key of a match that starts here
    bound: Array  # int64: the least start key that a match ending here may have
    time: Array  # int64, or length 0


class Partitions(NamedTuple):
    """What is kept for each partition: its record in the pool and a few scalars."""

    offset: Array  # int64: of its record in the pool, -1 when it has no active state
    room: Array  # int64: words of the pool that the record may use
    epoch: Array  # int64
    initial: Array  # int32: the initial state (differs from 0 under NEXT, LAST, MAX only)
    counter: Array  # int64: events seen (W_COUNTED) or the greatest attribute seen (W_ENVELOPE)
    bound: Array  # int64: the greatest bound seen
    floor: Array  # int64: starts with keys below this were given up (W_ENVELOPE)
    log: Array  # int64: its last entry in the replay log
    pool: Array  # int64


class Active(NamedTuple):
    """The hash table T of Algorithm 1 for the loaded partition: active states and their union-lists."""

    state: Array  # int32
    slot: Array  # int32
    new_state: Array  # int32
    new_slot: Array  # int32
    free: Array  # int32: free slots, as a stack; free[-1] is unused
    lists: Array  # int64[slots, longest]
    lengths: Array  # int64[slots]
    place: Array  # int64[states]: where the state stands, if it does (the entry there tells)
    roots: Array  # int64


class Output(NamedTuple):
    """Buffers that the enumeration fills."""

    start: Array  # int64
    end: Array  # int64
    start_time: Array  # int64, or length 0
    end_time: Array  # int64, or length 0
    partition: Array  # int32
    offsets: Array  # int64
    position: Array  # int64
    label: Array  # int32
    stack_node: Array  # int64: the depth-first search
    stack_depth: Array  # int64
    path_position: Array  # int64
    path_label: Array  # int32
    order: Array  # int64: scratch of the sort by start
    spare_position: Array  # int64
    spare_label: Array  # int32


class Settings(NamedTuple):
    """What does not change while a recogniser lives."""

    window: int
    width: int  # of a W_COUNTED window
    exact: bool  # starts must be checked one by one (W_ENVELOPE)
    mode: int
    limit: int  # matches per position, 0 for all
    quota: int  # matches per position that are enumerated before changing to blocks
    consume: int  # 0 none, 1 partition, 2 any
    log: bool
    labelled: bool  # whether labels are written: not when all matches have the same
    emit_from: int  # matches that end before this event of the batch are not wanted
