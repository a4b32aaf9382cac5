"""Refuses events of the same time whose order could change the result.

Spark orders rows by columns alone. Where two rows of a substream agree in all of these, the result could depend on
which row comes first. Often it does not: `A ; B` finds the same pairs whichever of two A's of the same time is read
first. Two symbols *can be swapped* if, from every state, reading both in either order can do the same to both events,
completes the same matches, and reaches the same states. That is enough for every query that keeps all matches of a
formula (no strategy, LIMIT or CONSUME) in a window of time. Where a query compares events with each other, other than
by their substreams, symbols do not say everything about an event, and no two can be swapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ceql.analysis.normal import Atom, to_normal
from ceql.analysis.substreams import is_simple
from ceql.automata.cea import CEA, NO_LABEL, Label, Transition
from ceql.automata.compile import compile_formula
from ceql.engine.common.layout import Events
from ceql.errors import DataError
from ceql.io.sort_keys import decode
from ceql.jit import Array, kernel
from ceql.plans import Loop, Plan
from ceql.predicates.symbols import SymbolTable
from ceql.spark.task_spec import ORDER, STREAM, TIME, own_name
from ceql.syntax import tree as t

_MOST = 64  # symbols of which it is known with which others they can be swapped


class TieCheck:
    """Looks at the events of a task as they come, and refuses ties that could change the result."""

    def __init__(self, swappable: SwappableSymbols | None, table: SymbolTable, ordered_by: tuple[str, ...]) -> None:
        self._swappable = swappable  # None: no two symbols can be swapped
        self._table = table
        self._ordered_by = ordered_by
        self._partners: Array = np.zeros(_MOST, np.uint64)  # by symbol: those that it can be swapped with, as bits
        self._symbols = 0
        self._group: Array = np.full(1, -1, np.int64)  # by partition: the group of equal times of its last event
        self._seen: Array = np.zeros(1, np.uint64)  # and the symbols that it has had in that group
        self._last: Array = np.zeros(3, np.int64)  # time and order of the last event, and its group

    def check(self, events: Events, batch: pa.RecordBatch, first: int, reused: list[int]) -> None:
        """Look at the next events of a view; `first` is the position of the batch's first row."""
        if not len(events.symbol):
            return
        self._learn()
        partitions = int(events.partition.max()) + 1
        if partitions > len(self._group):
            room = max(0, 2 * partitions - len(self._group))
            self._group = np.concatenate([self._group, np.full(room, -1, np.int64)])
            self._seen = np.concatenate([self._seen, np.zeros(room, np.uint64)])
        self._group[reused] = -1
        order: Array = np.zeros(0, np.int64)
        if self._ordered_by:
            rows = events.position - first
            # without order_by, the streams alone order such events
            name = next(name for name in map(own_name, (ORDER, STREAM)) if name in batch.schema.names)
            order = np.require(batch.column(name).to_numpy(zero_copy_only=False)[rows], np.int64, ["C", "W"])
        at = first_tie(
            events.time, order, events.partition, events.symbol, self._partners, self._group, self._seen, self._last
        )
        if at >= 0:
            when = decode(events.time[at : at + 1], batch.schema.field(own_name(TIME)).type)[0].as_py()
            by = f" and the same {', '.join(self._ordered_by)}" if self._ordered_by else ""
            raise DataError(
                f"two events of one substream have the same time ({when}){by}, and their order matters to this query; "
                "say what orders them with order_by= (columns that tell such events apart)"
            )

    def _learn(self) -> None:
        """Find out with which symbols the new ones can be swapped."""
        bits = self._table.bits[:_MOST]
        if self._swappable is None or len(bits) == self._symbols:
            return
        for a in range(len(bits)):
            for b in range(max(a, self._symbols), len(bits)):
                if self._swappable.holds(bits[a], bits[b]):
                    self._partners[a] |= np.uint64(1 << b)
                    self._partners[b] |= np.uint64(1 << a)
        self._symbols = len(bits)


@kernel
def first_tie(
    time: Array, order: Array, partition: Array, symbol: Array, partners: Array, group: Array, seen: Array, last: Array
) -> int:
    """The first event that cannot be swapped with one of its partition at the same time; -1 when there is none.

    `partners` has, for each symbol, the symbols that it can be swapped with, as bits. `group` and `seen` have, for each
    partition, the group of equal times of its last event and the symbols it has had in that group. `last` is the time
    and the order of the last event, and its group.
    """
    for i in range(len(time)):
        if time[i] != last[0] or (len(order) > 0 and order[i] != last[1]) or last[2] == 0:
            last[0] = time[i]
            if len(order) > 0:
                last[1] = order[i]
            last[2] += 1
        p = partition[i]
        s = np.uint64(symbol[i])
        if group[p] == last[2]:
            if s >= np.uint64(64) or (seen[p] & ~partners[s]) != np.uint64(0):
                return i
            seen[p] |= np.uint64(1) << s
        else:
            group[p] = last[2]
            # a symbol beyond the first 64 can be swapped with nothing: all bits stand for it
            seen[p] = np.uint64(1) << s if s < np.uint64(64) else ~np.uint64(0)
    return -1


# what reading two events can do: to the first, to the second, and where it ends (a state, or at which event it matched)
_Effect = tuple[Label, Label, tuple[str, int]]


class SwappableSymbols:
    """Which symbols of an automaton can be swapped; each pair is worked out when it is first asked for.

    `guards` are what the bits of a symbol stand for, those of the automaton among them.
    """

    def __init__(self, cea: CEA, guards: Sequence[Atom]) -> None:
        self._cea = cea
        self._places = [guards.index(guard) for guard in cea.guards]
        self._resting = cea.resting_after()
        # where every event of a match is bound, a match is known by its events, wherever it ended
        hidden = any(t.guard != 0 and not t.label for row in (cea.initial, *cea.states) for t in row)
        self._ends = (0, 1) if hidden else (0, 0)
        self._known: dict[tuple[int, int], bool] = {}

    def holds(self, a: int, b: int) -> bool:
        """Whether events with these sets of guards (bit masks) can be swapped."""
        a, b = self._own(a), self._own(b)
        if (a, b) not in self._known:
            self._known[a, b] = self._effects(a, b, swapped=False) == self._effects(b, a, swapped=True)
        return self._known[a, b]

    def _own(self, bits: int) -> int:
        return sum((bits >> place & 1) << k for k, place in enumerate(self._places))

    def _effects(self, first: int, second: int, swapped: bool) -> set[tuple[int, _Effect]]:
        found: set[tuple[int, _Effect]] = set()
        ends = self._ends[::-1] if swapped else self._ends

        def add(origin: int, one: Label, two: Label, end: tuple[str, int]) -> None:
            found.add((origin, (two, one, end) if swapped else (one, two, end)))

        def arrive(origin: int, one: Label, step: Transition) -> None:
            for state in self._resting[step.target]:
                if self._cea.states[state]:  # else nothing follows
                    add(origin, one, step.label, ("state", state))
            if step.target in self._cea.final:
                add(origin, one, step.label, ("matched at", ends[1]))

        for origin in range(-1, len(self._cea.states)):  # -1: no event of a match read yet
            for step in self._steps(origin, first):
                if step.target in self._cea.final:
                    add(origin, step.label, NO_LABEL, ("matched at", ends[0]))
                for further in self._steps(step.target, second):
                    arrive(origin, step.label, further)
        for step in self._steps(-1, second):  # a match may begin at the second event
            arrive(-1, NO_LABEL, step)
        return found

    def _steps(self, state: int, bits: int) -> list[Transition]:
        row = self._cea.initial if state < 0 else self._cea.states[state]
        return [step for step in row if step.fires(bits)]


@lru_cache(maxsize=256)  # those of a set of queries as well
def swappable_symbols(plan: Plan) -> SwappableSymbols | None:
    """The symbols that can be swapped under a query; None where no two can."""
    cea = _automaton(plan)
    return SwappableSymbols(cea, plan.guards) if cea is not None and some_can_swap(plan) else None


def some_can_swap(plan: Plan) -> bool:
    """Whether ties can be harmless at all under this query."""
    query = plan.query
    return (
        query.strategy in (None, t.Strategy.ALL)
        and query.limit is None
        and query.after_match is None
        and query.consume is t.Consume.NONE
        and (query.window is None or isinstance(query.window, t.TimeWindow))
        and plan.skips_safely
        and _automaton(plan) is not None
    )


def _automaton(plan: Plan) -> CEA | None:
    """The automaton over single events that says all about a query, if there is one."""
    if plan.loop is not Loop.GROUPS:
        return None if any(step.after for step in plan.cea.initial) else plan.cea
    if not is_simple(plan.shape) or plan.shape.absences:
        return None
    cea = compile_formula(to_normal(plan.shape), plan.selected)
    return cea if set(cea.guards) <= set(plan.guards) else None
