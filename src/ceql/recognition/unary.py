"""A query on single events at work: the loop over determinised states (`engine.states`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.automata.cache import TableCache
from ceql.automata.subsets import Determinised, Plain, Rivalled, state_from_json, state_to_json
from ceql.engine.common.check import require
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import COUNT, ENUMERATE, NEVER, W_GIVEN, Events, Settings
from ceql.engine.common.sharded import Sharded, shards_in
from ceql.engine.common.shares import Shares
from ceql.engine.groups.layout import LANES
from ceql.engine.states.check import Known
from ceql.engine.states.divide import divide
from ceql.engine.states.machine import StateMachine
from ceql.engine.states.replay import ReplayMachine
from ceql.io.sorted_runs import EventBatch
from ceql.jit import Array
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.frame import CONSUME
from ceql.recognition.futile import Futile
from ceql.recognition.in_pieces import InPieces
from ceql.recognition.result_columns import masks_of, to_record_batch
from ceql.syntax import tree as t


class UnaryRecognition(InPieces):
    """Symbols in, matches straight from the automaton out."""

    def __init__(self, bound: BoundPlan, counting: bool = False) -> None:
        super().__init__(bound, counting)
        self.plan = bound.plan
        self._keep_rows([], bound.schema)
        given = bound.window.kind == W_GIVEN and not bound.window.exact
        futile = Futile(self.plan.cea, self.table) if given and self.plan.looks_ahead else None
        self._futile: Futile | None = futile
        self._cea = self.plan.cea if futile is None else futile.cea

    @cached_property
    def machine(self) -> StateMachine | Sharded[StateMachine]:
        """The machine, made when the first events come."""
        machine = self._make_machine()
        chooses = machine.settings.picks or isinstance(machine, ReplayMachine)
        self._may_divide_it(machine, self._divides and self._has_room and not chooses)
        if self.keys is None:
            machine.room_for_partitions(1)
        return machine

    @property
    def whole(self) -> StateMachine:
        """The machine, for those who look into it: it is not divided from now on, and gets all events."""
        self._futile = None
        machine = self.machine
        assert isinstance(machine, StateMachine)
        machine.divides = False
        return machine

    @property
    def _divides(self) -> bool:
        """Whether the machine can be divided by substreams."""
        return self.keys is not None and self.bound.may_divide

    def _divide(self) -> None:
        assert isinstance(self.machine, StateMachine)
        shares = self._shares()
        assert shares is not None
        self.machine = self._sharded(self.machine, divide(self.machine, shares), shares)

    def _sharded(self, whole: StateMachine, shards: list[StateMachine], shares: Shares) -> Sharded[StateMachine]:
        return Sharded.of(whole, shards, shares, shares.owners, self.bound.options.cores)

    def _make_machine(self) -> StateMachine:
        plan, window, memory = self.plan, self.bound.window, self.bound.options.memory
        times = window.kind == W_GIVEN and window.column is not None  # several starts may have one key
        settings = Settings(
            window=window.kind,
            width=window.width,
            exact=window.exact,
            mode=COUNT if self.counting else ENUMERATE,
            limit=plan.limit,
            latest=0 if plan.limit != 1 or window.exact else 1 if times else 2,
            consume=CONSUME[plan.query.consume],
            few=max(1024, 4 * plan.limit) if plan.limit else NEVER,
            labelled=self._pattern is None,
            lanes=LANES,
            waits=window.exact and CONSUME[plan.query.consume] > 0,  # starts one by one may leave no match
        )
        timed = self.bound.time is not None
        table, start = self.table, 1 << len(plan.cea.guards)
        if plan.rivalry is None or not (plan.query.window is None or plan.chooses_at_once):
            plain = self._cache("plain", self._plain, lambda symbol: table.bits[symbol])
        if plan.rivalry is None:
            return StateMachine(plain, settings, timed, memory, **self._buffers)
        windowed = plan.query.window is not None
        rivalled = Rivalled(plan.cea, plan.query.distinct, plan.rivalry, start, windowed and plan.chooses_at_once)
        if not windowed or plan.chooses_at_once:
            cache = self._cache("rivalled", rivalled, lambda symbol: table.bits[symbol] | start)
            picks = windowed and plan.query.strategy is not t.Strategy.MAX
            return StateMachine(cache, settings._replace(picks=picks), timed, memory, **self._buffers)
        choosing = self._cache(
            "choosing", rivalled, lambda symbol: table.bits[symbol >> 1] | (start if symbol & 1 else 0)
        )
        alone = settings._replace(window=W_GIVEN, exact=False, consume=0, waits=False, latest=2 * int(plan.limit == 1))
        chooser = StateMachine(choosing, alone, timed, memory, **self._buffers)
        finding = settings._replace(log=True)
        return ReplayMachine(plain, finding, timed, memory, chooser, **self._buffers)

    @property
    def _buffers(self) -> dict[str, int]:
        """One of many queries begins with room for the records of some substreams, since growing takes time."""
        return super()._buffers if self.bound.sharing is None else {**super()._buffers, "pool": 1 << 16}

    def _cache(self, name: str, automaton: Determinised, bits_of: Callable[[int], int]) -> TableCache:
        """The tables of an automaton, as a recognition before this one has left them."""
        known = self.learned.caches.get(name)
        if known is None:
            known = self.learned.caches[name] = TableCache(automaton, bits_of, self.bound.options.max_states)
        return known

    @cached_property
    def _plain(self) -> Plain:
        known = self.learned.caches.get("plain")
        if known is None:
            return Plain(self._cea, self.plan.query.distinct)
        assert isinstance(known.automaton, Plain)
        return known.automaton

    @cached_property
    def _pattern(self) -> Array | None:
        """The labels of every match, where all have the same."""
        labels = self.plan.pattern
        return np.array(self._plain.numbering.numbers(labels), np.int32) if labels else None

    @property
    def sums(self) -> bool:
        """Unless the strategy is applied to each position by itself, or LIMIT leaves some matches out."""
        return not self.plan.limit and not (self.plan.rivalry is not None and self.plan.query.window is not None)

    @cached_property
    def label_masks(self) -> Array:
        """Which variables each label binds."""
        return masks_of(self._plain.numbering.labels, self.plan.columns)

    def _to_batch(self, chunk: Chunk, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        return to_record_batch(chunk, self.bound.result, self.label_masks, keys, self._pattern)

    def read(self, batch: EventBatch) -> Events:
        """The events as the machine takes them. Those who inspect events see them all."""
        events = super().read(batch)
        if self._futile is None:
            return events
        found = self._futile.without(events, len(self.keys) if self.keys is not None else 1)
        self._room_for_symbols()
        return found

    @property
    def _machines(self) -> list[StateMachine]:
        """The machine or its shards, and the one that chooses for it."""
        machine = self.machine
        if isinstance(machine, Sharded):
            return machine.machines
        return [machine, machine.chooser] if isinstance(machine, ReplayMachine) else [machine]

    def _room_for_symbols(self) -> None:
        for machine in self._machines:
            machine.room_for_symbols(2 * len(self.table.bits))

    def set_memory(self, memory: int) -> None:
        """Change the budget of the graph."""
        for machine in self._machines:
            machine.memory = memory

    def state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, pa.RecordBatch]]:
        """The state between two batches."""
        header, arrays, tables = super().state()
        shards = self.machine.machines if isinstance(self.machine, Sharded) else [self.machine]
        states = [[state_to_json(state) for state in machine.cache.states] for machine in shards]
        header["states"] = states[0]
        if len(states) > 1:
            header["shards"] = states
        return header, arrays, tables

    def _restore_machine(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        machine = self.machine
        assert isinstance(machine, StateMachine)
        shards = shards_in(arrays)
        if not shards:
            self._know(machine, header["states"])
        else:
            require(self._divides, "it has shards, and the query has none")
            require(len(header["shards"]) == shards, "its shards have no states")
            divided = [machine.shard() for _ in range(shards)]
            for shard, states in zip(divided, header["shards"], strict=True):
                self._know(shard, states)
            assert self.keys is not None
            self.machine = self._sharded(machine, divided, Shares(self.keys.hashes))
        self.machine.restore(arrays)
        if self._futile is not None:
            self._futile.wake(header["partitions"])

    def _know(self, machine: StateMachine, known: list[Any]) -> None:
        """Let a machine know these determinised states."""
        cache = machine.cache
        states = [state_from_json(state) for state in known]
        require(states[:1] == [cache.automaton.initial()], "the first state is not the initial one")
        require(len(set(states)) == len(states), "a state comes twice")
        active = [cache.automaton.is_active(state) for state in states]
        require(None not in active, "there is a state that the automaton has not")
        cache.restore(states)
        labels, symbols = len(self._plain.numbering.labels), len(self.table.bits)
        machine.known = Known(np.array(active, np.bool_), symbols, labels, self.position)
