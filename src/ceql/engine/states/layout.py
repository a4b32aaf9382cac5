"""The arrays and registers that the kernels of the loop over states add to `common.layout`."""

from __future__ import annotations

from typing import NamedTuple

from ceql.engine.common.layout import OWN, OWN_COLUMNS, OWN_REASONS
from ceql.jit import Array

# Registers.
POOL = OWN  # words in use in the pool of partition records
EPOCH = OWN + 1  # raised by CONSUME BY ANY: records of an older epoch are empty
HOLE_STATE = OWN + 2  # the table entry that was missing
HOLE_SYMBOL = OWN + 3
LOG = OWN + 4  # entries in the replay log
ACTIVE = OWN + 5  # active states of the loaded partition
LOADED = OWN + 6  # the loaded partition, or -1
BOOKED = OWN + 7  # the nodes that the book has from which NEXT and LAST pick, see `pick`
OWN_REGISTERS = OWN + 8

# Why the loop came back.
HOLE = OWN_REASONS  # an entry of the automaton's table is missing
GROW = OWN_REASONS + 1  # there are more active states, or longer lists, than there is room for
MORE = OWN_REASONS + 2  # to list a position's matches takes more than is compiled yet
SWEEP = OWN_REASONS + 3  # young nodes are as many as a near cache holds

MISSING, NO_OP, DEAD = -1, -2, -3  # table entries

# Columns of the table of partitions.
RECORD = OWN_COLUMNS  # the offset of the partition's record in the pool, -1 when it has no active state
ROOM = OWN_COLUMNS + 1  # words of the pool that the record may use
SINCE = OWN_COLUMNS + 2  # the epoch of the record
INITIAL = OWN_COLUMNS + 3  # the initial state (differs from 0 under NEXT, LAST, MAX only)
LOGGED = OWN_COLUMNS + 4  # the last entry in the replay log
COLUMNS = OWN_COLUMNS + 5

# Rows of the active states: by place in the table, then the stack of free slots, then by slot.
STATE, SLOT, NEW_STATE, NEW_SLOT, FREE, LENGTH = range(6)

POSITION, LABEL = range(2)  # columns of the search's path


class Tables(NamedTuple):
    """The determinised automaton, as far as it is known."""

    next: Array  # int32[states, symbols]: MISSING, NO_OP, DEAD or an offset into edges
    edges: (
        Array  # int32: count, whether the last edge stays (unbound, to the state itself), (label or -1, target) pairs
    )
    accept: Array  # uint8[states]: 0 no, 1 yes, 2 yes and nothing leaves the state
    initial_next: Array  # int32[states, symbols]: the initial state after a symbol (NEXT, LAST, MAX)


class Partitions(NamedTuple):
    """What is kept for each partition: a row of scalars, and a record of its active states in the pool."""

    table: Array  # int64[partitions, COLUMNS]
    pool: Array  # int64


class Active(NamedTuple):
    """The hash table T of Algorithm 1 for the loaded partition: active states and their union-lists."""

    table: Array  # int64[6, slots + 1]; the last of FREE is the height of that stack
    lists: Array  # int64[slots, longest]
    place: Array  # int64[states]: where the state stands, if it does (the entry there tells)
    roots: Array  # int64


class Store(NamedTuple):
    """All that an event may change."""

    nodes: Array  # int64[capacity, NODE_WORDS]
    times: Array  # int64[capacity], or length 0
    regs: Array
    parts: Partitions
    active: Active
    log: Array  # int64[entries, LOG_WORDS]: see `loop._log`


class Start(NamedTuple):
    """A match that may start at the event at hand."""

    position: int
    time: int
    key: int
    exact: int
