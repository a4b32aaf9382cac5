"""Many queries over one DataFrame: `match(df, {"fraud": ..., "bot": ...})`.

Queries whose events are divided among tasks in the same way form a group: those with the same keys, those that a window
of time cuts into chunks, those that run in one task. Each group is one scan, one shuffle and one pass (`set_task`). The
rows of a group are shipped by way of a query that stands for all of them: any event of a type that some query names, by
the group's keys. The results of all groups have the same columns and are united.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from ceql.analysis.conditions import leaves
from ceql.errors import SchemaError, naming
from ceql.plan import Plan, plan_query
from ceql.query import Query
from ceql.query_set import QuerySet, compile_all
from ceql.recognition.bound_plan import BoundPlan, compared_attributes
from ceql.recognition.snapshot import schema_to_text
from ceql.spark.batch import Way, divide, rows_in_tasks
from ceql.spark.prepare import Frames, MatchArguments, Prepared, prepare
from ceql.spark.set_task import SetSpec, set_task
from ceql.spark.task_report import reported
from ceql.syntax import tree as t

FIXED = ("query", "start_time", "end_time", "bindings", "measures", "events")


def to_set(queries: QuerySet | Mapping[str, str | Query]) -> QuerySet:
    """The queries, compiled."""
    return queries if isinstance(queries, QuerySet) else compile_all(queries)


def run(frames: Frames, queries: QuerySet, arguments: MatchArguments, partitions: int | None) -> DataFrame:
    """The lazy DataFrame of the matches of all queries."""
    plans = queries.plans
    if _is_streaming(frames):
        raise SchemaError(
            "several queries over a streaming DataFrame are not supported: match each of them by itself, or match all "
            "of them in foreachBatch, over the rows of a batch"
        )
    whole = prepare(frames, _any_event(list(plans.values())), arguments)
    bounds: dict[str, BoundPlan] = {}
    for name, plan in plans.items():
        with naming(name):
            bounds[name] = BoundPlan(
                plan, whole.bound.schema, whole.bound.streams, whole.bound.options, untyped=whole.bound.untyped
            )
    keys = _keys(bounds)
    results = [
        _run_group(frames, {name: bounds[name] for name in names}, way, whole, arguments, partitions, keys)
        for (way, _), names in _groups(bounds, whole).items()
    ]
    return reduce(DataFrame.unionAll, results)


def _is_streaming(frames: Frames) -> bool:
    return any(df.isStreaming for df in (frames.values() if isinstance(frames, Mapping) else [frames]))


def _groups(bounds: Mapping[str, BoundPlan], whole: Prepared) -> dict[tuple[Way, Hashable], list[str]]:
    """The queries that run in one pass: those that are divided in the same way, by the same."""
    found: dict[tuple[Way, Hashable], list[str]] = {}
    for name, bound in bounds.items():
        window, way = bound.plan.query.window, divide(replace(whole, bound=bound)).way
        attribute = window.attribute if isinstance(window, t.AttributeWindow) else None  # it is shipped
        cut_by = type(window) if way is Way.CHUNKED else None
        found.setdefault((way, (bound.plan.partition, attribute, cut_by)), []).append(name)
    return found


def _run_group(
    frames: Frames,
    bounds: Mapping[str, BoundPlan],
    way: Way,
    whole: Prepared,
    arguments: MatchArguments,
    partitions: int | None,
    keys: dict[str, pa.DataType],
) -> DataFrame:
    plans = [bound.plan for bound in bounds.values()]
    guarded = sorted({name for bound in bounds.values() for name in _read_by_guards(bound)})
    compared = sorted({name for plan in plans for name in compared_attributes(plan)})
    shown = whole.spec.shown
    shipped = tuple(dict.fromkeys([*shown, *guarded, *compared]))
    stand_in = _standing_for(list(bounds.values()), way)
    carrier = prepare(frames, stand_in, replace(arguments, read=shipped, ids=False, id=None))
    schema = schema_to_text(pa.schema([whole.bound.schema.field(name) for name in guarded]))
    specs = []
    for plan in plans:
        own = replace(
            carrier.spec,
            query=plan.source,
            keys=tuple(part.refs[0].attribute for part in plan.shown_keys),
            hidden_keys=len(plan.split_by),
            compared=compared_attributes(plan),
            shown=shown,
            ids=arguments.ids,
            exact=(),
            undecided=tuple(range(len(plan.guards))),
            schema=schema,
            type=whole.bound.type,
        )
        _ = own.plan  # made here once, and pickled along
        specs.append(own)
    spec = SetSpec(tuple(bounds), tuple(specs), tuple(keys.items()))
    rows = rows_in_tasks(carrier, partitions)
    return rows.mapInArrow(reported("match", set_task(spec)), _schema(whole, keys))


def _read_by_guards(bound: BoundPlan) -> set[str]:
    found = {
        leaf.name
        for guard in bound.plan.guards
        for predicate in guard.predicates
        for leaf in leaves(predicate)
        if isinstance(leaf, t.Attribute)
    }
    return found | ({bound.type} if bound.type is not None else set())


def _standing_for(bounds: list[BoundPlan], way: Way) -> Plan:
    """The query by which the rows of a group are shipped and divided."""
    plans = [bound.plan for bound in bounds]
    windows = [plan.query.window for plan in plans]
    # the longest; in a group, all are of one kind, or do not matter
    longest = max((window for window in windows if window is not None), key=_length, default=None)
    keeps = isinstance(longest, t.AttributeWindow) or way is Way.CHUNKED
    counts = any(not bound.skips or bound.plan.counts_events for bound in bounds)
    return _any_event(plans, plans[0].partition, longest if keeps else None, way is Way.SINGLE, counts)


def _length(window: t.Window) -> int | float:
    match window:
        case t.TimeWindow(nanoseconds):
            return nanoseconds
        case t.EventsWindow(count):
            return count
        case t.AttributeWindow(size):
            return float(size)


def _any_event(
    plans: list[Plan],
    parts: tuple[t.Part, ...] = (),
    window: t.Window | None = None,
    single: bool = False,
    counts: bool = False,
) -> Plan:
    """A query for each event of a type that one of these names, by these keys.

    `single`: it runs in one task. `counts`: events that no query asks for are shipped, too, since they count.
    """
    kinds = dict.fromkeys((guard.type, guard.stream) for plan in plans for guard in plan.guards)
    items = tuple(t.Event(type, stream) for type, stream in kinds)
    formula: t.Formula = items[0] if len(items) == 1 else t.Or(items)
    if counts:
        formula = t.Then((formula, formula), (True,))
    consume = t.Consume.ANY if single else t.Consume.NONE
    query = t.Query(formula, streams=plans[0].query.streams, partition=parts, window=window, consume=consume)
    return plan_query(query, plans[0].source)


def _keys(bounds: Mapping[str, BoundPlan]) -> dict[str, pa.DataType]:
    """The keys that the result shows, under the names of their columns; text where queries differ in the type."""
    found: dict[str, pa.DataType] = {}
    for bound in bounds.values():
        for name, kind in bound.result.keys:
            kind = pa.string() if pa.types.is_large_string(kind) else kind
            if found.setdefault(name, kind) != kind:
                found[name] = pa.string()
    return found


def _schema(whole: Prepared, keys: Mapping[str, pa.DataType]) -> StructType:
    """The columns of the result, in order."""
    event, time = whole.event_type, whole.schema["start_time"].dataType
    taken, shown = {name.lower() for name in FIXED}, []
    for name, kind in keys.items():
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        shown.append(StructField(name, from_arrow_type(kind)))
    return StructType(
        [
            StructField("query", StringType()),
            *shown,
            StructField("start_time", time),
            StructField("end_time", time),
            StructField("bindings", MapType(StringType(), ArrayType(event))),
            StructField("measures", MapType(StringType(), StringType())),
            StructField("events", ArrayType(event)),
        ]
    )
