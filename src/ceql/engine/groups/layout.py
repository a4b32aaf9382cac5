"""The arrays and registers that the kernels of the loop over groups add to `common.layout`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ceql.engine.common.layout import BLOCK, OWN, OWN_COLUMNS, OWN_REASONS
from ceql.jit import Array, record

# Registers.
ENTRIES = OWN  # entries of the look-up table in use
FORGOTTEN = OWN + 1  # CONSUME BY ANY: events up to this position are forgotten
NEED = OWN + 2  # entries that the current event needs room for
ROWS_USED = OWN + 3  # rows of buckets in use
BUCKETS_USED = OWN + 4  # buckets so far
CELLS_USED = OWN + 5  # cells of sets of values
ROWS_NEEDED = OWN + 6  # rows that the current event needs room for
LEFT_BUCKET = OWN + 7  # the first of the buckets that were forgotten since positions were last read, -1: there is none
FREE_BUCKET = OWN + 8  # and of those that nothing has any more
OWN_REGISTERS = OWN + 9

# Why the loop came back, beyond the reasons of both loops.
GROW_TABLE = OWN_REASONS  # the look-up table is full
GROW_FRESH = OWN_REASONS + 1  # an event makes more runs than there is room for
INEXACT = OWN_REASONS + 2  # a condition calculates with numbers that are too large
GROW_ROWS = OWN_REASONS + 3  # there is no room for runs in order
GROW_CELLS = OWN_REASONS + 4  # nor for a set of values
ASK = OWN_REASONS + 5  # the caller must tell which lists satisfy a condition

# Registers of runs are int64. These two are no values: no event is there, or its value is NULL. NULL is below zero like
# the number of no value, so that look-ups find nothing under it.
UNBOUND = np.iinfo(np.int64).min
NULL = UNBOUND + 1
LEAST_VALUE = UNBOUND + 2

# Columns of the table of partitions.
SEEN_EVENTS = OWN_COLUMNS  # events so far
FORGOTTEN_HERE = OWN_COLUMNS + 1  # CONSUME BY PARTITION: events up to this position are forgotten
COLUMNS = OWN_COLUMNS + 2  # from here on, of each index that NOT ends: its runs up to this position are ended

NULLS_DIFFER = 1 << 30  # added to the term of a disequality: it holds where a value is NULL, too
NULL_BEFORE, NULL_NOW = -2, -3  # as values of such a disequality: like no other, and unlike each other

# Columns of an entry of the look-up table: index, substream, node, the number in its substream and the position of the
# event that last added to it, then the key.
INDEX, SUBSTREAM, NODE, STAMP, SINCE, KEY = range(6)

# Columns of the search's stack: the node, the depth of the path, the parts of the match that are still to be chosen (a
# list in the cells), how many cells there were, the value that a list is searched without, or -1, or how far an ordered
# node is searched; of a `between` node the run whose events are being gone through, or -1; then the cells.
AT, DEPTH, TODO, CELLS, UNLIKE, RUN, CELL_NODE, CELL_NEXT = range(8)
STACK_COLUMNS = 8


@record
class Steps(NamedTuple):
    """The automaton. Ranges are given by offsets: those of k are `x[k]` to `x[k + 1]`."""

    by_symbol: Array  # int32: offsets into `order`
    order: Array  # int32: transitions that a symbol's guards allow
    begins: Array  # int32, of each symbol: the only one of these, if it just begins a run (see `starting`); else -1
    target: Array  # int32, of each transition
    mark: Array  # int32
    links: Array  # int32: offsets into `link_index`
    link_index: Array  # int32
    link_keys: Array  # int32: offsets into `link_terms`
    link_terms: Array  # int32
    link_unlike: Array  # int32: a term whose value the runs' must differ from, or -1
    link_lookup: Array  # int32: its number among the look-ups, or -1
    needs: Array  # int32: offsets into `need_terms`
    need_terms: Array  # int32
    feeds: Array  # int32, of each state: offsets into `feed_index`
    feed_index: Array  # int32
    feed_keys: Array  # int32: offsets into `feed_terms`
    feed_terms: Array  # int32
    feed_unlike: Array  # int32: the term that it is compared with, or -1
    feed_lookup: Array  # int32: its number among the look-ups, or -1
    lookups: Array  # int32, of each symbol: offsets into `lookup`
    lookup: Array  # int32: the look-ups that its events surely do, of links and feeds; equal ones are one
    lookup_index: Array  # int32, of each look-up
    lookup_keys: Array  # int32: offsets into `lookup_terms`
    lookup_terms: Array  # int32
    tight: Array  # uint8, of each index
    final: Array  # uint8, of each state
    index_terms: Array  # int32, of each index: the terms of its key, before registers
    ends: Array  # int32, of each symbol: offsets into `end`
    end: Array  # int32: what an event ends; -1 - n: all runs of the index of this number; else see `ending`
    index_ended: Array  # int32, of each index: its number among those whose runs end all at once, or -1


# Columns of a test.
SIMPLE, OP, LEFT, RIGHT, RANKED = range(5)  # whether it is one comparison; of what, and how
CASE, FIRST, LAST, ALIVE_IN, ALIVE_OUT = range(5, 10)  # of an OR: which case, and where the cases that are left stand
CODE, CODE_END, READS, BOUND_AT, BOUND_END = range(10, 15)  # of a program
SET_A, WORDS_A, SET_B, WORDS_B = range(15, 19)  # sets whose members it speaks of, and the words of a member
TOLD = 19  # 1 + the condition on the list that LEFT reads, which the caller decides; 0: it is none
TESTS = 20
EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(6)  # operators of a simple test
NOWHERE = -(1 << 20)  # from here down, what is read is a constant: NULL,
NO_EVENT, NOT_TRUE, IS_TRUE = NOWHERE - 1, NOWHERE - 2, NOWHERE - 3  # UNBOUND, a truth value
MEMBER = 2 * NOWHERE  # from here down: a word of the member at hand
NUMBER = 4 * NOWHERE  # from here down: a number itself

# Columns of a move, and what it does: keep a register, take a value, or the greatest, least, only one of both; the
# cases of an OR that are left; a set with one member more, whose words are read from TAKEN on, as many as BY_RANK says.
# The others are aggregates, which skip NULL: their sum, the first, last, greatest, least of them.
MOVE, KEPT, TAKEN, BY_RANK = range(4)
KEEP, TAKE, GREATEST, LEAST_OF, ONLY, ALIVE, ADD = range(7)
SUM_WHOLE, SUM_FLOATS, FIRST_KNOWN, LAST_KNOWN, GREATEST_KNOWN, LEAST_KNOWN = range(7, 13)
ADD_DIFFERENT = 13  # a set of single values with one more, unless it has as many as BY_RANK says
APPEND = 14  # a list with one member more, whose words are as those of a set's
TOO_LARGE = np.iinfo(np.int64).max  # in place of a sum that does not fit

CELL_HEAD, CELL_TAIL, CELL_KIND = range(3)  # columns of a cell
MEMBER_CELL, SET_CELL = range(2)

# What is known of a condition on a list: nothing, or what was told. The last list of each condition is the empty one.
UNKNOWN, TOLD_FALSE, TOLD_TRUE, BEING_ASKED = range(4)
ASKED_AT_ONCE = 1 << 14  # conditions on lists

# Columns of an index: the words of its key and registers, how many of them are hashed, whether it is in order, the
# place of its groups' heads among the indexes (-1: it has no groups besides the key), whether order is by rank, and the
# index of the events that come between (-1: there are none).
WIDTH, HASHED, ORDER, HEADS, BY_RANKS, BETWEEN_AT = range(6)
INDEXES = 6


# Parts of the scratch: the stack of programs, the cases of ORs that are left, the words of the members at hand, what a
# block is sorted by.
STACK, CASES, WORDS = 64, 32, 64
CASES_AT, MEMBER_AT, SORTED_AT = STACK, STACK + CASES, STACK + CASES + WORDS
SCRATCH = SORTED_AT + BLOCK

UNLINKED = -2  # in place of the next group: this one is in no list

# Columns of a row of a bucket (see `ordered`): the node of the run, and in a sorted block the row that it stands for
# and the one before it with a greater max-start; its max-start; in a block the greatest one up to here, and in the ring
# the position of its last event.
PLACE, OWN_MOST, MOST = range(3)
POSITION = MOST
ROWS = 3
# Columns of a bucket: where its rows begin and how many there is room for, the first row that is kept and the next one
# to come, its index. Then what no snapshot has: how many rows may be alive, for which it has sorted blocks; the first
# row that may be alive to events to come, and to positions that are counted (rows before them are kept for what is
# still to be read); a value than which no row that is alive is easier to satisfy, and the row at which that value is
# looked for again; the next bucket that was forgotten like this.
BASE, ROOM, FIRST_ROW, NEXT_ROW, BUCKET_INDEX, REACH, ALIVE_ROW, READ_ROW, EASIEST, LOOK_AT, NEXT_BUCKET = range(11)
BUCKETS = 11
BUCKETS_STORED = 5


@record
class Carrier(NamedTuple):
    """What runs carry. Values are read from the event (k: its column) or from the group (-1 - k: its register)."""

    indexes: Array  # int32[indexes, INDEXES]
    tests: Array  # int32[tests, TESTS]; those of each transition next to each other
    tests_of: Array  # int32: offsets into `tests`
    reads: Array  # int32: what programs read, and which registers must be bound
    code: Array  # int64[instructions, 2]: of programs
    moves: Array  # int32[moves, 4]; those of each transition next to each other
    moves_of: Array  # int32: offsets into `moves`
    feed_of: Array  # int32, of each feed: offsets into `feed`
    feed: Array  # int32: places in the vector of the state's registers
    each: Array  # uint8, of each transition: whether every group makes a run of its own
    rank: Array  # int64, of each number of a value: its place in order
    scratch: Array  # int64[SCRATCH]
    rows: Array  # int64[rows, ROWS]: runs in order of a value
    keys: Array  # int64[rows, 1]: their values
    buckets: Array  # int64[buckets, BUCKETS]
    cells: Array  # int64[cells, 3]: sets of values
    cell_slots: Array  # int64: their hash table
    died: Array  # int64[2, tests + 1]: groups that each test ruled out, and groups met; so far, and before this event
    after: (
        Array  # int32[transitions, 4]: the range of tests of the new run, and of those of a match that ends; or empty
    )
    alike: Array  # int32[states, 2]: the same number if runs wait in the same way (-1: like no other); registers
    verdicts: Array  # int8[conditions on lists, cells + 1]: what is known of each list
    asked: (
        Array  # int64[1 + ASKED_AT_ONCE, 2]: how many wait to be told, and how many may; then each condition and list
    )


def no_carrier() -> Carrier:
    """What the readers take where runs carry nothing."""
    flat = {name: np.zeros(0, np.int32) for name in ("tests_of", "reads", "moves_of", "feed_of", "feed")}
    wide = {name: np.zeros((0, 1), np.int32) for name in ("indexes", "tests", "moves", "after", "alike")}
    words = {name: np.zeros(0, np.int64) for name in ("rank", "scratch", "cell_slots")}
    tables = {name: np.zeros((0, 1), np.int64) for name in ("code", "rows", "keys", "buckets", "cells", "died")}
    verdicts, asked = np.zeros((0, 1), np.int8), np.zeros((1, 2), np.int64)
    return Carrier(each=np.zeros(0, np.uint8), verdicts=verdicts, asked=asked, **flat, **wide, **words, **tables)


@record
class Counting(NamedTuple):
    """What counting matches takes. A lane is a position whose matches are counted; its bound says which starts are."""

    scratch: Array  # int64[4, nodes + 1]: see `live`
    lanes: Array  # int64[nodes, LANES]: the matches of each node
    kept: Array  # int64[nodes]: the same without a window, where it never changes
    row_sums: Array  # int64[rows, LANES]: in a sorted block of rows, the matches up to each row
    summed: Array  # int64[rows]: of the last row of a block, when its sums were made
    bounds: Array  # int64[LANES]


LANES = 8  # positions that are counted together; a constant, so that what is done in all lanes is no loop


@record
class Fresh(NamedTuple):
    """The runs that the current event has made: states and nodes."""

    state: Array  # int32
    node: Array  # int64
    via: Array  # int32: the transition
    roots: Array  # int64: those in final states
    vector: Array  # int64[runs, registers]: what each carries
    found: Array  # int64: scratch, the groups that a step unites
    key: Array  # int64: scratch, a key with registers
    hashes: Array  # int64[RING, look-ups]: of coming events, see `ahead`
    heads: Array  # int64[runs * indexes, 2]: where each run is filed in order: the head of its groups, its value
    only: Array  # int64, of each index: the head of all its groups, if they have no key and no substream; else -1


@record
class Store(NamedTuple):
    """Where runs are: the graph, the look-up table, the substreams, and what is new."""

    nodes: Array
    times: Array
    extra: Array
    slots: Array
    entries: Array
    regs: Array
    parts: Array
    fresh: Fresh
    way: Array


class Turn(NamedTuple):
    """The event whose turn it is, and what the window says of it (see `common.window`)."""

    i: int
    partition: int
    position: int
    key: int
    exact: int
    bound: int
    dead: int
    gone: int  # the key below which starts are dead also for what is still to be read
    stamp: int  # the events before it in its substream
    forgotten: int  # CONSUME BY: the position up to which all events are
