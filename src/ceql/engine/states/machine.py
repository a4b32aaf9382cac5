"""One recogniser: the loop's arrays, and what the loop cannot do by itself.

`feed` takes the events of a batch and yields chunks of matches. It is a generator: when the caller stops reading,
nothing goes on. Between two batches the whole state is in the arrays (`state`, `restore`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ceql.engine.common.chunk import Chunk
from ceql.engine.common.complaints import out_of_memory, went_back
from ceql.engine.states import layout as x
from ceql.engine.states.blocks import enumerate_many, grow_path, live_nodes
from ceql.engine.states.collect import collect, compact_pool
from ceql.engine.states.enumerate import FEW
from ceql.engine.states.exact import KeptCounts, exact_count
from ceql.engine.states.graph import NODES, UNION
from ceql.engine.states.loop import NO_KEY, advance
from ceql.engine.states.records import store
from ceql.jit import Array

HANDED_OVER = ("start", "end", "start_time", "end_time", "partition", "offsets", "position", "label")
NODE_BYTES = 72  # four words, a time, and four words of scratch


class Tabled(Protocol):
    """What the machine needs of the determinised automaton (`automata.cache.TableCache`)."""

    tables: x.Tables
    states: list[Any]

    @property
    def is_full(self) -> bool: ...

    def room_for_symbols(self, count: int) -> None: ...

    def restore(self, states: list[Any]) -> None: ...

    def fill(self, state: int, symbol: int) -> None: ...

    def forget(self, in_use: Array) -> Array: ...


class Machine:
    """The state of a recogniser and the buffers of its output."""

    def __init__(
        self,
        cache: Tabled,
        settings: x.Settings,
        timed: bool,
        memory: int,
        matches: int = 1 << 15,
        entries: int = 1 << 17,
        nodes: int = 1 << 14,
    ) -> None:
        self.cache = cache
        self.settings = settings
        self.timed = timed
        self.memory = memory
        self.total = 0  # count mode
        self.regs = np.zeros(x.REGISTERS, np.int64)
        self.regs[x.LOADED] = -1
        self.regs[x.HORIZON] = NO_KEY
        self.nodes = np.zeros((nodes, 4), np.int64)
        self.times = np.zeros(nodes if timed else 0, np.int64)
        self.log = np.zeros((1024 if settings.log else 0, 6), np.int64)
        self.parts = _partitions()
        self.active = _active(16, 16, cache.tables.next.shape[0])
        self.out = _output(matches, entries, timed)
        self.scratch = np.zeros((4, nodes + 1), np.int64)
        self._kept = KeptCounts()
        self._collected = (-1, -1)  # at which event and capacity there was a collection last
        self.emptied: list[int] = []  # partitions found empty by the last collection
        self.oldest = 0  # no partial match holds an event before this position, see `oldest_held`
        self._collected_since = False

    # --- partitions ---

    def room_for_partitions(self, count: int) -> None:
        """Make sure that partitions 0 to count - 1 exist."""
        have = len(self.parts.offset)
        if count <= have:
            return
        extra = max(count, 2 * have) - have
        fill = {"offset": -1, "log": -1, "counter": self._counter_start(), "bound": NO_KEY, "floor": NO_KEY}
        grown = {
            name: np.concatenate([old, np.full(extra, fill.get(name, 0), old.dtype)])
            for name, old in self.parts._asdict().items()
            if name != "pool"
        }
        grown["epoch"][have:] = self.regs[x.EPOCH]
        self.parts = x.Partitions(**grown, pool=self.parts.pool)

    def _counter_start(self) -> int:
        return int(NO_KEY) if self.settings.window == x.W_ENVELOPE else 0

    def reuse_partitions(self, partitions: list[int]) -> None:
        """Make emptied partitions as good as new."""
        self.parts.counter[partitions] = self._counter_start()
        self.parts.bound[partitions] = NO_KEY

    def idle(self, partitions: Array) -> Array:
        """Those of these partitions that hold nothing."""
        idle: Array = partitions[(self.parts.offset[partitions] < 0) & (self.parts.initial[partitions] == 0)]
        return idle

    @property
    def remembers(self) -> bool:
        """Whether what was read changes what a match may start with (NEXT, LAST, MAX)."""
        return bool(self.parts.initial.any())

    @property
    def horizon(self) -> int:
        """The greatest bound met, for windows that all partitions share."""
        return int(self.regs[x.HORIZON])

    def raise_horizon(self, key: int) -> None:
        self.regs[x.HORIZON] = max(self.horizon, key)

    # --- feeding ---

    def feed(self, events: x.Events, resume: bool = False) -> Iterator[Chunk]:
        """Process a batch; chunks come when the buffers are full. `flush` gives the rest.

        With `resume`, go on with a batch that an exception (a limit, an interrupt) cut short.
        """
        regs = self.regs
        if not resume:
            regs[x.EVENT] = 0
        self._collected = (-1, -1)
        stop = len(events.symbol)
        while True:
            reason = self._advance(events, stop)
            if reason == x.DONE:
                return
            if reason == x.HOLE:
                self._fill()
            elif reason == x.FULL:
                yield from self.flush()
            elif reason == x.BLOCKS:
                yield from enumerate_many(self, events)
                regs[x.PHASE] = x.AFTER
            elif reason == x.COLLECT:
                self.compact()
            elif reason == x.GROW:
                self._store()
                slots, longest = self.active.lists.shape
                self.active = _active(2 * slots, 2 * longest, len(self.active.place))
            elif reason == x.GROW_PATH:
                grow_path(self)
            elif reason == x.OVERFLOW:
                roots, bound = self.active.roots[: int(regs[x.ROOTS])], self.bound(events)
                if bound == NO_KEY:
                    found = self._kept.count(self.nodes, int(regs[NODES]), roots)
                else:
                    found = exact_count(self.nodes, live_nodes(self, bound), roots, self.settings.exact, bound)
                self.total += min(found, self.settings.limit) if self.settings.limit else found
                regs[x.SEEN] = 1
                regs[x.PHASE] = x.AFTER
            elif reason == x.REPLAY:
                yield from self.replay(events)
                regs[x.PHASE] = x.AFTER
            else:
                raise went_back(int(events.position[regs[x.EVENT]]))

    @property
    def counted(self) -> int:
        """Count mode: the matches so far, after `flush`."""
        return self.total

    def replay(self, events: x.Events) -> Iterator[Chunk]:
        """What to do at a position with matches in HAND_OVER mode."""
        raise AssertionError("this machine hands nothing over")

    def _advance(self, events: x.Events, stop: int) -> int:
        return int(
            advance(
                self.cache.tables,
                self.nodes,
                self.times,
                self.regs,
                self.parts,
                self.active,
                events,
                self.log,
                self.out,
                self.scratch,
                self.settings,
                stop,
            )
        )

    def flush(self) -> Iterator[Chunk]:
        """Hand out what stands in the buffers."""
        if self.settings.mode == x.COUNT:
            self.total += int(self.regs[x.TOTAL])
            self.regs[x.TOTAL] = 0
        m, e = int(self.regs[x.MATCHES]), int(self.regs[x.ENTRIES])
        if m == 0:
            return
        out = self.out
        if 2 * m > len(out.start) or 2 * e > len(out.position):  # hand the buffers over instead of copying them
            self.out = out._replace(
                **{name: np.empty_like(old) for name, old in out._asdict().items() if name in HANDED_OVER}
            )
            lent = out
        else:
            lent = out._replace(**{name: getattr(out, name)[: max(m + 1, e)].copy() for name in HANDED_OVER})
        chunk = Chunk(
            start=lent.start[:m],
            end=lent.end[:m],
            offsets=lent.offsets[: m + 1],
            positions=lent.position[:e],
            labels=lent.label[: e if self.settings.labelled else 0],
            partition=lent.partition[:m],
            start_time=lent.start_time[:m] if self.timed else None,
            end_time=lent.end_time[:m] if self.timed else None,
        )
        self.regs[x.MATCHES] = 0
        self.regs[x.ENTRIES] = 0
        yield chunk

    # --- what the loop comes back for ---

    def _fill(self) -> None:
        self.cache.fill(int(self.regs[x.HOLE_STATE]), int(self.regs[x.HOLE_SYMBOL]))
        if self.cache.is_full:
            self._forget_states()
        states = self.cache.tables.next.shape[0]
        if states > len(self.active.place):
            self.active = self.active._replace(place=np.zeros(states, np.int64))

    def _forget_states(self) -> None:
        self._store()
        self.compact()
        in_use = np.zeros(len(self.cache.tables.accept), np.uint8)
        spots = list(self._state_spots())
        in_use[[int(self.parts.pool[s]) for s in spots]] = 1
        in_use[self.parts.initial] = 1
        renumbered = self.cache.forget(in_use)
        for spot in spots:
            self.parts.pool[spot] = renumbered[self.parts.pool[spot]]
        self.parts.initial[:] = renumbered[self.parts.initial]

    def _state_spots(self) -> Iterator[int]:
        """Where in the pool the numbers of states stand."""
        pool = self.parts.pool
        for at in self.parts.offset[self.parts.offset >= 0]:
            spot = int(at) + 1
            for _ in range(int(pool[at])):
                yield spot
                spot += 2 + int(pool[spot + 1])

    def _store(self) -> None:
        """Put the loaded partition back into the pool, which grows as needed."""
        while not store(self.regs, self.parts, self.active):
            self._check_memory(pool=2 * len(self.parts.pool))
            pool = np.zeros(2 * len(self.parts.pool), np.int64)
            compact_pool(self.regs, self.parts, pool)
            self.parts = self.parts._replace(pool=pool)

    def held(self) -> Array:
        """The positions of the events that partial matches hold, ascending."""
        positions = self._held()
        if not len(positions):
            return positions
        first = int(positions.min())
        marked = np.zeros(int(positions.max()) - first + 1, np.bool_)  # cheaper than sorting: most positions are near
        marked[positions - first] = True
        return np.flatnonzero(marked) + first

    def oldest_held(self) -> int:
        """A position before which no partial match holds an event; looked up anew after a collection only."""
        if self._collected_since:
            held = self._held()
            if len(held):
                self.oldest = max(self.oldest, int(held.min()))
            self._collected_since = False
        return self.oldest

    def _held(self) -> Array:
        """The same in no order, and with repeats."""
        used = self.nodes[: self.regs[NODES]]
        return np.concatenate([used[used[:, 3] != UNION][:, 1], self.log[: self.regs[x.LOG], 0]])

    def compact(self) -> None:
        """Give back what the window has left, and make room if that was not enough.

        The caller flushes before it gives the partitions that were found empty to other keys.
        """
        self._store()
        collect(self.nodes, self.times, self.regs, self.parts, self.settings.window, self.log)
        self._kept.forget()
        self.regs[x.SUMMED] = 0
        if len(self.parts.offset) > 1:
            idle = (self.parts.offset < 0) & (self.parts.initial == 0)
            self.emptied = np.flatnonzero(idle).tolist()
        used, capacity = int(self.regs[NODES]), len(self.nodes)
        self._collected_since = True
        again, self._collected = self._collected, (int(self.regs[x.EVENT]), capacity)
        if 2 * used > capacity or again == self._collected:  # collecting alone did not make room
            self._resize_nodes(2 * capacity)
        if self.settings.log and 2 * self.regs[x.LOG] > len(self.log):
            self._check_memory(log=2 * len(self.log))
            self.log = np.concatenate([self.log, np.zeros_like(self.log)])
        if 2 * self.regs[x.POOL] > len(self.parts.pool):
            pool = np.zeros(len(self.parts.pool), np.int64)
            compact_pool(self.regs, self.parts, pool)
            self.parts = self.parts._replace(pool=pool)

    def _resize_nodes(self, capacity: int) -> None:
        self._check_memory(nodes=capacity)
        used = int(self.regs[NODES])
        nodes = np.zeros((capacity, 4), np.int64)
        nodes[:used] = self.nodes[:used]
        self.nodes = nodes
        if self.timed:
            self.times = np.concatenate([self.times[:used], np.zeros(capacity - used, np.int64)])
        self.scratch = np.zeros((4, capacity + 1), np.int64)
        self.regs[x.SUMMED] = 0

    def _check_memory(self, nodes: int = 0, log: int = 0, pool: int = 0) -> None:
        """Raise `ResourceError` when the state would be larger than allowed with these capacities."""
        wanted = max(nodes, len(self.nodes)) * NODE_BYTES
        wanted += max(log, len(self.log)) * 48 + max(pool, len(self.parts.pool)) * 8
        if wanted > self.memory:
            raise out_of_memory(self.memory)

    def bound(self, events: x.Events) -> int:
        """The least start key that a match ending at the current event may have."""
        if self.settings.window == x.W_COUNTED:
            return int(self.regs[x.HORIZON])
        return int(events.bound[self.regs[x.EVENT]])

    # --- state ---

    def start_over(self) -> None:
        """Forget all events; matches that wait in the buffers stay."""
        self.regs[NODES] = self.regs[x.SUMMED] = 0
        self.parts.offset[:] = -1
        self.parts.initial[:] = 0
        self._kept.forget()

    def state(self) -> dict[str, Array]:
        """The state between two batches, cut to what is in use."""
        self._store()
        used = {"nodes": int(self.regs[NODES]), "times": int(self.regs[NODES]), "log": int(self.regs[x.LOG])}
        arrays: dict[str, Array] = {"regs": self.regs.copy()}
        for name, length in used.items():
            arrays[name] = getattr(self, name)[:length].copy()
        for name, array in self.parts._asdict().items():
            arrays[f"parts.{name}"] = array[: int(self.regs[x.POOL])].copy() if name == "pool" else array.copy()
        return arrays

    def restore(self, arrays: dict[str, Array]) -> None:
        """Continue from a `state`."""
        self.regs[:] = arrays["regs"]
        used = len(arrays["nodes"])
        capacity = max(len(self.nodes), 2 * used)
        self.nodes = np.zeros((capacity, 4), np.int64)
        self.nodes[:used] = arrays["nodes"]
        self.times = np.zeros(capacity if self.timed else 0, np.int64)
        self.times[: len(arrays["times"])] = arrays["times"]
        self.scratch = np.zeros((4, capacity + 1), np.int64)
        if self.settings.log:
            self.log = np.zeros((max(1024, 2 * len(arrays["log"])), 6), np.int64)
            self.log[: len(arrays["log"])] = arrays["log"]
        kept: dict[str, Any] = {
            name: arrays[f"parts.{name}"].astype(old.dtype) for name, old in self.parts._asdict().items()
        }
        states = self.cache.tables.next.shape[0]
        slots, longest = self.active.lists.shape
        self.active = _active(slots, longest, states)
        kept["pool"] = np.concatenate([kept["pool"], np.zeros(max(256, len(kept["pool"])), np.int64)])
        self.parts = x.Partitions(**kept)


def _partitions() -> x.Partitions:
    def none() -> Array:
        return np.zeros(0, np.int64)

    return x.Partitions(
        offset=none(),
        room=none(),
        epoch=none(),
        initial=np.zeros(0, np.int32),
        counter=none(),
        bound=none(),
        floor=none(),
        log=none(),
        pool=np.zeros(256, np.int64),
    )


def _active(slots: int, longest: int, states: int) -> x.Active:
    return x.Active(
        state=np.zeros(slots, np.int32),
        slot=np.zeros(slots, np.int32),
        new_state=np.zeros(slots, np.int32),
        new_slot=np.zeros(slots, np.int32),
        free=np.zeros(slots + 1, np.int32),
        lists=np.zeros((slots, longest), np.int64),
        lengths=np.zeros(slots, np.int64),
        place=np.zeros(states, np.int64),
        roots=np.zeros(slots * longest, np.int64),
    )


def _output(matches: int, entries: int, timed: bool) -> x.Output:
    return x.Output(
        start=np.zeros(matches, np.int64),
        end=np.zeros(matches, np.int64),
        start_time=np.zeros(matches if timed else 0, np.int64),
        end_time=np.zeros(matches if timed else 0, np.int64),
        partition=np.zeros(matches, np.int32),
        offsets=np.zeros(matches + 1, np.int64),
        position=np.zeros(entries, np.int64),
        label=np.zeros(entries, np.int32),
        stack_node=np.zeros(256, np.int64),
        stack_depth=np.zeros(256, np.int64),
        path_position=np.zeros(256, np.int64),
        path_label=np.zeros(256, np.int32),
        order=np.zeros(FEW, np.int64),
        spare_position=np.zeros(entries, np.int64),
        spare_label=np.zeros(entries, np.int32),
    )
