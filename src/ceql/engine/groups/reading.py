"""Base of the machines of both loops: what is done with the roots that a loop has noted.

The loop only finds. After each piece of the stream, readers go through the positions at which matches end: they list
the matches, count them, add them up, or choose among them. What these positions reach is kept until then, as memory is
given back only when all is read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ceql.engine.common.chunk import Chunk, size
from ceql.engine.common.graph import NODE_WORDS
from ceql.engine.common.layout import (
    AFTER,
    BLOCKS,
    COUNT,
    DONE,
    EVENT,
    FULL,
    GROW_PATH,
    HAND_OVER,
    HEIGHT,
    MATCHES,
    NEVER,
    NO_KEY,
    NODES,
    NOTED,
    OVERFLOW,
    PHASE,
    PICKED,
    READ,
    READ_FIRST,
    ROOTS,
    SEEN,
    SUMMED,
    TO_PICK,
    UNREAD,
    W_COUNTED,
    W_GIVEN,
    WENT_BACK,
    Events,
    Settings,
)
from ceql.engine.common.limits import out_of_memory, went_back
from ceql.engine.common.machine import MANY_ENDED, Machine
from ceql.engine.common.output import grow_positions, make_output
from ceql.engine.common.roots import (
    AT_BOUND,
    AT_END,
    AT_FIRST,
    AT_PARTITION,
    AT_POSITION,
    AT_TIME,
    Roots,
    make_roots,
)
from ceql.engine.common.summing import QUOTA, Ended, FindTotals, Summing
from ceql.engine.common.sums import Floats, Weights, Wholes
from ceql.engine.groups.blocks import enumerate_many
from ceql.engine.groups.count import count_matches
from ceql.engine.groups.enumerate import list_matches
from ceql.engine.groups.layout import (
    AT,
    CELLS,
    DEPTH,
    LANES,
    RUN,
    STACK_COLUMNS,
    TODO,
    UNLIKE,
    Carrier,
    Counting,
    no_carrier,
)
from ceql.engine.groups.live import gather_live
from ceql.engine.groups.sums import sum_nodes
from ceql.jit import Array

_NO_CARRIER = no_carrier()
NOTHING: Array = np.zeros(0, np.float64)


class Reading(Machine):
    """A machine whose loop notes roots; what it shows of them is in `found`, and their graph in `graph`."""

    node_words = NODE_WORDS
    scratch_rows = 4
    settings: Settings

    def __init__(
        self,
        settings: Settings,
        registers: int,
        timed: bool,
        memory: int,
        matches: int,
        positions: int,
        nodes: int,
    ) -> None:
        super().__init__(settings, registers, STACK_COLUMNS, timed, memory, matches, positions, nodes)
        self._buffered = matches, positions
        self.noted = make_roots()
        self.regs[UNREAD] = NEVER
        self.extra: Array = np.zeros((0, 3), np.int64)  # of nodes in lists
        self._counting: tuple[Counting, Array, Array] | None = None  # with the arrays that it was made for

    # --- what the readers read ---

    @property
    def found(self) -> Roots:
        """The roots that are read."""
        return self.noted

    @property
    def graph(self) -> tuple[Array, Array]:
        """The nodes that they name, and their times."""
        return self.nodes, self.times

    @property
    def carried(self) -> Carrier:
        """What runs carry."""
        return _NO_CARRIER

    @property
    def where(self) -> Array:
        """The position that is being read."""
        return np.asarray(self.found.at[self.regs[READ]])

    @property
    def bound(self) -> int:
        """The least start key of its matches."""
        return int(self.where[AT_BOUND])

    @property
    def roots(self) -> Array:
        """Its roots."""
        return self.found.node[self.where[AT_FIRST] : self.where[AT_END]]

    def live_nodes(self) -> Array:
        """The nodes that the position reaches inside the window, children before parents."""
        return self._live(self.roots, self.bound)

    def _live(self, roots: Array, bound: int) -> Array:
        seen = gather_live(self.carried, self.graph[0], self.regs, roots, self.scratch, bound, self.settings.block)
        return self.scratch[2, 1 : int(seen) + 1].copy()

    # --- feeding ---

    def _run(self, events: Events) -> Iterator[Chunk]:
        stop = len(events.symbol)
        self.regs[HEIGHT] = 0
        if self.regs[NOTED] or self.regs[TO_PICK]:  # what a caller has left unread
            yield from self._read()
        while not self.outgrown:
            end = self._end(stop)
            reason = self._advance(events, end)
            yield from self._read()
            if reason == HAND_OVER:
                self._settle()
                self.regs[PHASE] = AFTER
            elif reason == READ_FIRST:
                if int(self.regs[ROOTS]) > len(self.noted.node):
                    self.noted = make_roots(2 * int(self.regs[ROOTS]))
            elif reason == WENT_BACK:
                raise went_back(int(events.position[self.regs[EVENT]]))
            elif reason != DONE:
                self._answer(reason, events)
            elif end == stop:
                break

    def _end(self, stop: int) -> int:
        """How far the loop goes before its readers read."""
        return stop

    @abstractmethod
    def _advance(self, events: Events, stop: int) -> int:
        """Run the loop: why it came back."""

    @abstractmethod
    def _answer(self, reason: int, events: Events) -> None:
        """Do what the loop came back for, so that it can go on. All that it has found is read."""

    def _settle(self) -> None:
        """Say in `regs[SEEN]` whether the position that was just read has a match, unless its reader has."""

    def _read(self) -> Iterator[Chunk]:
        """Read the positions that the loop has noted: list, count or add up their matches, or choose among them."""
        while self.regs[NOTED]:
            while self.regs[READ] < self.regs[NOTED]:
                reason = self._read_on()
                if reason == FULL:
                    yield from self.flush()
                elif reason == GROW_PATH:
                    self._grow_search()
                elif reason == OVERFLOW:
                    found = self._exact_count()
                    self.total += min(found, self.settings.limit) if self.settings.limit else found
                    self.regs[READ] += 1
                elif reason in (BLOCKS, HAND_OVER):
                    yield from self._read_many(reason)
                    self.regs[HEIGHT] = 0  # LIMIT may have ended a search
                    self.regs[READ] += 1
            self._have_read()

    def _have_read(self) -> None:
        self.regs[NOTED:UNREAD] = 0  # and what else counts what is noted
        self.regs[UNREAD] = NEVER

    def _read_on(self) -> int:
        """Read positions as far as kernels can: why they came back."""
        return self._count() if self.settings.mode == COUNT else self._list()

    def _count(self) -> int:
        window = self.settings.window
        together = window == W_GIVEN or (window == W_COUNTED and len(self.table) == 1)
        with np.errstate(over="ignore"):  # where Numba is switched off
            return int(
                count_matches(
                    self.carried, self.graph[0], self.regs, self._counted_with(), self.found, self.settings.limit,
                    self.settings.lanes, together, self.settings.block,
                )
            )  # fmt: skip

    def _list(self) -> int:
        return self._search(NOTHING, -1, NEVER, self.settings)

    def _search(self, counts: Array, least: int, most: int, settings: Settings) -> int:
        nodes, times = self.graph
        with np.errstate(over="ignore"):
            return int(
                list_matches(
                    self.carried,
                    nodes,
                    times,
                    self.extra,
                    self.regs,
                    self.out,
                    counts,
                    settings,
                    self.found,
                    least,
                    most,
                )
            )

    def _read_many(self, reason: int) -> Iterator[Chunk]:
        """Read a position that has more matches than the buffers hold."""
        yield from self.flush()
        if self.summing is None:
            yield from enumerate_many(self)
            return
        end, partition, time = self.where[[AT_POSITION, AT_PARTITION, AT_TIME]].tolist()
        self._ended.append(Ended(self.roots.copy(), self.bound, end, partition, time))
        self.regs[SEEN] = 1
        if len(self._ended) == MANY_ENDED:  # else before nodes are renumbered
            self._sum_up()

    def mute(self, on: bool, count: bool = False) -> None:
        """Count matches instead of enumerating them, or enumerate them again; see `Machine.mute`."""
        super().mute(on, count)
        self._counting = None
        self.regs[[PICKED, TO_PICK]] = 0
        self._have_read()

    # --- all matches of a position ---

    def begin_search(self, counts: Array) -> None:
        """Put the roots of the position on the stack: those of which `counts` has any, if it is given."""
        live = [r for r in self.roots if not len(counts) or counts[r] > 0][::-1]
        while len(live) + 8 > self.out.stack.shape[0]:
            self._grow_search()
        stack, count = self.out.stack, len(live)
        stack[:count, AT] = live
        stack[:count, [DEPTH, CELLS]] = 0
        stack[:count, [TODO, UNLIKE, RUN]] = -1
        self.regs[HEIGHT] = count

    def search_on(self, counts: Array, least: int, most: int) -> tuple[int, Chunk | None]:
        """Go on with the search on the stack: why it stopped, and what it found."""
        while self.regs[HEIGHT]:
            reason = self._search(counts, least, most, self.settings._replace(few=NEVER))
            if reason == GROW_PATH:
                self._grow_search()
            elif reason == FULL and self.regs[MATCHES] == 0:
                self.out = grow_positions(self.out)
            else:
                return reason, self.hand_out()
        return DONE, None

    def all_runs(self) -> Iterator[Chunk]:
        """Every match of the position, in no order."""
        self.begin_search(NOTHING)
        reason = FULL
        while reason != DONE:
            reason, chunk = self.search_on(NOTHING, -1, NEVER)
            if chunk is not None:
                yield chunk

    def at_once(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """All of these, which must fit into the memory that there is."""
        found, taken = list[Chunk](), self.used
        for chunk in chunks:
            taken += size(chunk)
            if taken > self.memory:
                raise out_of_memory(self.memory, "the candidates of one position")
            found.append(chunk)
        return found

    # --- sums ---

    def sum_up(self, summing: Summing | None) -> None:
        """Add up the matches of positions that have very many, or enumerate all again. The buffers are empty."""
        self.summing = summing
        matches = min(QUOTA, self._buffered[0]) if summing is not None else self._buffered[0]
        positions = min(8 * QUOTA, self._buffered[1]) if summing is not None else self._buffered[1]
        self.out = make_output(matches, positions, self.timed, self.out.stack.shape[1])

    def _adding(self, bound: int) -> tuple[Callable[[Ended], Array] | None, FindTotals]:
        def run(
            live: Array, weights: Weights, floats: Floats | None, wholes: Wholes | None, bound: int, logs: bool
        ) -> None:
            sum_nodes(self.carried, self.graph[0], live, weights, floats, wholes, bound, self.settings.block, logs)

        # what is found in order would be looked through for every node, though few of them are reached
        if bound == NO_KEY and self.carried is _NO_CARRIER:
            return None, run
        return lambda ended: self._live(ended.roots, ended.bound), run

    def _counted_with(self) -> Counting:
        """What counting takes, for the graph and the rows that there are now."""
        nodes, rows = self.graph[0], self.carried.rows
        if self._counting is not None and self._counting[1] is nodes and self._counting[2] is rows:
            return self._counting[0]
        nodes_counted, rows_counted = len(nodes), len(rows)
        # rows grow more often than the graph; what was counted of its nodes stays
        before = self._counting[0] if self._counting is not None and self._counting[1] is nodes else None
        made = Counting(
            scratch=self.scratch,
            lanes=before.lanes if before is not None else np.empty((nodes_counted, LANES), np.int64),
            kept=before.kept if before is not None else np.empty(nodes_counted, np.int64),
            row_sums=np.empty((rows_counted, LANES), np.int64),
            summed=np.zeros(rows_counted, np.int64),
            bounds=np.zeros(LANES, np.int64),
        )
        if before is None:
            self.regs[SUMMED] = 0
        self._counting = made, nodes, rows
        return made

    @property
    def _lanes_counted(self) -> int:
        """The lanes of each node that counting fills: none where nothing expires, which takes a single number."""
        if self.settings.mode != COUNT or self._in_vain:
            return 0
        expires = self.settings.window != W_GIVEN or self.horizon != NO_KEY
        return LANES if expires or len(self.carried.rows) else 1

    def _sizes(self) -> dict[str, tuple[int, int]]:
        sizes = super()._sizes()
        rows, words = sizes["nodes"]
        return sizes | {"nodes": (rows, words + self._lanes_counted)}

    def _exact_count(self) -> int:
        """The matches of the position, however many there are."""
        if self._exactly is None:
            self._exactly = Summing(lambda positions, labels: Weights(*(NOTHING.reshape(0, 0),) * 3), 0, 0, 0)
        ended = [Ended(self.roots.copy(), self.bound, 0, 0, 0)]
        self._exactly.add(
            self.graph[0], int(self.regs[NODES]), self.collections, ended, *self._adding(self.bound), self.memory
        )
        (found,) = self._exactly.take()
        return found.whole[0]
