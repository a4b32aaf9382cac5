"""The arrays that the kernels of the second loop share, and the registers' names."""

from __future__ import annotations

from typing import NamedTuple

from ceql.engine.common.reached import Reached
from ceql.jit import Array

# Registers: int64 scalars that outlive a call.
NODES = 0  # rows of the graph in use
ENTRIES = 1  # entries of the look-up table in use
EVENT = 2  # index, in the batch, of the event being processed
PHASE = 3  # what is left to do for that event
MATCHES = 4  # matches in the output buffers
POSITIONS = 5  # positions in the output buffers
ROOTS = 6  # nodes to enumerate at the current event
TOTAL = 7  # count mode: matches counted since the caller last looked
SEEN = 8  # whether the current position had a match
HORIZON = 9  # the greatest bound met, for windows that all partitions share
FORGOTTEN = 10  # CONSUME BY ANY: events up to this position are forgotten
SUMMED = 11  # count mode without a window: the nodes whose matches are known
BOUND = 12  # the least start key that a match ending at the current event may have
HEIGHT = 13  # of the search that stands on the stack
REGISTERS = 14

# What the loop returns: why it came back.
DONE, FULL, MANY, SWEEP, GROW_TABLE, GROW_STACK, HAND_OVER, WENT_BACK, OVERFLOW = range(9)

FRESH, OUTPUT, AFTER = range(3)  # phases of an event

NULLS_DIFFER = 1 << 30  # added to the term of a disequality: it holds where a value is NULL, too
NULL_BEFORE, NULL_NOW = -2, -3  # as values of such a disequality: like no other, and unlike each other

# Columns of an entry of the look-up table: index, partition, node, the number in its substream and the position of the
# event that last added to it, then the key.
INDEX, PARTITION, NODE, STAMP, SINCE, KEY = range(6)


class Steps(NamedTuple):
    """The automaton. Ranges are given by offsets: those of k are `x[k]` to `x[k + 1]`."""

    by_symbol: Array  # int32: offsets into `order`
    order: Array  # int32: transitions that a symbol's guards allow
    target: Array  # int32, of each transition
    mark: Array  # int32
    links: Array  # int32: offsets into `link_index`
    link_index: Array  # int32
    link_keys: Array  # int32: offsets into `link_terms`
    link_terms: Array  # int32
    link_unlike: Array  # int32: a term whose value the runs' must differ from, or -1
    needs: Array  # int32: offsets into `need_terms`
    need_terms: Array  # int32
    feeds: Array  # int32, of each state: offsets into `feed_index`
    feed_index: Array  # int32
    feed_keys: Array  # int32: offsets into `feed_terms`
    feed_terms: Array  # int32
    feed_unlike: Array  # int32: the term that it is compared with, or -1
    tight: Array  # uint8, of each index
    final: Array  # uint8, of each state


class Events(NamedTuple):
    """The events of a batch, as parallel arrays."""

    symbol: Array  # int32
    position: Array  # int64
    partition: Array  # int32
    key: Array  # int64: the start key of a match that starts here
    bound: Array  # int64: the least start key that a match ending here may have
    time: Array  # int64, or length 0
    values: Array  # int32[events, terms]: numbers of values, -1 for NULL


class Partitions(NamedTuple):
    """What is kept for each substream."""

    seen: Array  # int64: events so far
    counter: Array  # int64: the greatest attribute seen (W_ENVELOPE)
    bound: Array  # int64: the greatest bound seen
    floor: Array  # int64: starts with keys below this were given up (W_ENVELOPE)
    forgotten: Array  # int64: CONSUME BY PARTITION: events up to this position are


class Fresh(NamedTuple):
    """The runs that the current event has made: states and nodes."""

    state: Array  # int32
    node: Array  # int64
    roots: Array  # int64: those in final states
    reached: Reached  # FOLLOW: all that was made so far; else empty


class Output(NamedTuple):
    """Buffers that the enumeration fills."""

    start: Array  # int64
    end: Array  # int64
    start_time: Array  # int64, or length 0
    end_time: Array  # int64, or length 0
    partition: Array  # int32
    offsets: Array  # int64
    position: Array  # int64
    mark: Array  # int32
    stack_node: Array  # int64: the search
    stack_depth: Array  # int64
    stack_todo: Array  # int64: the parts of the match that are still to be chosen, a list in `cells`
    stack_cells: Array  # int64: how many cells there were
    stack_unlike: Array  # int64: the value that a list is searched without, or -1
    path: Array  # int64
    cell_node: Array  # int64
    cell_next: Array  # int64
    order: Array  # int64: scratch of the sort by start
    spare_order: Array  # int64
    spare_position: Array  # int64
    spare_mark: Array  # int32


class Settings(NamedTuple):
    """What does not change while a recogniser lives."""

    window: int
    width: int  # of a W_COUNTED window
    exact: bool  # starts must be checked one by one (W_ENVELOPE)
    mode: int  # ENUMERATE, COUNT, HAND_OVER or FOLLOW
    limit: int  # matches per position, 0 for all
    latest: int  # one match is enough: 0 no, 1 of the latest starts, 2 of the only latest start
    consume: int  # 0 none, 1 partition, 2 any
    chain: bool  # whether every match is a chain: a search gives its events in order
    ordered: bool  # whether matches are wanted in order here
