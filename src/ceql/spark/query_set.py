"""Many queries over one DataFrame: `match(df, {"fraud": ..., "bot": ...})`.

Queries whose events are divided among tasks in the same way form a group: those with the same keys, those that a window
of time cuts into chunks, those that run in one task. Each group is one scan, one shuffle and one pass. The rows of a
group are shipped by way of a query that stands for all of them: any event of a type that some query names, by
the group's keys. The results of all groups have the same columns and are united. Over a stream, all groups go through
one stateful step (`streaming`), and those that have no keys are one group.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from ceql.analysis.neighbours import attribute_in
from ceql.errors import ArgumentError, naming
from ceql.plan import plan_query
from ceql.plans import Plan
from ceql.query import Query
from ceql.query_set import QuerySet, compile_all
from ceql.recognition.bound_plan import BoundPlan, compared_attributes
from ceql.recognition.snapshot import schema_to_text
from ceql.spark.batch import Division, divide, rows_in_tasks
from ceql.spark.collations import refuse_collations
from ceql.spark.lacking_types import telling
from ceql.spark.match_options import MatchArguments
from ceql.spark.prepare import Frames, Prepared, prepare
from ceql.spark.result_types import first_fields
from ceql.spark.stream_job import RowGroup, StreamJob, digest, identity_of, terms_of
from ceql.spark.task_recognizer import batch_task
from ceql.spark.task_report import reported
from ceql.spark.task_spec import SetSpec, TaskSpec
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves


def to_set(queries: QuerySet | Mapping[str, str | Query]) -> QuerySet:
    """The queries, compiled."""
    return queries if isinstance(queries, QuerySet) else compile_all(queries)


def run(frames: Frames, queries: QuerySet, arguments: MatchArguments, partitions: int | None) -> DataFrame:
    """The lazy DataFrame of the matches of all queries, in batch."""
    bound = _bind(frames, queries, arguments)
    schema = schema_of(bound.whole, bound.keys, arguments)
    results = [
        rows_in_tasks(group.carrier, partitions).mapInArrow(reported("match", batch_task(group.spec)), schema)
        for group in _groups(frames, bound, arguments)
    ]
    formulas = {name: plan.query.formula for name, plan in queries.plans.items()}
    return telling(reduce(DataFrame.unionAll, results), bound.whole, formulas)


def stream_job(frames: Frames, queries: QuerySet, arguments: MatchArguments, buckets: int, strict: bool) -> StreamJob:
    """The queries over a stream.

    Neither states nor the terms of a checkpoint depend on the order of the queries.
    """
    bound = _bind(frames, queries, arguments)
    groups = tuple(sorted(_groups(frames, bound, arguments, True), key=lambda group: group.identity))
    plans = sorted(queries.plans.items())
    prints = tuple((name, plan.fingerprint, plan.state_fingerprint) for name, plan in plans)
    whole = digest([one[:2] for one in prints], 16).hex()
    text = "\n".join(f"{name}: {plan.source.strip()}" for name, plan in plans)
    terms = terms_of(groups, whole, text, buckets, prints)
    waits = any(plan.waits for _, plan in plans)
    schema = schema_of(bound.whole, bound.keys, arguments)
    return StreamJob(groups, replace(terms, strict=strict), schema, bound.whole.event_type, waits)


@dataclass(frozen=True)
class _Bound:
    """All queries, bound to the columns of the events."""

    whole: Prepared
    """A query that stands for all of them."""
    bounds: Mapping[str, BoundPlan]
    keys: Mapping[str, pa.DataType]
    """The keys that the result shows."""


def _bind(frames: Frames, queries: QuerySet, arguments: MatchArguments) -> _Bound:
    plans = queries.plans
    unknown = (
        [name for name in arguments.suppress if name not in plans] if isinstance(arguments.suppress, Mapping) else []
    )
    if unknown:
        raise ArgumentError(f"suppress= names '{unknown[0]}', and there is no query of this name")
    whole = prepare(frames, _any_event(list(plans.values())), replace(arguments, suppress=None))
    bounds: dict[str, BoundPlan] = {}
    for name, plan in plans.items():
        with naming(name):
            bounds[name] = BoundPlan(
                plan, whole.bound.schema, whole.bound.streams, whole.bound.options, untyped=whole.bound.untyped
            )
            refuse_collations(whole.collated, bounds[name])
    return _Bound(whole, bounds, _keys(bounds))


def _groups(frames: Frames, bound: _Bound, arguments: MatchArguments, streaming: bool = False) -> list[RowGroup]:
    """The queries that run in one pass: those that are divided in the same way, by the same.

    A stream is divided by keys or not at all.
    """
    found: dict[tuple[Division, Hashable], dict[str, BoundPlan]] = {}
    for name, own in bound.bounds.items():
        window, division = own.plan.query.window, divide(replace(bound.whole, bound=own))[0]
        alone = streaming or arguments.suppressing(own.plan, name) is not None
        division = Division.SINGLE if alone and division is not Division.KEYED else division
        attribute = window.attribute if isinstance(window, t.AttributeWindow) else None  # it is shipped
        cut_by = type(window) if division is Division.CHUNKED else None
        found.setdefault((division, (own.plan.partition, attribute, cut_by)), {})[name] = own
    return [_group(frames, bound, own, division, arguments, streaming) for (division, _), own in found.items()]


def _identity(division: Division, bounds: Mapping[str, BoundPlan]) -> int:
    """A number that follows from what divides the rows of these queries."""
    plan = next(iter(bounds.values())).plan
    window = plan.query.window
    parts = [[[ref.attribute, ref.name or ""] for ref in part.refs] for part in plan.partition]
    attribute = window.attribute if isinstance(window, t.AttributeWindow) else None
    return identity_of([division.name, parts, attribute])


def _group(
    frames: Frames,
    bound: _Bound,
    bounds: Mapping[str, BoundPlan],
    division: Division,
    arguments: MatchArguments,
    streaming: bool,
) -> RowGroup:
    whole = bound.whole
    plans = [own.plan for own in bounds.values()]
    guarded = sorted({name for own in bounds.values() for name in _read_by_guards(own)})
    compared = sorted({name for plan in plans for name in compared_attributes(plan)})
    shown, telling = whole.spec.shown, whole.spec.told_by
    shipped = tuple(dict.fromkeys([*shown, *telling, *guarded, *compared]))
    if streaming:  # rules to come may read any column of the events that wait
        shipped = tuple(dict.fromkeys([*shown, *whole.bound.schema.names]))
    stand_in = _standing_for(list(bounds.values()), division)
    carrier, common = carried(frames, stand_in, whole, shipped, arguments)
    schema = schema_to_text(pa.schema([whole.bound.schema.field(name) for name in guarded]))
    specs = []
    for name, plan in zip(bounds, plans, strict=True):
        own = common.of_set(plan, name, schema, arguments.suppressing(plan, name))
        _ = own.plan  # made here once, and pickled along
        specs.append(own)
    return RowGroup(
        carrier, SetSpec(tuple(bounds), tuple(specs), tuple(bound.keys.items())), _identity(division, bounds)
    )


def carried(
    frames: Frames, stand_in: Plan, whole: Prepared, read: tuple[str, ...], arguments: MatchArguments
) -> tuple[Prepared, TaskSpec]:
    """The rows of a group, with these attributes, and what its queries have in common: the result of `whole`."""
    plain = replace(arguments, read=read, ids=False, id=(), match_id=None, suppress=None, flat=False)
    carrier = prepare(frames, stand_in, plain)
    common = replace(
        carrier.spec,
        exact=(),
        undecided=(),
        type=whole.bound.type,
        shown=whole.spec.shown,
        ids=arguments.ids,
        match_id=arguments.match_id,
        suppresses=arguments.suppress is not None,
        told_by=whole.spec.told_by,
    )
    return carrier, common


def _read_by_guards(bound: BoundPlan) -> set[str]:
    found = {
        attribute_in(leaf.name)
        for guard in bound.plan.guards
        for predicate in guard.predicates
        for leaf in leaves(predicate)
        if isinstance(leaf, t.Attribute)
    }
    return found | ({bound.type} if bound.type is not None else set())


def _standing_for(bounds: list[BoundPlan], division: Division) -> Plan:
    """The query by which the rows of a group are shipped and divided."""
    plans = [bound.plan for bound in bounds]
    windows = [plan.query.window for plan in plans]
    # the longest; in a group, all are of one kind, or do not matter
    longest = max((window for window in windows if window is not None), key=_length, default=None)
    keeps = isinstance(longest, t.AttributeWindow) or division is Division.CHUNKED
    counts = any(not bound.skips or bound.plan.counts_events for bound in bounds)
    return _any_event(plans, plans[0].partition, longest if keeps else None, division is Division.SINGLE, counts)


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
    """A query for each event of a type that one of these names, by these keys."""
    kinds = dict.fromkeys(t.Event(guard.type, guard.stream) for plan in plans for guard in plan.guards)
    return any_event(tuple(kinds), parts, window, single, counts, plans[0].query.streams, plans[0].source)


def any_event(
    kinds: tuple[t.Event, ...],
    parts: tuple[t.Part, ...],
    window: t.Window | None,
    single: bool,
    counts: bool,
    streams: tuple[str, ...],
    source: str,
) -> Plan:
    """A query for each event of these kinds, by these keys.

    `single`: it runs in one task. `counts`: events that no query asks for are shipped, too, since they count.
    """
    formula: t.Formula = kinds[0] if len(kinds) == 1 else t.Or(kinds)
    if counts:
        formula = t.Then((formula, formula), (t.Joint.TOUCH,))
    consume = t.Consume.ANY if single else t.Consume.NONE
    query = t.Query(formula, streams=streams, partition=parts, window=window, consume=consume)
    return plan_query(query, source)


def _keys(bounds: Mapping[str, BoundPlan]) -> dict[str, pa.DataType]:
    """The keys that the result shows, under the names of their columns; text where queries differ in the type."""
    found: dict[str, pa.DataType] = {}
    for bound in bounds.values():
        for name, kind in bound.result.keys:
            kind = pa.string() if pa.types.is_large_string(kind) else kind
            if found.setdefault(name, kind) != kind:
                found[name] = pa.string()
    return found


def schema_of(
    whole: Prepared, keys: Mapping[str, pa.DataType], arguments: MatchArguments, versions: bool = False
) -> StructType:
    """The columns of the result, in order, with these keys."""
    event, time = whole.event_type, whole.schema["start_time"].dataType
    first = [StructField(name, StringType()) for name in ("query", "version")[: 1 + versions]]
    last = [
        StructField("start_time", time),
        StructField("end_time", time),
        StructField("bindings", MapType(StringType(), ArrayType(event))),
        StructField("measures", MapType(StringType(), StringType())),
        StructField("events", ArrayType(event)),
    ]
    taken, shown = {field.name for field in (*first, *last)}, []
    for name, kind in keys.items():
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        shown.append(StructField(name, from_arrow_type(kind)))
    own = [*first, *shown, *last]
    before = first_fields(arguments.match_id, arguments.suppress is not None, [field.name for field in own])
    return StructType([*before, *own])
