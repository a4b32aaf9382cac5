"""What each clause takes away: the query built up clause by clause, all versions fed with the same events.

In: a plan. Out: rungs, from the bare formula to the query itself, in the order in which the clauses apply
(docs/reference.md, section 3). Each counts the positions at which its matches end by simulation (`furthest.py`),
exactly and cheaply, and its matches by the engine, up to a limit: without its window a query may have so many that
counting them would take longer than anyone waits. A match costs at least one step of counting, so the limit bounds the
work as well.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from ceql.engine import layout as x
from ceql.engine.arena import NODES
from ceql.errors import CeqlError
from ceql.explain.findings import Rung
from ceql.explain.furthest import EVERY, NONE, OWN, Simulation
from ceql.io.runs import EventBatch
from ceql.options import Options
from ceql.plan import Plan
from ceql.recognition import Recognition
from ceql.syntax import tree as t
from ceql.syntax.printer import print_query
from ceql.window import BoundWindow, bind_window

MOST_MATCHES = 10_000_000
_FIRST_SLICE, _MOST_SLICE = 64, 1 << 16
_WORK = 1 << 28  # nodes of the arena times events that may be counted before looking at the total again
_CONSUME = {t.Consume.NONE: NONE, t.Consume.PARTITION: OWN, t.Consume.ANY: EVERY}


def versions(plan: Plan) -> list[tuple[str, Plan]]:
    """The query with its first clause, its first two, and so on; the last is the query.

    >>> from ceql.plan import make_plan
    >>> [name for name, _ in versions(make_plan("SELECT NEXT * WHERE A ; B WITHIN 3 EVENTS LIMIT 1"))]
    ['WHERE', 'WITHIN 3 EVENTS', 'NEXT', 'LIMIT 1']
    """
    query = plan.query
    written = {line.split(" ", 1)[0]: line for line in print_query(query).split("\n")}
    partial = replace(query, partition=(), window=None, strategy=None, limit=None, consume=t.Consume.NONE)
    found = [("WHERE", partial)]
    if query.partition:
        found.append((written["PARTITION"], partial := replace(partial, partition=query.partition)))
    if query.window is not None:
        found.append((written["WITHIN"], partial := replace(partial, window=query.window)))
    if query.strategy not in (None, t.Strategy.ALL):
        assert query.strategy is not None
        found.append((query.strategy.value, partial := replace(partial, strategy=query.strategy)))
    if query.limit is not None:
        found.append((f"LIMIT {query.limit}", partial := replace(partial, limit=query.limit)))
    if query.consume is not t.Consume.NONE:
        found.append((f"CONSUME BY {query.consume.value}", replace(partial, consume=query.consume)))
    return [(name, Plan(version, plan.source, ())) for name, version in found]


class Version:
    """One rung at work.

    `decides` is what can take the last match of a position away; where it is equal, so are the positions.
    """

    def __init__(self, clause: str, plan: Plan, below: Version | None, where: Where) -> None:
        self.clause = clause
        self.query = plan.query
        self.window: BoundWindow = bind_window(plan, where.schema, where.time, where.options, where.open_schema)
        strict = plan.query.strategy is t.Strategy.STRICT
        self.decides = (plan.query.partition, plan.query.window, strict, plan.query.consume)
        self.own = below is None or below.decides != self.decides
        if below is None or self.own:
            width = self.window.width if self.window.kind == x.W_COUNTED else -1
            self.simulation = Simulation(plan.cea, width, _CONSUME[plan.query.consume])
        else:
            self.simulation = below.simulation
        self.counter = Counter(plan, where)

    def rung(self) -> Rung:
        return Rung(self.clause, self.simulation.positions, self.counter.total, self.counter.whole)


class Where:
    """What all versions run over."""

    def __init__(
        self,
        schema: pa.Schema,
        streams: list[str | None],
        options: Options,
        open_schema: bool,
        untyped: frozenset[int],
    ) -> None:
        self.schema = schema
        self.untyped = untyped
        self.streams = streams
        self.options = options
        self.open_schema = open_schema
        self.time = options.time_column(schema)


class Counter:
    """The number of matches, up to a limit."""

    def __init__(self, plan: Plan, where: Where) -> None:
        self.recognition = Recognition(
            plan, where.schema, where.streams, where.options, where.open_schema, x.COUNT, where.untyped
        )
        self.total: int | None = 0
        self.size = _FIRST_SLICE  # grows as long as there is little to count
        self.whole = True
        self.failure: str | None = None

    def feed(self, batch: EventBatch) -> None:
        at = 0
        while self.whole and at < batch.data.num_rows:
            nodes = int(self.recognition.machine.regs[NODES])
            self.size = size = max(_FIRST_SLICE, min(2 * self.size, _MOST_SLICE, _WORK // (nodes + 1)))
            streams = batch.stream if isinstance(batch.stream, int) else batch.stream[at : at + size]
            try:
                for _ in self.recognition.feed(EventBatch(batch.data.slice(at, size), streams)):
                    pass
                counted = self.recognition.counted
            except CeqlError as error:
                self.total, self.whole, self.failure = None, False, str(error)
                return
            self.whole = counted <= MOST_MATCHES
            self.total = min(counted, MOST_MATCHES)
            at += size


def ladder(plan: Plan, where: Where) -> list[Version]:
    """All versions of the query, ready to be fed."""
    found: list[Version] = []
    for clause, version in versions(plan):
        found.append(Version(clause, version, found[-1] if found else None, where))
    return found
