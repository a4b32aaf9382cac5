"""Several queries at work on one ordered stream: batches in, the matches of all queries out.

The guards of all queries are decided together (`predicates.shared_symbols`). Each query has a recognition of its own,
which gets the events that concern it. The matches of a batch come in rounds: in each round the queries' matches are
taken up to the same place of the stream, so that no query's matches must be held until the others have found theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ceql.errors import naming
from ceql.io.partition_keys import PartitionKeys
from ceql.io.shared_keys import QueryKeys, SharedKeys
from ceql.io.sorted_runs import EventBatch
from ceql.jit import Array
from ceql.plans import Plan
from ceql.predicates.bind import InputSchema, bind_together
from ceql.predicates.shared_symbols import SharedGuards
from ceql.predicates.symbols import SymbolTable
from ceql.recognition.bound_plan import BoundPlan, Sharing, Symbols
from ceql.recognition.frame import Recognition

Bind = Callable[[Plan, Sharing | None], BoundPlan]


class Round(NamedTuple):
    """Matches that belong together."""

    found: list[tuple[int, pa.RecordBatch]]
    """A batch for some of the queries, by number."""
    order: Array | None = None
    """The order in which the rows of the batches, one after the other, come; None where that is as they stand."""

    @property
    def size(self) -> int:
        """How many matches there are."""
        return sum(batch.num_rows for _, batch in self.found)

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return sum(batch.nbytes for _, batch in self.found)


def bound_together(plans: Mapping[str, Plan], bind: Bind) -> list[BoundPlan]:
    """The plans, bound to the same events by `bind`, which is given what they share. Errors name the query, if it
    has a name."""
    if len(plans) == 1:
        ((name, plan),) = plans.items()
        with naming(name) if name else nullcontext():
            return [bind(plan, None)]
    return _Together(plans, bind).bounds


def needed_columns(bounds: Sequence[BoundPlan]) -> list[str]:
    """The columns that recognition reads."""
    return sorted({name for bound in bounds for name in bound.needed_columns()})


class _Together:
    """Plans that are bound to the same events, and read types, conditions and keys together."""

    def __init__(self, plans: Mapping[str, Plan], bind: Bind) -> None:
        self._names = tuple(plans)
        self._guards: tuple[pa.Schema, SharedGuards] | None = None
        self._keys: dict[object, SharedKeys] = {}
        self.bounds: list[BoundPlan] = []
        for number, plan in enumerate(plans.values()):
            with naming(self._names[number]):
                self.bounds.append(bind(plan, Share(self, number)))
        self.guards_over(self.bounds[0].schema)  # for its errors

    def guards_over(self, schema: pa.Schema) -> SharedGuards:
        """The guards of all queries over columns of this schema."""
        if self._guards is None or not self._guards[0].equals(schema):
            first = self.bounds[0]
            events = InputSchema(first.with_unit(schema), first.open_schema, first.type, first.streams, first.untyped)
            # lags are columns of a query's own substreams
            queries = [(() if bound.plan.lags else bound.plan.guards, bound.plan.source) for bound in self.bounds]
            self._guards = schema, SharedGuards(bind_together(queries, events, self._naming))
        return self._guards[1]

    def forget(self) -> None:
        self._keys = {}
        if self._guards is not None:
            self._guards[1].forget()

    def _naming(self, number: int) -> AbstractContextManager[None]:
        return naming(self._names[number])

    def keys_like(self, own: PartitionKeys, bound: BoundPlan) -> SharedKeys:
        """The keys that queries share which split the stream by the same."""
        alike = tuple(own.parts), tuple(own.types), own.type_column
        if alike not in self._keys:

            def make() -> PartitionKeys:
                keys = bound.partition_keys()
                assert keys is not None
                return keys

            self._keys[alike] = SharedKeys(make, self._concerned, bound.streams)
        return self._keys[alike]

    def _concerned(self, batch: pa.RecordBatch, streams: int | Array) -> Array:
        assert self._guards is not None
        return self._guards[1].concerned(batch, streams)


class Share:
    """What one of the queries shares with the others (`recognition.bound_plan.Sharing`)."""

    def __init__(self, together: _Together, number: int) -> None:
        self._together = together
        self._number = number

    def symbols(self, schema: pa.Schema, table: SymbolTable) -> Symbols | None:
        return self._together.guards_over(schema).reader(self._number, table)

    def keys(self, own: PartitionKeys) -> QueryKeys:
        return self._together.keys_like(own, self._together.bounds[self._number]).query()

    def forget(self) -> None:
        """Let go of all events, for all queries: what comes next is another stream."""
        self._together.forget()


def rounds(recognitions: Sequence[Recognition], batch: EventBatch, flush: bool) -> Iterator[Round]:
    """Feed a batch to all; its matches, in order of where they end (queries with NOT at the end: are decided).

    Matches of a single query may wait for later batches, unless `flush` asks for them.
    """
    if len(recognitions) > 1:
        return in_rounds([_fed(recognition, batch, True) for recognition in recognitions])
    return (Round([(0, found)]) for found in _fed(recognitions[0], batch, flush))


def _fed(recognition: Recognition, batch: EventBatch, flush: bool) -> Iterator[pa.RecordBatch]:
    yield from recognition.feed(batch)
    if flush:
        yield from recognition.flush()


def in_rounds(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[Round]:
    """Matches of several queries, each in its own order, side by side.

    A round ends with the last match of the query that has come least far: what this query finds next comes after it.
    """
    if len(streams) == 1:
        yield from (Round([(0, batch)]) for batch in streams[0])
        return
    here: dict[int, pa.RecordBatch] = {}
    waiting = dict(enumerate(streams))
    while True:
        for number in [number for number in waiting if number not in here]:
            batch = next((found for found in waiting[number] if found.num_rows), None)
            if batch is None:
                del waiting[number]
            else:
                here[number] = batch
        if not here:
            return
        ends = {number: _reached(batch) for number, batch in here.items()}
        least = min(((int(ends[number][-1]), number) for number in waiting), default=None)
        found: list[tuple[int, pa.RecordBatch]] = []
        for number in sorted(here):
            batch = here[number]
            count = batch.num_rows
            if least is not None:
                count = int(np.searchsorted(ends[number], least[0], "right" if number <= least[1] else "left"))
            if count:
                found.append((number, batch.slice(0, count)))
            if count == batch.num_rows:
                del here[number]
            else:
                here[number] = batch.slice(count)
        yield merged(found)


def _reached(batch: pa.RecordBatch) -> Array:
    """Of each match, how far the query has come with it; matches that waited to be decided may end earlier."""
    return np.asarray(np.maximum.accumulate(batch.column("end").to_numpy()))


def merged(found: list[tuple[int, pa.RecordBatch]]) -> Round:
    """The matches of a round. Of those that end at the same place, those of the query that is first come first."""
    if len(found) == 1:
        return Round(found)
    return Round(found, np.argsort(np.concatenate([_reached(batch) for _, batch in found]), kind="stable"))
