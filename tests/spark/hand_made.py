"""A stream without Spark: rows shipped by hand, buckets updated as the stateful operator does it.

A few lines stand for what Spark does around `BucketUpdate`: rows are hashed into buckets, a micro-batch brings each
bucket its blobs, states are bytes between any two updates, timers fire when the watermark reaches them. So thousands
of micro-batches take no longer than one of Spark's.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from hypothesis import assume
from pyspark.sql.types import StructType

import generators
import paths
import ways
from ceql.analysis.neighbours import lags_in
from ceql.io.schemas import unify_schemas
from ceql.predicates.symbols import Symbolizer, SymbolTable
from ceql.recognition.bound_plan import BoundPlan, compared_attributes
from ceql.recognition.options import Options
from ceql.recognition.snapshot import schema_to_text
from ceql.spark.bucket import Bucket, CheckpointTerms
from ceql.spark.extras import LATE
from ceql.spark.packing import BUCKET, DATA, SEAL, Packing, pack
from ceql.spark.streaming import BucketUpdate, unpacker
from ceql.spark.task_spec import (
    BITS,
    ORDER,
    STREAM,
    TIME,
    SetSpec,
    TaskSpec,
    attribute_column,
    bits_column,
    key_column,
)
from ceql.syntax import tree as t
from ceql.syntax.absence import trailing
from ceql.syntax.printer import print_query

FAR = ways.EPOCH + 10**9  # a watermark that has passed everything
MOST = 12  # events of a set: the candidates of some queries are as many as there are choices among them
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class Shipped:
    """An example's rows as the JVM would ship them, in order of time; `bucket` is the first column."""

    example: ways.Example
    spec: TaskSpec | SetSpec
    terms: CheckpointTerms
    rows: pa.RecordBatch

    @property
    def stamps(self) -> list[int]:
        """The rows' times in milliseconds."""
        return [value // 1000 for value in self.rows.column(TIME).cast(pa.int64()).to_pylist()]


def ship(
    example: ways.Example,
    buckets: int = 2,
    exact: float = 0.0,
    seed: int = 0,
    ids: bool = True,
    others: Sequence[ways.Example] = (),
) -> Shipped:
    """The rows of an example, with about this part of the guards decided before Python sees them.

    There is all that queries of `others`, which have the same events and keys, need as well.
    """
    draw = random.Random(seed)
    plan = example.query.plan
    streams = list(example.tables.items())
    several = len(streams) > 1
    options = Options(example.options["type"], ways.STAMP)
    streams = [(name, _stamped(table, example)) for name, table in streams]
    schema = unify_schemas([table.schema for _, table in streams])
    untyped = options.untyped([table.schema for _, table in streams])
    names = plan.query.streams or (None,)
    bound = BoundPlan(plan, schema, tuple(names), options, untyped=untyped)
    guards = range(len(plan.guards))
    decided = tuple(k for k in guards if draw.random() < exact and not lags_in(plan.guards[k].predicates))
    shown = (ways.POSITION,) if ids else tuple(schema.names)
    bounds = [bound, *(BoundPlan(o.query.plan, schema, tuple(names), options, untyped=untyped) for o in others)]
    needed = dict.fromkeys(name for own in bounds for name in own.needed_columns())
    reads = tuple(name for name in needed if name not in (ways.STAMP, ways.POSITION))
    undecided = tuple(k for k in guards if k not in decided)
    windows = [own.plan.query.window for own in bounds]
    measured = {window.attribute for window in windows if isinstance(window, t.AttributeWindow)}
    spec = TaskSpec(
        query=plan.source,
        options=options,
        attributes=tuple(dict.fromkeys([*shown, *reads, *sorted(measured)])),
        keys=tuple(name for name, _ in bound.result.keys),
        key_columns=tuple(map(key_column, range(len(plan.partition)))),
        compared=compared_attributes(plan),
        shown=shown,
        ids=ids,
        exact=decided,
        undecided=undecided,
        schema=schema_to_text(pa.schema([schema.field(name) for name in reads])),
        type=bound.type,
        streams=tuple(names),
        untyped=untyped,
        ordered_by=(ways.POSITION,),
    )
    division = buckets if plan.partition and plan.query.consume is not t.Consume.ANY else 1
    terms = CheckpointTerms(
        fingerprint=plan.fingerprint,
        query=plan.source,
        buckets=division,
        type=options.type,
        time=options.time,
        order_by=spec.ordered_by,
        shown=shown,
        order=(TIME, *([STREAM] if several else ()), "o_0"),
    )
    drops = bound.skips and not plan.counts_events and not undecided and not others
    tables = [pa.table({n: _column(table, n, schema) for n in schema.names}) for _, table in streams]
    pieces = [_ship_one(table, k, bound, spec, drops, several) for k, table in enumerate(tables)]
    whole = pa.concat_tables(pieces).sort_by([(name, "ascending") for name in terms.order]).combine_chunks()
    keys = list(zip(*(whole[key_column(k)].to_pylist() for k in range(len(plan.partition))), strict=True))
    of = [crc32(repr(key).encode()) % division for key in keys] if division > 1 else [0] * whole.num_rows
    whole = whole.add_column(0, BUCKET, pa.array(of, pa.int32()))
    batches = whole.to_batches()
    return Shipped(example, spec, terms, batches[0] if batches else _empty(whole.schema))


def ship_together(examples: Sequence[ways.Example], buckets: int, ids: bool) -> Shipped:
    """The rows of examples with the same events and keys, as they are shipped for a set of their queries.

    The name of a query is its number.
    """
    whole = ship(examples[0], buckets, ids=ids, others=examples[1:])
    assert isinstance(whole.spec, TaskSpec)
    specs, keys = [], dict[str, pa.DataType]()
    for example in examples:
        plan = example.query.plan
        shown = tuple(part.refs[0].attribute for part in plan.shown_keys)
        kinds = (whole.rows.schema.field(key_column(k)).type for k in range(len(shown)))
        keys |= zip(shown, kinds, strict=True)
        specs.append(
            replace(
                whole.spec,
                query=plan.source,
                keys=shown,
                compared=compared_attributes(plan),
                undecided=tuple(range(len(plan.guards))),
            )
        )
    names = tuple(map(str, range(len(examples))))
    terms = replace(whole.terms, fingerprint="set", queries=tuple((name, "", "") for name in names))
    return replace(whole, spec=SetSpec(names, tuple(specs), tuple(keys.items())), terms=terms)


def only(shipped: Shipped, names: Collection[str]) -> Shipped:
    """The same rows for these queries of a set alone."""
    spec, terms = shipped.spec, shipped.terms
    assert isinstance(spec, SetSpec)
    kept = replace(
        spec,
        names=tuple(name for name in spec.names if name in names),
        specs=tuple(own for name, own in zip(spec.names, spec.specs, strict=True) if name in names),
    )
    queries = tuple(query for query in terms.queries if query[0] in names)
    return replace(shipped, spec=kept, terms=replace(terms, fingerprint=repr(sorted(names)), queries=queries))


def reads_plain_times(example: ways.Example) -> bool:
    """Whether conditions read a time column of plain numbers as times: the times of a stream are timestamps."""
    return re.search(rf"\b{example.options['time']}\b", example.query.plan.source) is not None


def _stamped(table: pa.Table, example: ways.Example) -> pa.Table:
    """The table with its times as timestamps, whatever unit the example counts in."""
    time, unit = example.options["time"], example.options["time_unit"]
    if time == ways.POSITION or unit == "ms":
        return table
    stamps = [ways.EPOCH * 1000 + _MICROSECONDS[unit] * value for value in table[time].to_pylist()]
    index = table.schema.get_field_index(ways.STAMP)
    return table.set_column(index, ways.STAMP, pa.array(stamps, pa.timestamp("us", "UTC")))


def expected(example: ways.Example) -> Counter[str]:
    """What the engine finds, its events named by their column `pos`."""
    time = example.options["time"]
    order = [
        (when, stream, position)
        for stream, table in enumerate(example.tables.values())
        for when, position in zip(table[time].to_pylist(), table[ways.POSITION].to_pylist(), strict=True)
    ]
    place = [position for *_, position in sorted(order)]
    return Counter(
        ways._canonical(
            [place[p] for p in m.events],
            {name: [place[p] for p in own] for name, own in m.bindings.items()},
            None,
            None,
            m.partition,
        )
        for m in example.query.run(example.input, **example.options)
    )


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _column(table: pa.Table, name: str, schema: pa.Schema) -> pa.ChunkedArray | pa.Array:
    kind = schema.field(name).type
    return table[name].cast(kind) if name in table.schema.names else pa.nulls(table.num_rows, kind)


def _ship_one(table: pa.Table, number: int, bound: BoundPlan, spec: TaskSpec, drops: bool, several: bool) -> pa.Table:
    table = table.combine_chunks()
    batch = table.to_batches()[0] if table.num_rows else _empty(table.schema)
    known = SymbolTable()
    symbols = Symbolizer(bound.guards, known).symbols(batch, number)
    bits = [known.bits_of(symbol) for symbol in symbols.tolist()]
    columns: dict[str, Any] = {TIME: table[ways.STAMP]}
    for word in range(len(spec.bit_columns)):
        mine = spec.exact[word * BITS : (word + 1) * BITS]
        packed = [sum((own >> guard & 1) << place for place, guard in enumerate(mine)) for own in bits]
        columns[bits_column(word)] = pa.array(packed, pa.int64())
    events = table.to_pylist()
    wanted = [own != 0 or not drops for own in bits]
    for k, part in enumerate(bound.plan.partition):
        values = [key_of(part, event, _type(event, number, bound)) for event in events]
        kind = bound.keys[k][1]
        as_float = pa.types.is_floating(kind)
        columns[key_column(k)] = pa.array([float(v) if as_float and v is not None else v for v in values], kind)
        wanted = [one and value is not None for one, value in zip(wanted, values, strict=True)]
    if several:
        columns[STREAM] = pa.array([number] * table.num_rows, pa.int32())
    columns[ORDER] = columns["o_0"] = table[ways.POSITION]
    for name in spec.attributes:
        columns[attribute_column(name)] = table[name]
    return pa.table(columns).filter(pa.array(wanted, pa.bool_()))


def _type(event: dict[str, Any], number: int, bound: BoundPlan) -> str | None:
    if bound.type is None or number in bound.untyped:
        return bound.streams[number]
    kind = event[bound.type]
    return None if kind is None else str(kind)


def key_of(part: t.Part, event: dict[str, Any], kind: str | None) -> Any:
    """The value of a part of the PARTITION BY clause; None where the event belongs to no substream."""
    values = [event.get(ref.attribute) for ref in part.refs if ref.name is None or ref.name == kind]
    if not values or any(v is None or (isinstance(v, float) and math.isnan(v)) for v in values):
        return None
    if any(v != values[0] for v in values):
        return None
    return values[0] + 0.0 if isinstance(values[0], float) else values[0]


@dataclass
class Operator:
    """Stands for Spark's stateful operator: states and timers by bucket."""

    shipped: Shipped
    states: dict[int, bytes] = field(default_factory=dict)
    timers: dict[int, int] = field(default_factory=dict)
    found: Counter[str] = field(default_factory=Counter)
    late: list[int] = field(default_factory=list)

    def micro_batch(self, rows: Sequence[int], clock: int) -> None:
        """These rows arrive; `clock` is the watermark in milliseconds."""
        arrived = defaultdict(list)
        division = Packing.whole(self.shipped.rows.schema.names, range(self.shipped.terms.buckets))
        for packed in pack([division], [self.shipped.rows.take(pa.array(rows, pa.int64()))] if rows else []):
            for bucket, blob in zip(packed[BUCKET].to_pylist(), packed[DATA].to_pylist(), strict=True):
                arrived[bucket].append(blob)
        arrived.pop(SEAL, None)
        for bucket, blobs in arrived.items():
            self._turn(bucket, blobs, clock)
        for bucket in [b for b, at in self.timers.items() if at <= clock]:
            self._turn(bucket, [], clock)

    def wake(self, clock: int) -> None:
        """Look at every bucket, as a query does after it has started."""
        for bucket in list(self.states):
            self._turn(bucket, [], clock)

    def _turn(self, bucket: int, blobs: list[bytes], clock: int) -> None:
        spec, terms = self.shipped.spec, self.shipped.terms
        update = BucketUpdate(Bucket(spec, terms), frozenset({LATE}), self.states.pop(bucket, None), clock)
        for kind, count, blob in update.run(blobs):
            assert blob is not None
            self._read(kind == LATE, count, blob)
        self.timers.pop(bucket, None)
        if update.after is not None:
            self.states[bucket] = update.after
            if update.wakes_at is not None:
                assert update.wakes_at > clock
                self.timers[bucket] = update.wakes_at

    def _read(self, is_late: bool, count: int, blob: bytes) -> None:
        if is_late:
            opened = pa.ipc.open_stream(pa.py_buffer(blob))
            events = [event for batch in opened for event in batch.column(0).to_pylist()]
            assert len(events) == count
            self.late += map(self._place, events)
            return
        step = pa.record_batch({"kind": pa.array([0]), "data": pa.array([blob], pa.binary())})
        rows = [row for batch in unpacker(StructType())([step]) for row in batch.to_pylist()]
        assert len(rows) == count
        for row in rows:
            self.found[self._canonical(row)] += 1

    def _canonical(self, row: dict[str, Any]) -> str:
        """A row of the result as `expected` writes it; of a set, with the name of the query before it."""
        spec = self.shipped.spec
        if isinstance(spec, SetSpec):
            bindings = {name: list(map(self._place, events)) for name, events in row["bindings"]}
            own = {name: row[f"key{k}"] for k, (name, _) in enumerate(spec.keys)}
            shown = {name: own[name] for name in spec.specs[spec.names.index(row["query"])].keys}
            events = list(map(self._place, row["events"]))
            return f"{row['query']}{ways._canonical(events, bindings, None, None, shown)}"
        plan, keys = self.shipped.example.query.plan, spec.keys
        values = [[self._place(e) for e in v] if isinstance(v, list) else v for v in row.values()]
        variables = dict(zip(plan.columns, values[len(keys) + 2 :], strict=False))
        return ways._canonical(values[-1], variables, None, None, dict(zip(keys, values, strict=False)))

    def _place(self, event: Any) -> int:
        """The position of an event of the result."""
        return int(event if self.shipped.spec.first.ids else event[ways.POSITION])


def arrivals(shipped: Shipped, draw: random.Random) -> list[int]:
    """The rows in an order of arrival that leaves none late."""
    stamps = shipped.stamps
    return sorted(range(len(stamps)), key=lambda k: stamps[k] + draw.random() * (ways.LATENESS - 0.001))


def cut(items: Sequence[int], draw: random.Random, most: int) -> Iterator[Sequence[int]]:
    """Pieces of random sizes, empty ones among them."""
    at = 0
    while at < len(items):
        size = draw.randint(0, most)
        yield items[at : at + size]
        at += size


def run(shipped: Shipped, draw: random.Random, most: int = 5, lag: float = 0.3) -> Operator:
    """The whole stream in random micro-batches; the watermark moves on, or lags behind as it does in Spark."""
    operator = Operator(shipped)
    stamps = shipped.stamps
    newest = clock = 0
    for rows in cut(arrivals(shipped, draw), draw, most):
        operator.micro_batch(rows, clock)
        newest = max([newest, *(stamps[k] for k in rows)])
        if draw.random() >= lag:
            clock = max(clock, newest - ways.LATENESS)
    operator.micro_batch([], clock)
    finish(operator)
    return operator


def finish(operator: Operator) -> None:
    """The watermark moves past everything: what waits is released, and then what it left behind is let go."""
    for clock in (FAR, 2 * FAR):
        operator.micro_batch([], clock)


def needs_ids(example: ways.Example) -> bool:
    """Whether events of the result show only some attributes, the position not among them."""
    return bool(example.query.plan.projections)


def waits_for_events(query: t.Query) -> bool:
    """Whether matches wait for a number of events: a stream has no end that would decide the last ones."""
    if query.after_match is not None:
        return not isinstance(query.window, t.TimeWindow)
    return bool(trailing(query.formula)) and isinstance(query.window, t.EventsWindow)


def check(case: generators.Generated, draw: random.Random) -> Counter[str]:
    """A generated case gives the matches that the engine gives, shipped and run in a way that is drawn; the matches."""
    case = paths.in_merged_order(case)
    example = ways.Example.of(print_query(case.query), case.events)
    assume(not reads_plain_times(example))
    ids = needs_ids(example) or draw.random() < 0.5
    shipped = ship(example, draw.randint(1, 3), exact=draw.choice([0, 0.5, 1]), seed=draw.randint(0, 99), ids=ids)
    operator = run(shipped, draw, most=draw.choice([1, 3, 10]))
    assert operator.found == expected(example)
    assert operator.late == []
    if isinstance(case.query.window, t.TimeWindow):
        assert not operator.states, "the window has left everything"
    return operator.found


def _alike(cases: Sequence[generators.Generated], events: list[dict[str, Any]]) -> list[list[ways.Example]]:
    """The queries of cases over these events, those together that are divided in the same way."""
    groups = defaultdict(list)
    for case in cases:
        example = ways.Example.of(print_query(case.query), events)
        if reads_plain_times(example) or waits_for_events(case.query):
            continue
        plan = example.query.plan
        window = plan.query.window  # a window around the whole formula is one of the clause
        attribute = window.attribute if isinstance(window, t.AttributeWindow) else None
        groups[plan.partition, attribute, plan.query.consume is t.Consume.ANY].append(example)
    return list(groups.values())


def check_together(cases: Sequence[generators.Generated], draw: random.Random) -> None:
    """The queries of cases over the events of all of them give what each gives by itself.

    Those that are divided in the same way are a set, as `query_set` has it.
    """
    drawn = [event for case in cases for event in case.events]
    events = [event | {"time": at} for at, event in enumerate(draw.sample(drawn, min(len(drawn), MOST)))]
    for examples in _alike(cases, events):
        ids = draw.random() < 0.5
        operator = run(ship_together(examples, draw.randint(1, 3), ids), draw, most=draw.choice([1, 3, 10]))
        wanted = Counter[str]()
        for number, example in enumerate(examples):
            wanted.update({f"{number}{key}": count for key, count in expected(example).items()})
        assert operator.found == wanted
        assert operator.late == []


def check_now(case: generators.Generated, draw: random.Random) -> Counter[str]:
    """A case whose events come in order by key, while some keys are behind others: recognised as they come."""
    case = paths.in_merged_order(case)
    example = ways.Example.of(print_query(case.query), case.events)
    assume(not reads_plain_times(example) and not example.query.plan.waits)
    ids = needs_ids(example) or draw.random() < 0.5
    shipped = ship(example, draw.randint(1, 3), exact=draw.choice([0, 0.5, 1]), seed=draw.randint(0, 99), ids=ids)
    shipped = replace(shipped, spec=shipped.spec.recognising_now(), terms=replace(shipped.terms, now=True))
    stamps, keys = shipped.stamps, [c for c in shipped.rows.schema.names if c.startswith(key_column(0)[:-1])]
    behind: dict[Any, float] = {}
    rows = shipped.rows.select([BUCKET, *keys]).to_pylist()
    lag = [behind.setdefault(str(row), draw.random() * 20) for row in rows]
    order = sorted(range(len(rows)), key=lambda k: stamps[k] + lag[k] if keys else k)
    operator, clock = Operator(shipped), 0
    for piece in cut(order, draw, draw.choice([1, 3, 10])):
        operator.micro_batch(piece, clock)
        rest = [stamps[k] for k in order[order.index(piece[-1]) + 1 :]] if piece else []
        if draw.random() < 0.5 and rest:
            clock = max(clock, min(rest) - 1)  # as far as it can be without making an event late
    finish(operator)
    assert operator.found == expected(example)
    assert operator.late == []
    if isinstance(case.query.window, t.TimeWindow):
        assert not operator.states, "the window has left everything"
    return operator.found


def check_changed(cases: Sequence[generators.Generated], draw: random.Random) -> int:
    """A set that becomes another one between two micro-batches; how many matches there are.

    Queries of both sets give what each gives by itself, those of the first alone what they find up to the watermark,
    those of the second alone what they find behind it.
    """
    drawn = [event for case in cases for event in case.events]
    events = [event | {"time": at} for at, event in enumerate(draw.sample(drawn, min(len(drawn), MOST)))]
    found = 0
    for examples in _alike(cases, events):
        examples = [example for example in examples if not example.query.plan.waits]
        if len(examples) < 2:
            continue
        whole = ship_together(examples, draw.randint(1, 3), ids=draw.random() < 0.5)
        assert isinstance(whole.spec, SetSpec)
        first, second = (set(draw.sample(whole.spec.names, draw.randint(1, len(examples)))) for _ in range(2))
        operator, stamps = Operator(only(whole, first)), whole.stamps
        order = arrivals(whole, draw)
        at = draw.randint(0, len(order))
        clock = max([0, *(stamps[k] for k in order[:at])]) - ways.LATENESS
        operator.micro_batch(order[:at], 0)
        operator.micro_batch([], max(0, clock))
        operator.shipped = only(whole, second)
        operator.wake(max(0, clock))
        for rows in cut(order[at:], draw, 3):
            operator.micro_batch(rows, max(0, clock))
        finish(operator)
        wanted = Counter[str]()
        for name, example in zip(whole.spec.names, examples, strict=True):
            lowest, highest = -FAR, FAR
            if name not in second:
                highest = clock
            elif name not in first:
                lowest = clock
            if name in first or name in second:
                wanted.update({f"{name}{key}": n for key, n in expected(between(example, lowest, highest)).items()})
        assert operator.found == wanted
        found += sum(wanted.values())
    return found


def between(example: ways.Example, lowest: int, highest: int) -> ways.Example:
    """The example with the events after one time, up to another, in milliseconds."""
    tables = {}
    for name, table in example.tables.items():
        stamps = np.array(table[ways.STAMP].cast(pa.int64()).to_pylist(), np.int64) / 1000
        tables[name] = table.filter(pa.array((stamps > lowest) & (stamps <= highest), pa.bool_()))
    return replace(example, tables=tables)
