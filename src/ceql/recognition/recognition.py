"""A query at work on an ordered stream: batches in, matches out, state in between.

This is where the parts meet: symbols, windows, partitions, the machine, result columns. Everything that runs a query
(`Query.run`, the recogniser, the CLI, later Spark) goes through `Recognition.feed`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ceql.analysis.conditions import leaves
from ceql.automata.cache import TableCache
from ceql.automata.cea import CEA
from ceql.automata.subsets import Determinization, Plain, Rivalled, state_from_json, state_to_json
from ceql.engine.common.chunk import Chunk
from ceql.engine.states import layout as x
from ceql.engine.states.machine import Machine
from ceql.engine.states.replay import ReplayMachine
from ceql.errors import SchemaError, no_column
from ceql.io.partition_keys import PartitionKeys
from ceql.io.schemas import is_text
from ceql.io.sort_keys import bounds, encode
from ceql.io.sorted_runs import EventBatch
from ceql.jit import Array
from ceql.plan import Plan, UnaryPlan
from ceql.predicates.bind import Events
from ceql.predicates.symbols import Symbolizer, SymbolTable
from ceql.recognition.columns import Layout, to_batch
from ceql.recognition.options import Options
from ceql.recognition.snapshot import schema_from_text, schema_to_text
from ceql.recognition.window import bind_window
from ceql.syntax import tree as t

CONSUME = {t.Consume.NONE: 0, t.Consume.PARTITION: 1, t.Consume.ANY: 2}
_NO_LIMIT = 1 << 62


class Symbols(Protocol):
    """What turns batches into symbols: `predicates.symbols.Symbolizer`, or what reads symbols computed elsewhere."""

    def symbols(self, batch: pa.RecordBatch, streams: int | Array) -> Array: ...

    def relevant(self, batch: pa.RecordBatch, streams: int | Array) -> tuple[Array, Array]: ...


class Recognition:
    """The state of a query over a stream whose first schema is `schema`.

    `computed` makes the symbols' reader where the guards were decided elsewhere (in Spark's JVM); the events need no
    type then, nor the attributes that guards look at.
    """

    def __init__(
        self,
        plan: Plan,
        schema: pa.Schema,
        streams: Sequence[str | None],
        options: Options,
        open_schema: bool = False,
        mode: int = x.ENUMERATE,
        untyped: frozenset[int] = frozenset(),
        computed: Callable[[SymbolTable], Symbols] | None = None,
    ) -> None:
        self.plan = plan
        self.options = options
        self.streams = tuple(streams)
        self.open_schema = open_schema
        self.position = 0  # of the next event
        self.first_schema = schema
        self.untyped = untyped
        self.unfinished: x.Events | None = None
        self.type = _type_column(plan, schema, self.streams, options) if computed is None else None
        self.time = options.time_column(schema)
        self.table = SymbolTable()
        self._computed = computed
        self._bind(schema)
        if computed is None:
            self._check_selection(schema)
        self.window = bind_window(plan, schema, self.time, options, open_schema)
        parts = plan.partition
        self.keys = PartitionKeys(parts, schema, self.type, open_schema, plan.source, untyped) if parts else None
        self.layout = Layout(
            plan.columns,
            schema.field(self.time).type if self.time is not None else None,
            tuple(zip(self.keys.names, self.keys.shown_types, strict=True))[: len(plan.shown_keys)]
            if self.keys is not None
            else (),
        )
        self.mode = mode
        self.inspect: Callable[[x.Events, pa.RecordBatch], None] | None = None
        """Looks at events in order before they are recognised; what it raises leaves them unrecognised."""
        self.reused: list[int] = []  # partitions whose numbers the last batch used again
        self.skips = plan.skips_safely and not self.window.counts_all_rows
        self._ends: deque[tuple[int, int]] = deque()  # of batches: the position after the last event, and its time

    def _check_selection(self, schema: pa.Schema) -> None:
        for item in self.plan.query.items or ():
            for name in item.attributes:
                if name not in schema.names and not self.open_schema:
                    raise no_column(name, schema.names, self.plan.source, item.span)

    def needed_columns(self) -> list[str]:
        """The columns that recognition reads; the rest matter to `events()` alone."""
        names = {
            leaf.attribute if isinstance(leaf, t.Ref | t.Prev) else leaf.name
            for guard in self.plan.guards
            for p in guard.predicates
            for leaf in leaves(p)
        }
        names.update(self.keys.columns if self.keys is not None else ())
        names.update(name for name in (self.type, self.time, self.window.column) if name is not None)
        return sorted(names)

    def _bind(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.symbolizer: Symbols
        if self._computed is not None:
            self.symbolizer = self._computed(self.table)
            return
        events = Events(schema, self.open_schema, self.type, self.streams, self.untyped)
        self.symbolizer = Symbolizer(self.plan.guards, events, self.plan.source, self.table)

    @cached_property
    def machine(self) -> Machine:
        """The machine, made when the first events come: a result may be asked for its columns alone."""
        machine = self._make_machine()
        if self.keys is None:
            machine.room_for_partitions(1)
        return machine

    @property
    def _cea(self) -> CEA:
        assert isinstance(self.plan, UnaryPlan)
        return self.plan.cea

    @cached_property
    def label_masks(self) -> Array:
        """Which variables each label binds."""
        labels = Plain(self._cea, self.plan.query.distinct).names.labels
        masks: Array = np.zeros((max(1, len(labels)), len(self.plan.columns)), np.bool_)
        for k, label in enumerate(labels):
            masks[k] = [variable in label for variable in self.plan.columns]
        return masks

    @cached_property
    def pattern(self) -> Array | None:
        """The labels of every match, where all have the same."""
        labels = self._cea.pattern()
        if not labels:
            return None
        number = Plain(self._cea, self.plan.query.distinct).names.number
        return np.array([number(label) for label in labels], np.int32)

    def _make_machine(self) -> Machine:
        plan, options = self.plan, self.options
        cea, distinct = self._cea, plan.query.distinct
        limit = plan.limit
        settings = x.Settings(
            window=self.window.kind,
            width=self.window.width,
            exact=self.window.exact,
            mode=self.mode,
            limit=limit,
            quota=max(1024, 4 * limit) if limit else _NO_LIMIT,
            consume=CONSUME[plan.query.consume],
            log=False,
            labelled=self.pattern is None,
            emit_from=0,
        )
        timed = self.time is not None
        plain = Plain(cea, distinct)
        compare = plan.rivalry
        if compare is None:
            return Machine(self._cache(plain, self.table.bits_of), settings, timed, options.memory)
        start = 1 << len(cea.guards)
        rivalled = Rivalled(cea, distinct, compare, start)
        if plan.query.window is None:
            cache = self._cache(rivalled, lambda symbol: self.table.bits[symbol] | start)
            return Machine(cache, settings, timed, options.memory)
        choosing = self._cache(rivalled, lambda symbol: self.table.bits[symbol >> 1] | (start if symbol & 1 else 0))
        alone = settings._replace(window=x.W_GIVEN, exact=False, consume=0)
        chooser = Machine(choosing, alone, timed, options.memory)
        finding = settings._replace(mode=x.HAND_OVER, log=True)
        cache = self._cache(plain, self.table.bits_of)
        return ReplayMachine(cache, finding, timed, options.memory, chooser)

    def _cache(self, automaton: Determinization, bits_of: Any) -> TableCache:
        return TableCache(automaton, bits_of, self.options.max_states)

    # --- feeding ---

    def feed(self, batch: EventBatch) -> Iterator[pa.RecordBatch]:
        """Process events; matches come in record batches whenever the buffers are full."""
        self.unfinished = self._events(batch)
        if self.inspect is not None:
            self.inspect(self.unfinished, batch.data)
        yield from self._process(resume=False)

    def resume(self) -> Iterator[pa.RecordBatch]:
        """Go on with the batch that an exception (a limit, an interrupt) cut short."""
        if self.unfinished is not None:
            yield from self._process(resume=True)

    def _process(self, resume: bool) -> Iterator[pa.RecordBatch]:
        assert self.unfinished is not None
        yield from self._results(self.machine.feed(self.unfinished, resume))
        self.unfinished = None
        if self.keys is not None and self.machine.emptied:
            yield from self.flush()  # matches that wait in the buffer name their keys by number
            self._release()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The matches found since the last record batch."""
        yield from self._results(self.machine.flush())

    def compact(self, now: int | None = None) -> Iterator[pa.RecordBatch]:
        """Forget all that the window has left, idle substreams included; no event before the time `now` (its key)
        will come."""
        window = self.window
        if now is not None and window.kind == x.W_GIVEN and window.column is not None and window.column == self.time:
            assert window.type is not None
            assert window.size is not None
            lowest = int(bounds(np.array([now]), window.type, window.size)[0])
            self.machine.raise_horizon(lowest)
        yield from self.flush()
        if window.exact:
            return  # what is given up is given up for good, should the attribute fall; so only for want of memory
        self.machine.compact()
        self._release()
        self.oldest_position()  # forgets when batches ended

    def held(self) -> Array:
        """The positions of the events that a match from now on may name, ascending; to be asked after `compact`."""
        return self.machine.held()

    @property
    def is_idle(self) -> bool:
        """Whether no match is under way and the past is of no consequence, after `compact`."""
        counted = self.window.counts_all_rows or self.window.exact
        return not len(self.held()) and not counted and not self.machine.remembers

    @property
    def expires_at(self) -> int | None:
        """The key of the time at which the window will have left all events so far; None if it is not by time."""
        if self.window.kind != x.W_GIVEN or self.window.column != self.time or not self._ends:
            return None
        assert self.window.size is not None
        return self._ends[-1][1] + math.ceil(self.window.size) + 1

    def set_memory(self, memory: int) -> None:
        """Change the budget of the graph."""
        self.options = replace(self.options, memory=memory)
        self.machine.memory = memory
        if isinstance(self.machine, ReplayMachine):
            self.machine.chooser.memory = memory

    def oldest_position(self) -> int:
        """No match from now on names an event before this position."""
        oldest = self.machine.oldest_held()
        if self.window.kind == x.W_GIVEN and self.window.size is not None:
            if self.window.column is None:
                oldest = max(oldest, self.position - int(self.window.size))
            while self._ends and self._ends[0][1] < self.machine.horizon:
                oldest = max(oldest, self._ends.popleft()[0])
        self.machine.oldest = oldest
        return oldest

    @property
    def counted(self) -> int:
        """Count mode: the matches of all events so far."""
        list(self.machine.flush())
        return self.machine.counted

    def _events(self, batch: EventBatch) -> x.Events:
        data, streams = batch
        if not data.schema.equals(self.schema) and self.open_schema:
            self._bind(data.schema)
        rows: Array | None = None
        if self.skips:
            rows, symbols = self.symbolizer.relevant(data, streams)
        else:
            symbols = self.symbolizer.symbols(data, streams)
        self._room_for_symbols()
        first = self.position
        self.position += data.num_rows
        positions = rows + first if rows is not None else np.arange(first, self.position, dtype=np.int64)
        times: Array = np.zeros(0, np.int64)
        if self.time is not None:
            times = encode(data.column(data.schema.get_field_index(self.time)), self.time)
            if self.window.column == self.time and len(times):
                self._ends.append((self.position, int(times[-1])))
            times = times if rows is None else times[rows]
        keys, lowest = self.window.keys(data, rows, positions, times)
        partitions = self._partitions(data, streams, rows, len(symbols))
        # memory that Arrow lends is read-only, which would be another signature of the loop
        return x.Events(
            *(np.require(a, requirements=["C", "W"]) for a in (symbols, positions, partitions, keys, lowest, times))
        )

    def _room_for_symbols(self) -> None:
        caches = [self.machine.cache]
        if isinstance(self.machine, ReplayMachine):
            caches.append(self.machine.chooser.cache)
        for cache in caches:
            cache.room_for_symbols(2 * len(self.table.bits))

    def _partitions(self, data: pa.RecordBatch, streams: int | Array, rows: Array | None, count: int) -> Array:
        if self.keys is None:
            return np.zeros(count, np.int32)
        wanted = [c for c in self.keys.columns if c in data.schema.names]
        columns = data.select(wanted)
        if rows is not None:
            columns = columns.take(pa.array(rows))
            streams = streams if isinstance(streams, int) else streams[rows]
        numbers = self.keys.numbers(columns, streams, self.streams)
        self.machine.room_for_partitions(len(self.keys))
        self.reused, self.keys.reused = self.keys.reused, []
        if self.reused:
            self.machine.reuse_partitions(self.reused)
        return numbers

    def _release(self) -> None:
        """Forget the keys of partitions that a collection found empty and that are empty still."""
        machine = self.machine
        if self.keys is not None and machine.emptied:
            if not self.window.exact:  # of a forgotten key it would not be known where its attribute stood
                self.keys.release(machine.idle(np.array(machine.emptied)))
            machine.emptied = []

    # --- state ---

    def state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, pa.RecordBatch]]:
        """The state between two batches: a header for JSON, arrays, and tables (the partitions' keys).

        Partitions that hold nothing any more leave no trace in it: the others are numbered anew.
        """
        machine = self.machine
        arrays = machine.state()
        header = self._header() | {"states": [state_to_json(state) for state in machine.cache.states]}
        if self.keys is None:
            return header, arrays, {}
        used = self.keys.used
        header["partitions"] = len(used)
        for name in x.Partitions._fields:
            if name != "pool":
                arrays[f"parts.{name}"] = arrays[f"parts.{name}"][used]
        return header, arrays, {"keys": self.keys.state()}

    def _header(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "symbols": [hex(bits) for bits in self.table.bits],
            "schema": schema_to_text(self.schema),
            "ends": list(self._ends),
            "oldest": self.machine.oldest_held(),
            "partitions": 1,
        }

    def restore(self, header: dict[str, Any], arrays: dict[str, Array], tables: dict[str, pa.RecordBatch]) -> None:
        """Continue from a `state` of the same query."""
        self.position = header["position"]
        self.table.restore([int(bits, 16) for bits in header["symbols"]])
        self._bind(schema_from_text(header["schema"]))
        self._ends = deque((position, time) for position, time in header["ends"])
        self.machine.cache.restore([state_from_json(state) for state in header["states"]])
        self.machine.restore(arrays)
        self.machine.oldest = header["oldest"]
        if self.keys is not None and "keys" in tables:
            self.keys.restore(tables["keys"], header["partitions"])

    def _results(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            yield self._result(chunk)

    def _result(self, chunk: Chunk) -> pa.RecordBatch:
        key_columns = None
        if self.keys is not None:
            assert chunk.partition is not None
            numbers, rows = np.unique(chunk.partition, return_inverse=True)
            key_columns = self.keys.key_columns(numbers).select(range(len(self.layout.keys)))
            chunk = chunk._replace(partition=rows.astype(np.int32))
        return self._to_batch(chunk, key_columns)

    def _to_batch(self, chunk: Chunk, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        return to_batch(chunk, self.layout, self.label_masks, keys, self.pattern)


def _type_column(plan: Plan, schema: pa.Schema, streams: Sequence[str | None], options: Options) -> str | None:
    name = options.type_column(schema)
    if name is None:
        if all(stream is None for stream in streams):
            raise SchemaError(
                "the events have no type: there is no column 'type', and no stream is named; "
                f"pass type= (the columns are {', '.join(schema.names) or 'none'}) or write FROM"
            )
        return None
    kind = schema.field(name).type
    if not is_text(kind) and not pa.types.is_null(kind):
        raise SchemaError(f"the type column '{name}' must be text, not {kind}")
    return name
