"""The arrays and registers that the kernels of the loop over ordered runs add to `common.layout`."""

from __future__ import annotations

from typing import NamedTuple

from ceql.engine.common.layout import OWN_COLUMNS
from ceql.engine.common.layout import OWN_REASONS as GROUP_REASONS
from ceql.engine.groups.layout import OWN_REGISTERS as OWN
from ceql.jit import Array, record

# Registers; those of the loop over groups come before, of which the number of cells is used.
POOL = OWN  # rows in use in the pool of lists
STAMP = OWN + 1  # says which waits have a run already: of this event, or of this event and start
READY = OWN + 2  # matches that the current event has decided
SHOWN = OWN + 3  # those of them that are in the output buffers
FOUND = OWN + 4  # entries of the new list
WANTED = OWN + 5  # the start whose match has no event to go on at (TO FIRST, TO LAST)
KEPT = OWN + 6  # entries of the list that the event leaves as they are: all, or none
GROUP = OWN + 7  # the first entry of the start whose runs are being put in the new list
PREVIOUS = OWN + 8  # that of the start before
BRANCHES = OWN + 9  # of the search for the matches of a mark: what stands on the stack
READ = OWN + 10  # and the events of the match that it has found, which is not in the output buffers yet
REGISTERS = OWN + 11

# Why the loop came back.
OWN_REASONS = GROUP_REASONS + 6  # GROW_CELLS, INEXACT and ASK are as in the loop over groups
GROW = OWN_REASONS  # a list, or the matches of an event, are longer than there is room for
UNBOUND = OWN_REASONS + 1  # the variable of TO FIRST or TO LAST is bound to no event
STANDS = OWN_REASONS + 2  # the event to go on at is the match's own first
LONG = OWN_REASONS + 3  # a match is longer than the buffers

# Columns of the table of partitions.
LIST = OWN_COLUMNS  # the offset of the partition's list in the pool
COUNT = OWN_COLUMNS + 1  # its entries
ROOM = OWN_COLUMNS + 2  # the entries that there is room for
MET = OWN_COLUMNS + 3  # which of the events have been there that may not come before a match, as bits
PRESENT = OWN_COLUMNS + 4  # the waits of its runs, as bits
MARKED = OWN_COLUMNS + 5  # its marks, and the runs that are matches if they last as long as their window
SEEN = OWN_COLUMNS + 6  # the events so far, if windows inside the formula count them
DUE = OWN_COLUMNS + 7  # the least key of a run: no bound that is not greater lets go of any
COLUMNS = OWN_COLUMNS + 8  # then come, of each bit of `MET`, the key of the latest such event

# Entries of a list; then come the registers of the run, those that its wait carries.
WAIT = 0
REACH = 1  # the key of the latest event that may not come before the match; the window must have left it at its end
NODE = 2  # the last event, or marks that are joined; the words before and the registers say what a run may find
KEY = 3  # of the start. If several share the run: under TO NEXT EVENT that of the oldest, else of the latest
START = 4  # its position, that of the oldest. Under PAST LAST EVENT it is -1 - that, if several share the run
STARTS = 5  # under TO NEXT EVENT the node of the starts that share the run, the same for all of their runs
ENTRY = 6  # words
MARK = -1  # in place of a wait: here stands the match of a start, or of several

# Nodes: an event of a run, whose match it is if a mark has it.
POSITION, PARENT, LABEL = range(3)
LATEST, OLDEST = 3, 4  # the keys of its latest and its oldest start; only there if starts may share runs
JOINED = -2  # in place of a label: two marks in a row, those of `POSITION` and of `PARENT`
UNION = -3  # in place of a label, or less (`graph.united`): runs, marks or starts of `POSITION` and of `PARENT`
NO_NODE = -1

SYMBOL, AT, OWN_KEY, BOUND, TIME = range(5)  # what `step` knows of an event

PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = range(4)

# Columns of `ready`: the node of a match, or of those of all starts with keys FROM to TO; what has decided it: a
# position, or a key (the position is -1); and under TO NEXT EVENT the node of the starts.
NODE_OF, DECIDED, EXPIRED, FROM, TO, OF_STARTS = range(6)


@record
class Automaton(NamedTuple):
    """The ordered automaton (`automata.ordered`) as arrays; `holds` has a row for each symbol."""

    waits: Array  # int64[waits + 1]: where the leaves of a wait begin
    leaves: Array  # int32: leaves of waits
    stays: Array  # int32[waits]: the column of `holds` that forbids to skip; -1: nothing may be skipped
    guards: Array  # int32[leaves]: the column of `holds` of each leaf
    labels: Array  # int32[leaves]
    after: Array  # int64[leaves + 1]: where the waits after a leaf begin
    following: Array  # int32: waits after leaves, or ACCEPT
    initial: Array  # int32: the leaves at which runs begin
    unmet: Array  # int64: of each of them, the bits of `MET` that must not be set
    forbids: Array  # int32: the column of `holds` that sets each bit of `MET`
    holds: Array  # uint8[symbols, columns]
    moves: Array  # int64[symbols]: the waits whose runs an event moves, as bits; the last bit: it does more
    first: Array  # int32, of each of `leaves`, then of `initial`: the number of its first transition (`Carrier`)
    carried: Array  # int32[waits]: how many registers it carries
    ends: Array  # int32[waits + 1]: where the events begin that may rule out runs that wait
    end_columns: Array  # int32: the column of `holds` that tells such an event
    end_transitions: Array  # int32: what is tested then
    once_of: Array  # int32: offsets into `once` of each transition; of length 1 if there are none
    once: Array  # int32[., 3]: the place of a register that keeps its first value, where the run has it (-1: nowhere),
    # and where the run has what must have been set before (-1: nowhere, -2: nothing must)
    empty: int  # the label of empty matches; -1 if a match has an event
    targets: Array  # uint8[labels]: whether TO FIRST or TO LAST means events of this label
    shown: Array  # uint8[labels]: whether events of this label are part of the result


@record
class Work(NamedTuple):
    """Scratch of an event."""

    entries: Array  # int64[., ENTRY + registers]: the new list
    stamps: Array  # int64[waits]: if runs carry nothing
    slots: Array  # int64[., 2]: a hash table of the runs of the new list that are told apart, and of their stamps
    run: Array  # int64[1, ENTRY + registers]: the run at hand
    words: Array  # int64[1, words]: what is read of the event
    vector: Array  # int64[1, .]: the registers that the run goes on with
    alike: Array  # int64[., 2]: a hash table of the groups of the new list: a stamp, and the first entry
    stack: Array  # int64[.]: nodes that a search comes back to
    ready: Array  # int64[., 6]: matches that are decided
    event: Array  # int64[5]: the event, as `step` takes it
    decided: Array  # int64[2, matches + 1]: what has decided each match in the buffers, as in `ready`


class Settings(NamedTuple):
    """What does not change while a recogniser lives."""

    window: int
    width: int  # of a W_COUNTED window
    counted: bool  # whether the window counts events, so that each event says that none of those to come is inside
    mode: int
    skip: int
    looks_back: bool  # whether an event before the match forbids it as long as it is in the window
    shared: bool  # whether a run of a later start gives way to any in the same wait
    unites: bool  # whether starts whose runs are alike share them
    gathered: bool = False  # whether events of other substreams, which come later in the batch, may be earlier
