"""The arrays and registers that the kernels of the loop over groups add to `common.layout`."""

from __future__ import annotations

from typing import NamedTuple

from ceql.engine.common.layout import OWN, OWN_COLUMNS, OWN_REASONS
from ceql.jit import Array

# Registers.
ENTRIES = OWN  # entries of the look-up table in use
FORGOTTEN = OWN + 1  # CONSUME BY ANY: events up to this position are forgotten
HEIGHT = OWN + 2  # of the search that stands on the stack
REGISTERS = OWN + 3

GROW_TABLE = OWN_REASONS  # why the loop came back: the look-up table is full

# Columns of the table of partitions.
SEEN_EVENTS = OWN_COLUMNS  # events so far
FORGOTTEN_HERE = OWN_COLUMNS + 1  # CONSUME BY PARTITION: events up to this position are forgotten
COLUMNS = OWN_COLUMNS + 2

NULLS_DIFFER = 1 << 30  # added to the term of a disequality: it holds where a value is NULL, too
NULL_BEFORE, NULL_NOW = -2, -3  # as values of such a disequality: like no other, and unlike each other

# Columns of an entry of the look-up table: index, substream, node, the number in its substream and the position of the
# event that last added to it, then the key.
INDEX, SUBSTREAM, NODE, STAMP, SINCE, KEY = range(6)

# Columns of the search's stack: the node, the depth of the path, the parts of the match that are still to be chosen (a
# list in the cells), how many cells there were, the value that a list is searched without, or -1; then the cells.
AT, DEPTH, TODO, CELLS, UNLIKE, CELL_NODE, CELL_NEXT = range(7)


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


class Fresh(NamedTuple):
    """The runs that the current event has made: states and nodes."""

    state: Array  # int32
    node: Array  # int64
    roots: Array  # int64: those in final states


class Settings(NamedTuple):
    """What does not change while a recogniser lives."""

    window: int
    width: int  # of a W_COUNTED window
    exact: bool  # starts must be checked one by one (W_ENVELOPE)
    mode: int
    limit: int  # matches per position, 0 for all
    latest: int  # one match is enough: 0 no, 1 of the latest starts, 2 of the only latest start
    consume: int  # 0 none, 1 partition, 2 any
    chain: bool  # whether every match is a chain: a search gives its events in order
    ordered: bool  # whether matches are wanted in order here
