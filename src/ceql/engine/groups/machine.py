"""One recogniser of a correlated query: the second loop's arrays, and what the loop cannot do by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.complaints import out_of_memory, went_back
from ceql.engine.common.reached import nothing_reached
from ceql.engine.groups import layout as j
from ceql.engine.groups.collect import sweep
from ceql.engine.groups.count import gather_live, later_starts
from ceql.engine.groups.enumerate import unfold
from ceql.engine.groups.graph import FACTOR, KIND, LISTED, MAX, OTHERS, VALUE, WAY, A, B
from ceql.engine.groups.loop import LAST, advance, room_for
from ceql.engine.groups.table import fill
from ceql.engine.states.layout import COUNT, FOLLOW
from ceql.engine.states.loop import NO_KEY
from ceql.jit import Array

HANDED_OVER = ("start", "end", "start_time", "end_time", "partition", "offsets", "position", "mark")
NODE_BYTES = 72  # five words, a time, and three words of scratch


class Choice(Protocol):
    """What makes matches of candidates."""

    def sift(self, chunk: Chunk) -> Chunk:
        """Those that can be told to be no matches by themselves are left out."""

    def choose(self, chunks: list[Chunk]) -> list[Chunk]:
        """The matches among all that is left of the candidates of some positions."""


class JoinMachine:
    """The state of a recogniser and the buffers of its output.

    With `choose`, complete runs are candidates, and it makes the matches of all those of a position.
    """

    def __init__(
        self,
        steps: j.Steps,
        settings: j.Settings,
        timed: bool,
        memory: int,
        choose: Choice | None = None,
        matches: int = 1 << 15,
        entries: int = 1 << 17,
        nodes: int = 1 << 14,
    ) -> None:
        self.settings = settings
        self.timed = timed
        self.memory = memory
        self.choose = choose
        self.on_candidates: Callable[[int], None] | None = None
        """Is told how many complete runs are about to be handed out; what it raises ends the feeding."""
        self.total = 0
        self.emptied: list[int] = []
        self.swept = False  # since the caller last looked
        self.oldest = 0
        self._looked = True
        self.regs: Array = np.zeros(j.REGISTERS, np.int64)
        self.regs[[j.HORIZON, j.BOUND]] = NO_KEY
        self.regs[j.FORGOTTEN] = -1
        self.nodes: Array = np.zeros((nodes, 5), np.int64)
        self.times: Array = np.zeros(nodes if timed else 0, np.int64)
        self.lists = bool((steps.feed_unlike >= 0).any())
        self.extra: Array = np.zeros((nodes if self.lists else 0, 3), np.int64)
        self.scratch: Array = np.zeros((3, nodes + 1), np.int64)
        self.parts = j.Partitions(*(np.zeros(0, np.int64) for _ in j.Partitions._fields))
        self.out = _output(matches, entries, timed)
        self.way: Array = np.zeros(WAY, np.int64)
        self._nothing: Array = np.zeros(0, np.float64)
        self._swept_at = (-1, -1)
        self.reached = (
            nothing_reached(len(steps.target), len(steps.final)) if settings.mode == FOLLOW else nothing_reached(0, 0)
        )
        self.entries: Array = np.zeros((0, j.KEY), np.int64)
        self.slots: Array = np.zeros(0, np.int64)
        self.use(steps)

    def use(self, steps: j.Steps) -> None:
        """Go on with these tables: the same automaton, more symbols."""
        self.steps = steps
        self.room = room_for(steps)
        widths = np.zeros(len(steps.tight), np.int64)
        lengths = np.diff(steps.feed_keys)
        widths[steps.feed_index] = lengths
        self.widths = widths
        fired = int(np.diff(steps.by_symbol).max(initial=0))
        self.fresh = j.Fresh(
            np.zeros(fired + 1, np.int32), np.zeros(fired + 1, np.int64), np.zeros(fired + 1, np.int64), self.reached
        )
        if not len(self.entries):
            self.entries = np.zeros((64, j.KEY + int(widths.max(initial=0))), np.int64)
        self._room_for_entries()
        while len(self.nodes) < 4 * self.room:
            self._resize_nodes(2 * len(self.nodes))

    # --- partitions ---

    def room_for_partitions(self, count: int) -> None:
        """Make sure that partitions 0 to count - 1 exist."""
        have = len(self.parts.seen)
        if count > have:
            extra = max(count, 2 * have) - have
            fill = self._blank()
            grown = [
                np.concatenate([old, np.full(extra, new, np.int64)]) for old, new in zip(self.parts, fill, strict=True)
            ]
            self.parts = j.Partitions(*grown)

    def _blank(self) -> tuple[int, ...]:
        return 0, int(NO_KEY), int(NO_KEY), int(NO_KEY), -1

    def reuse_partitions(self, partitions: list[int]) -> None:
        """Make emptied partitions as good as new."""
        for array, new in zip(self.parts, self._blank(), strict=True):
            array[partitions] = new

    def idle(self, partitions: Array) -> Array:
        """Those of these partitions that hold nothing."""
        waiting = np.zeros(len(self.parts.seen), np.bool_)
        waiting[self.entries[: self.regs[j.ENTRIES], j.PARTITION]] = True
        return partitions[~waiting[partitions]]

    @property
    def remembers(self) -> bool:
        return False

    @property
    def horizon(self) -> int:
        """The greatest bound met, for windows that all partitions share."""
        return int(self.regs[j.HORIZON])

    def raise_horizon(self, key: int) -> None:
        self.regs[j.HORIZON] = max(self.horizon, key)

    # --- feeding ---

    def feed(self, events: j.Events, resume: bool = False) -> Iterator[Chunk]:
        """Process a batch; chunks come when the buffers are full. `flush` gives the rest."""
        regs = self.regs
        if not resume:
            regs[j.EVENT] = 0
        self._swept_at = (-1, -1)
        stop = len(events.symbol)
        while True:
            reason = self._advance(events, stop)
            if reason == j.DONE:
                return
            if reason == j.FULL:
                yield from self.flush()
            elif reason == j.MANY:
                yield from self._many(events)
                regs[j.PHASE] = j.AFTER
            elif reason == j.HAND_OVER:
                yield from self._candidates(events)
                regs[j.PHASE] = j.AFTER
            elif reason == j.SWEEP:
                self.compact_now()
            elif reason == j.GROW_TABLE:
                self.compact_now(for_table=True)
            elif reason == j.GROW_STACK:
                self._grow_stack()
            elif reason == j.OVERFLOW:
                found = self._exact_count()
                self.total += min(found, self.settings.limit) if self.settings.limit else found
                regs[j.SEEN] = 1
                regs[j.PHASE] = j.AFTER
            else:
                raise went_back(int(events.position[regs[j.EVENT]]))

    def _advance(self, events: j.Events, stop: int) -> int:
        with np.errstate(over="ignore"):  # where Numba is switched off
            reason = advance(
                self.steps, self.nodes, self.times, self.extra, self.slots, self.entries, self.regs, self.parts,
                self.fresh, events, self.out, self.scratch, self._nothing, self.way, self.settings, self.room, stop,
            )  # fmt: skip
        return int(reason)

    @property
    def counted(self) -> int:
        """Count mode: the matches so far, after `flush`."""
        return self.total

    def flush(self) -> Iterator[Chunk]:
        """Hand out what stands in the buffers."""
        if self.settings.mode == COUNT:
            self.total += int(self.regs[j.TOTAL])
            self.regs[j.TOTAL] = 0
        chunk = self._taken()
        if chunk is None:
            return
        if self.choose is None:
            yield chunk
        else:
            yield from self.choose.choose([self.choose.sift(chunk)])

    def _taken(self) -> Chunk | None:
        m, e = int(self.regs[j.MATCHES]), int(self.regs[j.POSITIONS])
        if m == 0:
            return None
        if self.on_candidates is not None:
            self.on_candidates(m)
        out = self.out
        if 2 * m > len(out.start) or 2 * e > len(out.position):  # hand the buffers over instead of copying them
            self.out = out._replace(**{name: np.empty_like(getattr(out, name)) for name in HANDED_OVER})
            lent = out
        else:
            lent = out._replace(**{name: getattr(out, name)[: max(m + 1, e)].copy() for name in HANDED_OVER})
        self.regs[j.MATCHES] = self.regs[j.POSITIONS] = 0
        return Chunk(
            start=lent.start[:m],
            end=lent.end[:m],
            offsets=lent.offsets[: m + 1],
            positions=lent.position[:e],
            labels=lent.mark[:e],
            partition=lent.partition[:m],
            start_time=lent.start_time[:m] if self.timed else None,
            end_time=lent.end_time[:m] if self.timed else None,
        )

    # --- what the loop comes back for ---

    def _search(self, events: j.Events, counts: Array, least: int, most: int) -> int:
        """Go on with the search on the stack."""
        event = int(self.regs[j.EVENT])
        time = int(events.time[event]) if self.timed else 0
        while True:
            reason = unfold(
                self.nodes, self.times, self.extra, self.regs, self.out, counts, self.settings, self.regs[j.BOUND],
                least, most,
                events.position[event], time, events.partition[event],
            )  # fmt: skip
            if reason == j.GROW_STACK:
                self._grow_stack()
            elif reason == j.FULL and self.regs[j.MATCHES] == 0:
                self._grow_entries()
            else:
                return int(reason)

    def _begin(self, counts: Array) -> None:
        roots, bound = self.fresh.roots[: int(self.regs[j.ROOTS])], self.regs[j.BOUND]
        live = [r for r in roots if self.nodes[r, MAX] >= bound and (not len(counts) or counts[r] > 0)][::-1]
        while len(live) + 8 > len(self.out.stack_node):
            self._grow_stack()
        out, count = self.out, len(live)
        out.stack_node[:count] = live
        out.stack_depth[:count] = 0
        out.stack_todo[:count] = -1
        out.stack_cells[:count] = 0
        out.stack_unlike[:count] = -1
        self.regs[j.HEIGHT] = count

    def _all(self, events: j.Events) -> Iterator[Chunk]:
        """Every complete run of the current event, in no order."""
        self._begin(self._nothing)
        while True:
            reason = self._search(events, self._nothing, -1, LAST)
            chunk = self._taken()
            if chunk is not None:
                yield chunk
            if reason == j.DONE:
                return

    def _candidates(self, events: j.Events) -> Iterator[Chunk]:
        """One position's candidates at once: what follows depends on whether there is a match among them."""
        assert self.choose is not None
        yield from self.flush()
        chosen = self.choose.choose([self.choose.sift(chunk) for chunk in self._all(events)])
        self.regs[j.SEEN] = sum(len(chunk.start) for chunk in chosen)
        yield from chosen

    def _many(self, events: j.Events) -> Iterator[Chunk]:
        """One position with more matches than the buffers hold: starts are cut, latest first, into blocks that fit.

        A block of a single start may be larger than any buffer, and is handed out as it comes.
        """
        yield from self.flush()
        if self.choose is not None:
            yield from self._candidates(events)
            return
        if self.lists:  # lists are not counted
            found = by_start(joined(list(self._all(events))))
            found = head(found, self.settings.limit or LAST)
            self.regs[j.SEEN] = len(found.start)
            yield found
            return
        bound = int(self.regs[j.BOUND])
        roots = self.fresh.roots[: int(self.regs[j.ROOTS])]
        seen = int(gather_live(self.nodes, self.regs, self.fresh.roots, self.scratch, bound))
        live = self.scratch[2, 1 : seen + 1].copy()
        products = live[self.nodes[live, KIND] >= 0]
        starts = np.unique(self.nodes[products, A])[::-1]
        sums: Array = np.zeros(len(self.nodes), np.float64)

        def upto(k: int) -> float:
            """Matches that start at the k-th of `starts` or later."""
            later_starts(self.nodes, live, sums, bound, starts[k])
            return float(sum(sums[r] for r in roots if self.nodes[r, MAX] >= bound))

        self.regs[j.SEEN] = 1
        left = self.settings.limit or LAST
        done, at = 0.0, 0  # matches of the starts before `at` are out
        while at < len(starts) and left > 0:
            low, high = at, len(starts) - 1  # the last start of a block: as far as it fits
            fits = min(len(self.out.start), left)
            while low < high:
                middle = (low + high + 1) // 2
                if upto(middle) - done <= fits:
                    low = middle
                else:
                    high = middle - 1
            last, block = low, -1.0
            while block < 0:
                total = upto(last)
                self._begin(sums)
                most = int(starts[at])
                reason = self._search(events, sums, int(starts[last]), most)
                if reason == j.FULL and last > at:  # long matches: a smaller block
                    self.regs[j.MATCHES] = self.regs[j.POSITIONS] = 0
                    last = at + (last - at) // 2
                    continue
                block = total
            while True:
                chunk = self._taken()
                if chunk is not None:
                    chunk = by_start(chunk) if last > at else chunk
                    chunk = head(chunk, left)
                    left -= len(chunk.start)
                    yield chunk
                if reason == j.DONE or left <= 0:
                    break
                reason = self._search(events, sums, int(starts[last]), most)
            done, at = block, last + 1

    def _exact_count(self) -> int:
        """Matches of the current position, as many as there may be."""
        bound = int(self.regs[j.BOUND])
        if self.regs[j.SUMMED]:  # the sums are kept there
            self.scratch[:, :] = 0
            self.regs[j.SUMMED] = 0
        seen = int(gather_live(self.nodes, self.regs, self.fresh.roots, self.scratch, bound))
        sums: dict[int, int] = {}
        for n in self.scratch[2, 1 : seen + 1].tolist():
            _, a, b, c, kind = self.nodes[n].tolist()
            if kind >= 0:
                sums[n] = sums[b] if b >= 0 else 1
            elif kind == FACTOR:
                sums[n] = sums[a] * (sums[b] if b >= 0 else 1)
            else:
                sums[n] = sums[a] + sum(sums[k] for k in (b, c) if k >= 0 and self.nodes[k, MAX] >= bound)
        roots = self.fresh.roots[: int(self.regs[j.ROOTS])].tolist()
        return sum(sums[r] for r in roots if self.nodes[r, MAX] >= bound)

    # --- memory ---

    def compact(self) -> None:
        """Give back what the window has left; see `Machine.compact`."""
        self.compact_now()
        if len(self.parts.seen) > 1:
            self.emptied = self.idle(np.arange(len(self.parts.seen))).tolist()

    def compact_now(self, for_table: bool = False) -> None:
        sweep(
            self.nodes,
            self.times,
            self.extra,
            self.entries,
            self.regs,
            self.parts,
            self.steps.tight,
            self.settings.window,
        )
        if self.regs[j.SUMMED]:
            self.scratch[0] = 0
            self.regs[j.SUMMED] = 0
        self.swept = self._looked = True
        self._room_for_entries()
        used, capacity = int(self.regs[j.NODES]), len(self.nodes)
        again, self._swept_at = self._swept_at, (int(self.regs[j.EVENT]), capacity)
        if 2 * used > capacity or (again == self._swept_at and not for_table):  # sweeping alone did not make room
            self._resize_nodes(2 * capacity)

    def _room_for_entries(self) -> None:
        """Make sure of room, and make the hash table anew."""
        size = len(self.entries)
        while size < 2 * int(self.regs[j.ENTRIES]) + self.room:
            size *= 2
        if size != len(self.entries):
            self._check_memory(entries=size)
            used = self.entries[: self.regs[j.ENTRIES]]
            self.entries = np.zeros((size, used.shape[1]), np.int64)
            self.entries[: len(used)] = used
        if len(self.slots) < 2 * size:
            self.slots = np.zeros(2 * size, np.int64)
        with np.errstate(over="ignore"):
            fill(self.slots, self.entries, self.regs, self.widths)

    def _resize_nodes(self, capacity: int) -> None:
        self._check_memory(nodes=capacity)
        used = int(self.regs[j.NODES])
        nodes = np.zeros((capacity, 5), np.int64)
        nodes[:used] = self.nodes[:used]
        self.nodes = nodes
        if self.timed:
            self.times = np.concatenate([self.times[:used], np.zeros(capacity - used, np.int64)])
        if self.lists:
            self.extra = np.concatenate([self.extra[:used], np.zeros((capacity - used, 3), np.int64)])
        self.scratch = np.zeros((3, capacity + 1), np.int64)
        self.regs[j.SUMMED] = 0

    def _check_memory(self, nodes: int = 0, entries: int = 0) -> None:
        wanted = max(nodes, len(self.nodes)) * NODE_BYTES
        wanted += max(entries, len(self.entries)) * 8 * (self.entries.shape[1] + 2)
        if wanted > self.memory:
            raise out_of_memory(self.memory)

    def _grow_stack(self) -> None:
        names = (
            "stack_node",
            "stack_depth",
            "stack_todo",
            "stack_cells",
            "stack_unlike",
            "path",
            "cell_node",
            "cell_next",
        )
        self._grow(names)

    def _grow_entries(self) -> None:
        self._grow(("position", "mark", "spare_position", "spare_mark"))

    def _grow(self, names: tuple[str, ...]) -> None:
        grown = {n: np.concatenate([getattr(self.out, n), np.zeros_like(getattr(self.out, n))]) for n in names}
        self.out = self.out._replace(**grown)

    def held(self) -> Array:
        """The positions of the events that partial matches hold, ascending."""
        used = self.nodes[: self.regs[j.NODES]]
        return ascending(used[used[:, KIND] >= 0][:, A])

    def oldest_held(self) -> int:
        """A position before which no partial match holds an event; looked up anew after a sweep only."""
        if self._looked:
            used = self.nodes[: self.regs[j.NODES]]
            positions = used[used[:, KIND] >= 0][:, A]
            if len(positions):
                self.oldest = max(self.oldest, int(positions.min()))
            self._looked = False
        return self.oldest

    def used_values(self) -> Array:
        """The numbers of the values that runs are filed under."""
        used = self.entries[: self.regs[j.ENTRIES]]
        widths = self.widths[used[:, j.INDEX]]
        found = [used[widths > k, j.KEY + k] for k in range(used.shape[1] - j.KEY)]
        if self.lists:
            kinds = self.nodes[: self.regs[j.NODES], KIND]
            found.append(self.extra[np.flatnonzero(kinds == LISTED), VALUE])
            found.append(self.nodes[np.flatnonzero(kinds == OTHERS), B])
        numbers = np.concatenate([np.zeros(0, np.int64), *found])
        return ascending(numbers[numbers >= 0])

    # --- state ---

    def state(self) -> dict[str, Array]:
        """The state between two batches, cut to what is in use."""
        used = int(self.regs[j.NODES])
        arrays: dict[str, Array] = {
            "regs": self.regs.copy(),
            "nodes": self.nodes[:used].copy(),
            "times": self.times[:used].copy(),
            "extra": self.extra[:used].ravel(),
            "entries": self.entries[: self.regs[j.ENTRIES]].copy(),
            "sizes": np.array([len(self.nodes), len(self.entries)]),
        }
        return arrays | {f"parts.{name}": array.copy() for name, array in self.parts._asdict().items()}

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from a `state`."""
        self.regs[:] = arrays["regs"]
        used = len(arrays["nodes"])
        capacity, size = (int(n) for n in arrays["sizes"])
        self.nodes = np.zeros((capacity, 5), np.int64)
        self.nodes[:used] = arrays["nodes"]
        self.times = np.zeros(capacity if self.timed else 0, np.int64)
        self.times[: len(arrays["times"])] = arrays["times"]
        if self.lists:
            self.extra = np.zeros((capacity, 3), np.int64)
            self.extra[:used] = arrays["extra"].reshape(-1, 3)
        self.scratch = np.zeros((3, capacity + 1), np.int64)
        self.regs[j.SUMMED] = 0
        self.entries = np.zeros((size, self.entries.shape[1]), np.int64)
        self.entries[: len(arrays["entries"])] = arrays["entries"]
        self._room_for_entries()
        self.parts = j.Partitions(*(arrays[f"parts.{name}"].astype(np.int64) for name in j.Partitions._fields))


def joined(chunks: list[Chunk]) -> Chunk:
    """One chunk of all."""
    if len(chunks) == 1:
        return chunks[0]
    lengths = [np.diff(chunk.offsets) for chunk in chunks]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)

    def column(name: str) -> Any:
        parts = [getattr(chunk, name) for chunk in chunks]
        return None if parts[0] is None else np.concatenate(parts)

    names = ("start", "end", "positions", "labels", "partition", "start_time", "end_time")
    return Chunk(offsets=offsets, **{name: column(name) for name in names})


def ascending(numbers: Array) -> Array:
    """These numbers, each once: most are near one another, so that marking is cheaper than sorting."""
    if not len(numbers):
        return numbers
    first = int(numbers.min())
    marked = np.zeros(int(numbers.max()) - first + 1, np.bool_)
    marked[numbers - first] = True
    return np.flatnonzero(marked) + first


def by_start(chunk: Chunk) -> Chunk:
    """Later starts first."""
    return rows(chunk, np.argsort(-chunk.start, kind="stable"))


def head(chunk: Chunk, count: int) -> Chunk:
    """The first matches."""
    return chunk if len(chunk.start) <= count else rows(chunk, np.arange(count))


def rows(chunk: Chunk, order: Array) -> Chunk:
    """These matches of a chunk, in this order."""
    lengths = np.diff(chunk.offsets)[order]
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    entries = np.arange(offsets[-1]) + np.repeat(chunk.offsets[:-1][order] - offsets[:-1], lengths)
    return Chunk(
        start=chunk.start[order],
        end=chunk.end[order],
        offsets=offsets,
        positions=chunk.positions[entries],
        labels=chunk.labels[entries] if len(chunk.labels) else chunk.labels,
        partition=None if chunk.partition is None else chunk.partition[order],
        start_time=None if chunk.start_time is None else chunk.start_time[order],
        end_time=None if chunk.end_time is None else chunk.end_time[order],
    )


def _output(matches: int, entries: int, timed: bool) -> j.Output:
    def ints(size: int) -> Any:
        return np.zeros(size, np.int64)

    return j.Output(
        start=ints(matches),
        end=ints(matches),
        start_time=ints(matches if timed else 0),
        end_time=ints(matches if timed else 0),
        partition=np.zeros(matches, np.int32),
        offsets=ints(matches + 1),
        position=ints(entries),
        mark=np.zeros(entries, np.int32),
        stack_node=ints(256),
        stack_depth=ints(256),
        stack_todo=ints(256),
        stack_cells=ints(256),
        stack_unlike=ints(256),
        path=ints(256),
        cell_node=ints(256),
        cell_next=ints(256),
        order=ints(matches),
        spare_order=ints(matches),
        spare_position=ints(entries),
        spare_mark=np.zeros(entries, np.int32),
    )
