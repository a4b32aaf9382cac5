"""A query at work on an ordered stream: batches in, matches out, state in between.

Here is what both loops share: symbols, positions, times, windows, partitions, the columns of the result, the state.
`unary` and `correlated` add the machine of their loop. Everything that runs a query goes through `Recognition.feed`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.engine.common.check import require
from ceql.engine.common.chunk import Chunk, substreams_of
from ceql.engine.common.layout import EVENT, NO_VALUES, W_GIVEN, Events
from ceql.engine.common.machine import NO_PARTITIONS, Machine
from ceql.engine.common.sharded import Sharded
from ceql.engine.common.shares import Shares
from ceql.engine.common.summing import Found, Summing
from ceql.io.shared_keys import QueryKeys
from ceql.io.sort_keys import bounds
from ceql.io.sorted_runs import ENDED, EventBatch
from ceql.jit import Array
from ceql.predicates.shared_symbols import SymbolReader
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.rows import RowStore
from ceql.recognition.snapshot import check_header, schema_from_text, schema_to_text
from ceql.syntax import tree as t

_MANY_KEYS = 1 << 16  # that have come since keys were looked through for those to forget
_SOME_KEYS = 1 << 14  # the same, where a collection has found some that are idle
_LEAST_MEMORY = 64 << 20  # that shards need, since each has buffers and room to spare
CONSUME = {t.Consume.NONE: 0, t.Consume.PARTITION: 1, t.Consume.ANY: 2}


class Recognition(ABC):
    """The state of a query over a stream."""

    may_pass_over = True  # whether nothing happens at events that satisfy no guard

    def __init__(self, bound: BoundPlan, counting: bool = False) -> None:
        self.bound = bound
        self.counting = counting
        self.position = 0  # of the next event
        self.schema = bound.schema
        self.learned = bound.learned()
        self.table, self.symbols = self.learned.table, self.learned.symbols
        own = bound.partition_keys()
        self.keys = bound.sharing.keys(own) if bound.sharing is not None and own is not None else own
        self._lagged = bound.lagged_events()
        self.unfinished: Events | None = None
        self.inspect: Callable[[Events, pa.RecordBatch], None] | None = None
        """Looks at events in order before they are recognised; what it raises leaves them unrecognised."""
        self.gather: Callable[[pa.RecordBatch, Callable[[Array], pa.RecordBatch]], None] | None = None
        """Takes matches as they are found, without measures, and what gives kept attributes at ascending positions."""
        self.gather_sums: Callable[[list[Found]], None] | None = None
        """Takes what is added up in place of matches."""
        self.before_batch: Callable[[], None] | None = None
        """Is called before the events of each batch are recognised."""
        self.reused: list[int] = []  # partitions whose numbers the last batch used again
        self._keys_kept = 0  # when they were last looked through
        self.enumerates = False  # whether matches must be enumerated even to be counted
        self.holds_back = False  # whether events may be held back until they are many: their end will come
        self._measures = None if counting or not bound.plan.query.measures else bound.measures
        self._keep_names: list[str] = [*(self._measures.attributes if self._measures is not None else ())]
        self._kept: RowStore | None = None
        """The rows that a match may still ask for, of the columns `_keep_names`."""
        self._ends: deque[tuple[int, int]] = deque()  # of batches: the position after the last event, and its time

    @property
    @abstractmethod
    def machine(self) -> Machine | Sharded[Any]:
        """The machine of this loop, made when the first events come."""

    @abstractmethod
    def _divide(self) -> None:
        """Go on with shards of the machine."""

    def _for_machine(self, events: Events, data: pa.RecordBatch, rows: Array | None) -> Events:
        """The events as the machine takes them, which are these rows of a batch (all, when None)."""
        return events

    @abstractmethod
    def _room_for_symbols(self) -> None:
        """Prepare the machine for symbols that are new."""

    @abstractmethod
    def _to_batch(self, chunk: Chunk, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        """Matches as a record batch; row p of `keys` has the keys of partition p."""

    def _bind(self, schema: pa.Schema) -> None:
        """Read columns of this schema from now on."""
        self.schema = schema
        self.symbols = self.bound.symbols(schema, self.table)

    # --- rows that matches ask for ---

    def _keep_rows(self, names: list[str], schema: pa.Schema) -> None:
        """Keep these columns of rows of this schema, besides those that measures read."""
        self._keep_names = list(dict.fromkeys([*names, *self._keep_names]))
        self._keepable = schema
        kept = [schema.field(name) for name in self._keep_names if name in schema.names]
        self._kept = RowStore(pa.schema(kept)) if self._keep_names else None

    def keep_also(self, names: Sequence[str]) -> None:
        """Keep further columns, before the first event comes."""
        self._keep_rows([*self._keep_names, *names], self._keepable)

    def _rows_to_keep(self, data: pa.RecordBatch, events: Events, rows: Array | None) -> pa.RecordBatch:
        """The columns of a batch that are kept; `rows` are those of the events."""
        columns = {name: data.column(name) for name in self._keep_names if name in data.schema.names}
        return pa.record_batch(columns or {"": pa.nulls(data.num_rows)})

    def values_at(self, positions: Array) -> pa.RecordBatch:
        if self._kept is None:
            return pa.record_batch({"": pa.nulls(len(positions))})
        return self._kept.batch_at(positions)

    def _give_up(self) -> None:
        """Give up what the window has left. If it measures an attribute that falls, it asks for what was given up: then
        only a lack of memory gives anything up."""
        if not self.bound.window.exact or self.bound.by_clock:
            self.machine.compact()
            if self.bound.by_clock:
                self.machine.forget_floors()
            self._release()
        if self._kept is not None:
            self._kept.keep(self.held())

    # --- totals ---

    @property
    @abstractmethod
    def sums(self) -> bool:
        """Whether the graph tells all that totals need, so that no match need be enumerated for them."""

    @property
    @abstractmethod
    def label_masks(self) -> Array:
        """Which variables are bound to the event of a node with each label or mark."""

    def use_sums(self, make: Callable[[], Summing] | None) -> None:
        """Add up the matches of positions that have very many from now on, or enumerate all again."""
        for machine in getattr(self.machine, "machines", [self.machine]):
            machine.sum_up(make() if make is not None and self.sums else None)

    def _take_sums(self) -> None:
        if self.gather_sums is not None and (found := self.machine.take_sums()):
            self.gather_sums(found)

    # --- feeding ---

    def feed(self, batch: EventBatch) -> Iterator[pa.RecordBatch]:
        """Process events; matches come in record batches whenever the buffers are full."""
        if not self._passes_over(batch):
            self.unfinished = self.read(batch)
            yield from self._process(resume=False)
        if batch.until is not None:
            yield from self.finish() if batch.until == ENDED else self.advance(batch.until)

    def _passes_over(self, batch: EventBatch) -> bool:
        """Let events pass that are known to be of no concern, where several queries decide their guards together."""
        data = batch.data
        if not self.bound.skips or self._kept is not None or self.before_batch is not None:
            return False
        if not (self.may_pass_over and data.num_rows and data.schema.equals(self.schema)):
            return False
        if not isinstance(self.symbols, SymbolReader) or self.symbols.concerns(data, batch.stream):
            return False
        self.position += data.num_rows
        time, window = self.bound.time, self.bound.window
        if self.bound.by_time:
            assert time is not None
            self._ends.append((self.position, int(batch.keys(time)[-1]) + window.shift))
        return True

    def read(self, batch: EventBatch) -> Events:
        """The events as the machine takes them, after they were inspected. Unless they are fed, they just pass."""
        events = self._events(batch)
        if self.inspect is not None:
            self.inspect(events, batch.data)
        return events

    def resume(self) -> Iterator[pa.RecordBatch]:
        """Go on with the batch whose matches were not read to their end; some of them may come again."""
        if self.unfinished is not None:
            yield from self._process(resume=True)

    def _process(self, resume: bool) -> Iterator[pa.RecordBatch]:
        assert self.unfinished is not None
        if self.before_batch is not None:
            self.before_batch()
        yield from self._results(self._feed_machine(self.unfinished, resume))
        self._take_sums()
        self.unfinished = None
        if self.keys is not None and self._may_release and self.keys.known > 2 * self._keys_kept + _MANY_KEYS:
            # partitions that never held anything fill no memory, so that no collection finds them
            self.machine.emptied = self.machine.idle(np.arange(self.machine.partitions))
        if self.keys is not None and self._may_release and self._releases and len(self.machine.emptied):
            yield from self.flush()  # matches in the buffer name their keys by number, which is about to be given again
            self._release()
        if self._kept is not None and self._kept.are_many:
            yield from self.flush()  # matches in the buffer ask for their rows
            self._give_up()

    def _feed_machine(self, events: Events, resume: bool) -> Iterator[Chunk]:
        yield from self.machine.feed(events, resume)
        if isinstance(self.machine, Machine) and self.machine.outgrown:
            yield from self.machine.flush()
            self._take_sums()
            at = int(self.machine.regs[EVENT])
            self._divide()
            self.unfinished = Events(*(array[at:] for array in events))
            yield from self.machine.feed(self.unfinished)

    @property
    def _buffers(self) -> dict[str, int]:
        """What there is room for at first. One of many queries seldom has many matches at once; of the rest, memory is
        taken as it is used, and collecting takes time."""
        return {} if self.bound.sharing is None else {"matches": 1 << 12, "positions": 1 << 14, "nodes": 1 << 14}

    @property
    def _has_room(self) -> bool:
        """Whether the budget is large enough to divide it."""
        return self.bound.options.memory >= _LEAST_MEMORY

    def _shares(self) -> Shares | None:
        """The shards' substreams, where the stream is split."""
        return None if self.keys is None else Shares(self.keys.hashes, self.keys.used)

    def leave(self) -> None:
        """Say that this recognition is over: what it has learned is for the next one."""
        if self.schema is self.bound.schema:
            self.bound.leave(self.learned)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The matches found since the last record batch."""
        yield from self._results(self.machine.flush())

    def advance(self, now: int) -> Iterator[pa.RecordBatch]:
        """The matches that are decided because no event before the time `now` (its key) will come."""
        yield from ()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The matches that are left, once no event will come."""
        yield from self.flush()

    def mute(self, on: bool, count: bool = False) -> None:
        """Look for no matches from now on, or look for them again; those that wait in the buffers are dropped.

        With `count`, they are counted meanwhile (`muted_count`). Where they must be enumerated even to be counted, they
        come out all the same.
        """
        if not self.enumerates:
            self.machine.mute(on, count)

    @property
    def muted_count(self) -> int:
        """The matches that were counted, after `flush`, since `mute`."""
        return 0 if self.enumerates else self.machine.counted

    def compact(self, now: int | None = None) -> Iterator[pa.RecordBatch]:
        """Forget all that the window has left, idle substreams included; no event before the time `now` (its key)
        will come."""
        window = self.bound.window
        if now is not None and (self.bound.by_time or self.bound.by_clock):
            assert window.type is not None
            assert window.size is not None
            self.machine.raise_horizon(int(bounds(np.array([now + window.shift]), window.type, window.size)[0]))
        yield from self.flush()
        self._give_up()
        if not window.exact or self.bound.by_clock:
            self.oldest_position()  # also forgets the ends of batches that the window has left

    def held(self) -> Array:
        """The positions of the events that a match from now on may name, ascending; to be asked after `compact`."""
        return self.machine.held()

    @property
    def is_idle(self) -> bool:
        """Whether no match is under way and the past is of no consequence, after `compact`."""
        counted = self.bound.window.counts_all_rows or (self.bound.window.exact and not self.bound.by_clock)
        return not (len(self.held()) or counted or self.machine.remembers or len(self._busy()))

    @property
    def expires_at(self) -> int | None:
        """The key of the time at which the window will have left all events so far; None if it is not by time."""
        if not self._ends or not self.bound.by_time:
            return None
        assert self.bound.window.size is not None
        return self._ends[-1][1] - self.bound.window.shift + math.ceil(self.bound.window.size) + 1

    @property
    def keys_bytes(self) -> int:
        """The memory of keys and other values that have numbers."""
        lagged = self._lagged.nbytes if self._lagged is not None else 0
        return lagged + (self.keys.nbytes if self.keys is not None else 0)

    @property
    def rows_bytes(self) -> int:
        """The memory of the rows that conditions, measures and absences ask for."""
        return self._kept.nbytes if self._kept is not None else 0

    @property
    def used(self) -> int:
        """The memory of partial matches, and of matches that wait until they are decided."""
        return self.machine.used

    def measures(self) -> dict[str, int]:
        """Metrics by name."""
        found: Counter[str] = Counter()
        for machine in getattr(self.machine, "machines", [self.machine]):
            found.update(machine.measures())
        found.update(symbols=len(self.table.bits), memory_keys=self.keys_bytes, memory_asked=self.rows_bytes)
        return dict(found)

    def set_memory(self, memory: int) -> None:
        """Change the budget of the graph."""
        self.machine.memory = memory

    def oldest_position(self) -> int:
        """No match from now on names an event before this position."""
        oldest, window = self.machine.oldest_held(), self.bound.window
        if window.kind == W_GIVEN and window.size is not None:
            if window.column is None:
                oldest = max(oldest, self.position - int(window.size))
            while self._ends and self._ends[0][1] < self.machine.horizon:
                oldest = max(oldest, self._ends.popleft()[0])
        self.machine.oldest = oldest
        return oldest

    @property
    def counted(self) -> int:
        """When counting: the matches of all events so far."""
        list(self.machine.flush())
        return self.machine.counted

    def _events(self, batch: EventBatch) -> Events:
        data, streams = batch.data, batch.stream
        if batch.skipped:
            self.position += batch.skipped
            if self._kept is not None:
                self._kept.skip(batch.skipped)
        if not data.schema.equals(self.schema) and self.bound.open_schema:
            self._bind(data.schema)
        rows: Array | None = None
        partitions: Array | None = None
        if self.bound.skips:
            rows, symbols = self.symbols.relevant(data, streams)
        elif self._lagged is not None:
            partitions = self._partitions(data, streams, None, data.num_rows)
            count = len(self.keys) if self.keys is not None else 1
            symbols = self.symbols.symbols(self._lagged.extended(data, partitions, count), streams)
        else:
            symbols = self.symbols.symbols(data, streams)
        self._room_for_symbols()
        first = self.position
        self.position += data.num_rows
        positions = rows + first if rows is not None else np.arange(first, self.position, dtype=np.int64)
        times: Array = np.zeros(0, np.int64)
        time, window = self.bound.time, self.bound.window
        if time is not None:
            times = batch.keys(time)
            if self.bound.by_time and len(times):
                self._ends.append((self.position, int(times[-1]) + window.shift))
            times = times if rows is None else times[rows]
        keys, lowest = window.keys(data, rows, positions, times)
        if partitions is None:
            partitions = self._partitions(data, streams, rows, len(symbols))
        # the kernels are compiled for arrays that can be written to, and those that Arrow lends cannot
        arrays = (symbols, positions, partitions, keys, lowest, times, NO_VALUES)
        events = Events(*(array if array.flags.carray else np.require(array, None, ["C", "W"]) for array in arrays))
        if self._kept is not None:
            self._kept.add(self._rows_to_keep(data, events, rows))
        return self._for_machine(events, data, rows)

    def _partitions(self, data: pa.RecordBatch, streams: int | Array, rows: Array | None, count: int) -> Array:
        if self.keys is None:
            return np.zeros(count, np.int32)
        if isinstance(self.keys, QueryKeys):
            numbers = self.keys.numbers_at(data, streams, rows)
        else:
            columns = data.select([c for c in self.keys.columns if c in data.schema.names])
            if rows is not None:
                columns = columns.take(pa.array(rows))
                streams = streams if isinstance(streams, int) else streams[rows]
            numbers = self.keys.numbers(columns, streams, self.bound.streams)
        self.machine.room_for_partitions(len(self.keys))
        self.reused, self.keys.reused = self.keys.reused, []
        if self.reused:
            self.machine.reuse_partitions(self.reused)
        return numbers

    @property
    def _may_release(self) -> bool:
        """Whether nothing but the machine names substreams by number."""
        return True

    @property
    def _releases(self) -> bool:
        """Whether it is worth while to forget keys: once they are many. Most that are idle now come again, and would
        have to be numbered anew."""
        assert self.keys is not None
        return self.keys.known > 2 * self._keys_kept + _SOME_KEYS

    def _release(self) -> None:
        """Forget the keys of partitions that a collection found empty and that are empty still."""
        machine = self.machine
        if self.keys is not None and len(machine.emptied):
            idle = np.setdiff1d(machine.forgettable(machine.emptied), self._busy(), assume_unique=True)
            self.keys.release(idle)
            if self._lagged is not None:
                self._lagged.forget(idle)
            machine.emptied = NO_PARTITIONS
            self._keys_kept = self.keys.known

    def _busy(self) -> Array:
        """Substreams without partial matches whose past matters all the same."""
        return np.zeros(0, np.int64)

    def _results(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        return map(self._result, chunks)

    def _result(self, chunk: Chunk) -> pa.RecordBatch:
        key_columns = None
        if self.keys is not None:
            assert chunk.partition is not None
            numbers, rows = substreams_of(chunk)
            key_columns = self.keys.key_columns(numbers).select(range(len(self.bound.result.keys)))
            chunk = chunk._replace(partition=rows)
        batch = self._to_batch(chunk, key_columns)
        if self.gather is not None:
            self.gather(batch, self.values_at)
            return batch
        if self._measures is None:
            return batch
        return self.bound.result.with_measures(batch, self._measures.calculate(batch, self.values_at))

    # --- state ---

    def state(self) -> tuple[dict[str, Any], dict[str, Array], dict[str, pa.RecordBatch]]:
        """The state between two batches: a header for JSON, arrays, and tables (the partitions' keys).

        Partitions that hold nothing any more leave no trace in it: the others are numbered anew.
        """
        used = self.keys.used if self.keys is not None else None
        arrays = self.machine.state(used)
        tables: dict[str, pa.RecordBatch] = {}
        header = {
            "position": self.position,
            "symbols": [hex(bits) for bits in self.table.bits],
            "schema": schema_to_text(self.schema),
            "ends": list(self._ends),
            "oldest": self.machine.oldest_held(),
            "partitions": 1,
        }
        if self.keys is not None:
            header["partitions"] = len(self.keys.used)
            tables["keys"] = self.keys.state()
        if self._lagged is not None:
            last, rows = self._lagged.state(used if used is not None else np.zeros(1, np.int64))
            arrays, tables = {**arrays, **last}, {**tables, **rows}
        if self._kept is not None:
            positions = self.held()
            positions = positions[positions >= self._kept.first]
            tables["kept"] = self.values_at(positions)
            arrays["kept"] = positions
        return header, arrays, tables

    def restore(self, header: dict[str, Any], arrays: dict[str, Array], tables: dict[str, pa.RecordBatch]) -> None:
        """Continue from a `state` of the same query; one that makes no sense is refused, with a `DataError`."""
        check_header(header)
        self.position = header["position"]
        self.table.restore([int(bits, 16) for bits in header["symbols"]])
        self._bind(schema_from_text(header["schema"]))
        self._ends = deque((position, time) for position, time in header["ends"])
        self._restore_machine(header, arrays)
        require(self.machine.partitions == header["partitions"], "the partitions are not as many as it says")
        self.machine.oldest = header["oldest"]
        require((self.keys is not None) == ("keys" in tables), "it has keys of partitions, or lacks them")
        if self.keys is not None:
            self.keys.restore(tables["keys"], header["partitions"])
        if self._lagged is not None:
            self._lagged.restore(arrays, tables, header["partitions"])
        if self._kept is not None:
            self._kept.restore(arrays["kept"], tables["kept"], self.position)

    def begin_at(self, position: int) -> None:
        """Begin with the event at this position: those before are of no consequence."""
        self.position = position
        if self._kept is not None:
            self._kept.skip(position)

    @abstractmethod
    def _restore_machine(self, header: dict[str, Any], arrays: dict[str, Array]) -> None: ...
