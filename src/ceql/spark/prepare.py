"""From DataFrames to shipped rows: the query bound to the columns, guards and keys computed in the JVM.

Everything that can be wrong with a query, a schema or an option is found here, on the driver, before any job starts.
Nothing runs: the result is a lazy DataFrame of shipped columns (see `task_spec`), without the rows that can change
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from ceql.errors import ArgumentError, DataError, SchemaError, did_you_mean
from ceql.io.schemas import check_names, unify_schemas
from ceql.io.sort_keys import is_ordered
from ceql.plans import Plan
from ceql.recognition.bound_plan import BoundPlan, compared_attributes
from ceql.recognition.options import Options
from ceql.recognition.snapshot import schema_to_text
from ceql.spark.arrow_types import arrow_type
from ceql.spark.collations import collations, refuse_collations
from ceql.spark.fields import with_columns
from ceql.spark.guard_columns import GuardColumn, guard_columns, name_of
from ceql.spark.key_expressions import key_text, key_types, keys_as_text, order_text
from ceql.spark.match_options import MatchArguments
from ceql.spark.result_types import event_type, result_schema
from ceql.spark.task_spec import (
    BITS,
    ORDER,
    STREAM,
    TIME,
    TaskSpec,
    key_column,
)
from ceql.syntax import tree as t

Frames = DataFrame | Mapping[str, DataFrame]
WATERMARK = "spark.watermarkDelayMs"
"""Metadata of the column that a watermark is on."""


@dataclass(frozen=True)
class Shipping:
    """What is shipped of one stream."""

    events: DataFrame
    wanted: Column | None
    """Which events; None for all."""
    columns: Mapping[str, Column]
    """The shipped columns by name, over the events' own."""

    @property
    def rows(self) -> DataFrame:
        """The shipped rows."""
        events = self.events if self.wanted is None else self.events.where(self.wanted)
        return events.select(*(column.alias(name) for name, column in self.columns.items()))


@dataclass(frozen=True)
class Prepared:
    """A query bound to DataFrames."""

    bound: BoundPlan
    frame: DataFrame
    """The shipped rows."""
    shipping: tuple[Shipping, ...]
    """The same, by stream."""
    spec: TaskSpec
    schema: StructType
    """The columns of the result."""
    event_type: DataType
    """The type of an event in the result."""
    guards: tuple[GuardColumn, ...]
    drops: bool
    """Whether rows that satisfy no guard are left in the JVM."""
    order: tuple[str, ...]
    """Shipped columns that put the rows of a task in order."""
    streaming: bool
    streams: tuple[DataFrame, ...]
    """The events, as they were given but for fields that are columns here."""
    collated: Mapping[str, str]
    """The columns that have a collation, and which."""

    @property
    def plan(self) -> Plan:
        return self.bound.plan

    @property
    def keys(self) -> list[str]:
        """The shipped key columns."""
        return list(self.spec.key_columns)

    @property
    def key_types(self) -> list[tuple[str, str]]:
        """The shipped key columns with their types."""
        return [(name, self.frame.schema[name].dataType.simpleString()) for name in self.spec.key_columns]

    @property
    def shipped(self) -> list[str]:
        """The columns that tasks get: all but those that only sort."""
        return [c for c in self.frame.columns if not c.startswith("o_")]


def prepare(frames: Frames, plan: Plan, arguments: MatchArguments) -> Prepared:
    """Bind a query to DataFrames; `SchemaError` and `QueryError` say what does not fit."""
    streams = streams_of(frames, plan)
    zone = streams[0][1].sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    options = arguments.options
    fields = options.nested(plan.dotted)
    streams = [(name, with_columns(df, arrow_schema(df.schema, zone), fields)) for name, df in streams]
    schemas = [arrow_schema(df.schema, zone) for _, df in streams]
    schema = unify_schemas(schemas)
    check_time(options, schema)
    names = plan.query.streams or (None,)
    untyped = options.untyped(schemas)
    bound = BoundPlan(plan, schema, tuple(names), options, untyped=untyped)
    collated = collations([df.schema for _, df in streams])
    refuse_collations(collated, bound, arguments.order_by)
    spark_types = column_types([df.schema for _, df in streams], schema)
    shown = shown_attributes(arguments, plan, schema)

    streaming = any(df.isStreaming for _, df in streams)
    drops = bound.skips and not plan.counts_events
    several = len(streams) > 1
    by_stream = [guard_columns(bound.guards, schema, F.lit(k) if several else None) for k in range(len(streams))]
    guards = tuple(by_stream[0])
    undecided = tuple(k for k, guard in enumerate(guards) if not guard.exact)
    always = tuple(k for k in range(len(guards)) if all(own[k].always for own in by_stream))
    reads = sorted({name for k in undecided for name in guards[k].needs})
    window = plan.query.window
    measured = (window.attribute,) if isinstance(window, t.AttributeWindow) else ()
    compared = compared_attributes(plan)
    telling = told_by(arguments, schema)
    spec = TaskSpec(
        query=plan.source,
        options=replace(options, lateness=0),
        attributes=tuple(dict.fromkeys([*shown, *telling, *compared, *reads, *measured])),
        keys=tuple(name for name, _ in bound.result.keys),
        key_columns=tuple(map(key_column, range(len(plan.partition)))),
        compared=compared,
        shared=_shared(bound, spark_types),
        keys_as_text=keys_as_text(plan, spark_types),
        shown=shown,
        ids=arguments.ids,
        exact=tuple(k for k, guard in enumerate(guards) if guard.exact and k not in always),
        always=always,
        undecided=undecided,
        schema=schema_to_text(pa.schema([schema.field(name) for name in reads])) if undecided else "",
        type=bound.type,
        streams=tuple(names),
        untyped=untyped,
        ordered_by=arguments.order_by or (("the streams' order",) if several else ()),
        flat=arguments.flat,
        match_id=arguments.match_id,
        suppresses=arguments.suppress is not None,
        suppress=arguments.suppressing(plan),
        told_by=telling,
        identity=plan.fingerprint,
    )
    shipped = [
        _ship(df, k, bound, by_stream[k], spec, spark_types, arguments, drops, several)
        for k, (_, df) in enumerate(streams)
    ]
    frame = reduce(DataFrame.unionAll, [one.rows for one in shipped])
    return Prepared(
        bound=bound,
        frame=frame,
        shipping=tuple(shipped),
        spec=replace(spec, shipped=schema_to_text(shipped_schema(frame, zone))) if streaming else spec,
        schema=result_schema(bound, spec, spark_types),
        event_type=event_type(spec, spec.shown, spark_types),
        guards=guards,
        drops=drops,
        order=(TIME, *([STREAM] if several else ()), *(f"o_{k}" for k in range(len(arguments.order_by)))),
        streaming=streaming,
        streams=tuple(df for _, df in streams),
        collated=collated,
    )


def arrow_schema(schema: StructType, zone: str) -> pa.Schema:
    """The columns of a DataFrame as Arrow sees them; a TIMESTAMP is in the session's time zone."""
    fields = []
    for field in schema.fields:
        try:
            fields.append(pa.field(field.name, arrow_type(field.dataType, zone)))
        except PySparkTypeError as error:
            raise SchemaError(
                f"column '{field.name}' ({field.dataType.simpleString()}) cannot be sent to Python; drop or cast it"
            ) from error
    folded: dict[str, str] = {}
    for field in schema.fields:
        if folded.setdefault(field.name.lower(), field.name) != field.name:
            raise SchemaError(
                f"columns '{folded[field.name.lower()]}' and '{field.name}' differ in case alone, which Spark does not "
                "tell apart; rename one"
            )
    return check_names(pa.schema(fields), "the DataFrame")


def shipped_schema(frame: DataFrame, zone: str) -> pa.Schema:
    """The shipped columns as tasks get them."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType, zone)) for field in frame.schema.fields])


def check_order(caller: str, frames: object, query: object, *others: type) -> None:
    """Refuse arguments in the wrong order, or of another kind; `others` may take the place of a DataFrame."""
    given = list(frames.values()) if isinstance(frames, Mapping) else [frames]
    for one in given:
        if not isinstance(one, (DataFrame, *others)):
            raise ArgumentError(
                f"{caller} takes a DataFrame first (or a dict of them, by stream), then the query: {caller}(df, query)."
                f" The first argument has a {type(one).__name__}"
            )
    if isinstance(query, DataFrame):
        raise ArgumentError(f"{caller} takes a query after the DataFrame, not another one: {caller}(df, query)")


_One = TypeVar("_One", DataFrame, StructType)


def streams_of(frames: _One | Mapping[str, _One], plan: Plan) -> list[tuple[str | None, _One]]:
    """The DataFrame (or its columns) for each stream of FROM, in order."""
    wanted = plan.query.streams
    if not isinstance(frames, Mapping):
        if len(wanted) > 1:
            raise DataError(
                f"FROM names {len(wanted)} streams: pass a dict with a DataFrame for each of {', '.join(wanted)}"
            )
        return [(wanted[0] if wanted else None, frames)]
    if not wanted:
        if len(frames) != 1:
            raise DataError("the query has no FROM clause: pass one DataFrame, or name the streams in FROM")
        return [(None, next(iter(frames.values())))]
    for name in frames:
        if name not in wanted:
            hint = did_you_mean(name, list(wanted)) or ""
            raise DataError(f"the query's FROM lists no stream '{name}'. {hint}".strip())
    missing = [name for name in wanted if name not in frames]
    if missing:
        raise DataError(f"there is no DataFrame for stream '{missing[0]}' of FROM")
    return [(name, frames[name]) for name in wanted]


def check_time(options: Options, schema: pa.Schema) -> None:
    """Refuse events without a column of times."""
    if options.time_column(schema) is None:
        able = [f.name for f in schema if is_ordered(f.type)]
        raise SchemaError(
            "the rows of a DataFrame have no order of their own: pass time=, the column that orders the events"
            + (f" (one of {', '.join(able)})" if able else "")
        )
    name = str(options.time)
    if not is_ordered(schema.field(name).type):
        raise SchemaError(
            f"column '{name}' is {schema.field(name).type}, which is no time; use a timestamp, date or number"
        )


def column_types(structs: Sequence[StructType], schema: pa.Schema) -> dict[str, DataType]:
    """The Spark type of every column; where streams differ, the one that holds both."""
    types: dict[str, DataType] = {}
    for name in schema.names:
        given = [struct[name].dataType for struct in structs if name in struct.names]
        own = {kind.simpleString(): kind for kind in given}
        types[name] = next(iter(own.values())) if len(own) == 1 else from_arrow_type(schema.field(name).type)
        if isinstance(types[name], StringType):
            types[name] = StringType()  # without collation, char or varchar
    return types


def shown_attributes(arguments: MatchArguments, plan: Plan, schema: pa.Schema) -> tuple[str, ...]:
    """The attributes that the result shows of events."""
    if arguments.read is not None:
        return tuple(name for name in arguments.read if name in schema.names) or (str(arguments.options.time),)
    if arguments.ids:
        if not arguments.id:
            raise SchemaError("events='ids' needs id=, the column that identifies an event")
        require_column(arguments.id[0], schema, "id")
        return arguments.id
    items = plan.query.items or ()
    if items and all(item.attributes for item in items) and not plan.query.distinct:
        named = {name for item in items for name in item.attributes}
        return tuple(name for name in schema.names if name in named)
    return tuple(schema.names)


def told_by(arguments: MatchArguments, schema: pa.Schema) -> tuple[str, ...]:
    """The attributes by which ids of matches tell events: those that identify one, or all."""
    if arguments.match_id is None:
        return ()
    for name in arguments.id:
        require_column(name, schema, "id")
    return arguments.id or tuple(schema.names)


def require_column(name: str, schema: pa.Schema, given_as: str) -> None:
    """Refuse an argument that names no column."""
    if name not in schema.names:
        raise SchemaError(
            f"the events have no column '{name}' (given as {given_as}=); they have {', '.join(schema.names)}",
            suggestion=did_you_mean(name, schema.names),
        )


def _ship(
    df: DataFrame,
    number: int,
    bound: BoundPlan,
    guards: Sequence[GuardColumn],
    spec: TaskSpec,
    types: Mapping[str, DataType],
    arguments: MatchArguments,
    drops: bool,
    several: bool,
) -> Shipping:
    """What is shipped of one stream."""
    plan = bound.plan
    for name in types:
        if name not in df.columns:
            df = df.withColumn(name, F.lit(None).cast(types[name]))
        elif df.schema[name].dataType.simpleString() != types[name].simpleString():
            df = df.withColumn(name, name_of(name).cast(types[name]))
    wanted = []
    if drops:
        holds = [guard.column for guard in guards]
        wanted.append(reduce(Column.__or__, holds) if holds else F.lit(False))
    keys = [F.expr(key_text(part, k, bound, number, types)) for k, part in enumerate(plan.partition)]
    for key, kind in zip(keys, key_types(bound, types), strict=True):
        wanted.append(key.isNotNull() & ~F.isnan(key) if kind in ("float", "double") else key.isNotNull())
    time = name_of(str(arguments.options.time))
    condition = reduce(Column.__and__, wanted) if wanted else None
    if condition is not None and df.isStreaming:
        condition = _after_watermark(condition, time)
    columns = {TIME: time} | dict(zip(spec.bit_columns, _bits(guards, spec), strict=True))
    columns |= {key_column(k): key for k, key in enumerate(keys)}
    if several:
        columns[STREAM] = F.lit(number)
    order = []
    for name in arguments.order_by:
        require_column(name, bound.schema, "order_by")
        order.append(name_of(name))
    if order:
        columns[ORDER] = F.expr(order_text(arguments.order_by, number if several else None))
    columns |= {f"o_{k}": column for k, column in enumerate(order)}
    shared = dict(spec.shared)
    columns |= {column: name_of(name) for name, column in spec.place.items() if name not in shared}
    return Shipping(df, condition, columns)


def _shared(bound: BoundPlan, types: Mapping[str, DataType]) -> tuple[tuple[str, str], ...]:
    """The attributes that need not be shipped again: the time, and keys that are attributes as they are."""
    found = [(str(bound.time), TIME)]
    for k, (part, kind) in enumerate(zip(bound.plan.partition, key_types(bound, types), strict=True)):
        ref = part.refs[0]
        same = types[ref.attribute].simpleString() == kind and kind not in ("float", "double")  # -0.0 is not 0.0
        if len(part.refs) == 1 and ref.name is None and same:
            found.append((ref.attribute, key_column(k)))
    return tuple(found)


def _after_watermark(condition: Column, time: Column) -> Column:
    """The condition, kept above the watermark, which must see all rows: those that are dropped move time on, too.

    Spark moves a filter below the watermark unless it looks at the time. So this one does; a row without a time goes
    through, and is complained of.
    """
    return condition | time.isNull() | (time < F.lit("0001-01-01").cast("timestamp"))


def _bits(guards: Sequence[GuardColumn], spec: TaskSpec) -> list[Column]:
    """Which guards hold, as the bits of integers no wider than they need to be."""
    columns = []
    for word in range(len(spec.bit_columns)):
        mine = spec.exact[word * BITS : (word + 1) * BITS]
        kind: DataType = ShortType() if len(mine) < 16 else IntegerType() if len(mine) < 32 else LongType()
        bits = [
            F.when(guards[guard].column, F.lit(1 << place).cast(kind)).otherwise(F.lit(0).cast(kind))
            for place, guard in enumerate(mine)
        ]
        columns.append(reduce(Column.bitwiseOR, bits))
    return columns
