"""The functions that users call: `match`, `matcher`, `explain`, `late_rows`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from pyspark.sql import DataFrame

from ceql.errors import ArgumentError, warn_caller
from ceql.plans import Plan
from ceql.query import Query, compile
from ceql.query_set import QuerySet
from ceql.recognition.options import spelt_out
from ceql.spark import batch, query_set
from ceql.spark.call_options import BUCKETS, CALL_DEFAULTS, Call, CallOptions, read_call
from ceql.spark.lacking_types import telling
from ceql.spark.match_options import DEFAULTS, MatchArguments, OrderOptions, read_match
from ceql.spark.prepare import Frames, check_order, prepare
from ceql.spark.report import report
from ceql.spark.rule_stream import Rules, rule_job
from ceql.spark.stream_job import StreamJob, job_of, recognising_now
from ceql.spark.streaming import stream
from ceql.spark.streaming_checks import check_streaming
from ceql.spark.task_metrics import metrics


@spelt_out(CallOptions, CALL_DEFAULTS)
def match(
    df: Frames,
    query: str | Query | QuerySet | Mapping[str, str | Query] | None = None,
    *,
    rules: Rules | None = None,
    **options: Unpack[CallOptions],
) -> DataFrame:
    """The matches of a query over a DataFrame, as a lazy DataFrame: nothing runs before an action.

    A streaming DataFrame gives a streaming one, in append mode; it needs a watermark on the time column. `df` is a dict
    of DataFrames for FROM with several streams.

    - `type`, `time`: the columns of types and times; `time_unit` says what plain numbers count ('s', 'ms', 'us', 'ns');
      `order_by`: further columns that order events of the same time.
    - `events`: 'rows' for the matched events themselves, 'ids' for the values of the column `id`, 'columns' for a flat
      result: a column `x_a` for attribute a of each variable x that binds one event.
    - `match_id`: the name of a further column, the first, with an id of each match: the key for MERGE, upserts and
      deduplication, the same in every run and that of `Matches.with_ids`. `id` then says which column (or columns)
      identifies an event; without it, all columns do. `suppress`: how many matches of a key are kept in a period.
    - `memory`: the budget of a task's partial matches, in bytes; `max_states`: of the automaton's states.
    - Batch: `partitions`, how many tasks there are; `skewed`, if a few keys have most of the events.
    - Streaming: `buckets`, how many states the keys are divided into; `late` and `rejects`, columns for events that
      come too late or make no sense; `on_bad`; `emit`, when events are recognised; `seed`, history to go on from;
      `strict`, to refuse a checkpoint of other queries. `ceql.spark.call_options` says more of each.
    - `observe`: what the tasks count, as Spark's observed metrics.

    Columns: the partition keys, `start_time`, `end_time`, one array for each selected variable, and `events`, an array
    of all events of the match.

    With a dict of queries by name (or a `ceql.QuerySet`), all of them are matched in one pass. Columns:
    `query` (the name), the partition keys of all queries, `start_time`, `end_time`, `bindings` (a map from each
    selected variable to its events), `measures` (a map from each measure to its value as text), and `events`.

    `rules` stands in place of a query: rules that change while the stream runs, as a second stream with the columns
    `name`, `text`, `version`, `enabled` and `valid_from`, or as a folder of JSON files with these. The events are
    divided by the columns `keys`. The result has a column `version` after `query`, and with `errors` a further column,
    the message about a rule that makes no sense.
    """
    check_order("match", df, query)
    arguments, call = read_call(options)
    if rules is not None:
        return _ruled(df, query, rules, arguments, call)
    if query is None:
        raise ArgumentError("match takes a query after the DataFrame, a dict of queries by name, or rules=")
    several = isinstance(query, QuerySet | Mapping)
    if several and (call.skewed or arguments.flat):
        raise ArgumentError("skewed= and events='columns' are for one query, not for several")
    delay = check_streaming(df, str(arguments.options.time))
    if delay is not None:
        call.check_stream(ruled=False)
        for note in {plan.late_note for plan in _plans(query)} - {None}:
            warn_caller(str(note), UserWarning)
        job = stream_job(df, query, arguments, call.buckets, call.strict, call.emit)
        return stream(job, delay, call.extras, call.seed)
    call.check_batch(several)
    if not isinstance(query, str | Query):
        return query_set.run(df, query_set.to_set(query), arguments, call.partitions)
    prepared = prepare(df, _plan(query), arguments)
    found = batch.run(prepared, call.partitions, call.skewed, call.observe)
    return telling(found, prepared, {"": prepared.plan.query.formula})


def _ruled(df: Frames, query: object, rules: Rules, arguments: MatchArguments, call: Call) -> DataFrame:
    """The matches of rules that change while the stream runs."""
    if query is not None:
        raise ArgumentError("pass a query, or rules=: rules that are there from the beginning are rows of it, too")
    if isinstance(df, Mapping):
        raise ArgumentError("rules= is for one stream of events, not for a dict of them")
    if arguments.flat:
        raise ArgumentError("events='columns' does not go with rules=")
    call.check_stream(ruled=True)
    delay = check_streaming(df, str(arguments.options.time))
    if delay is None:
        raise ArgumentError("rules= is for streaming; rules over a batch are a dict: match(df, {'name': 'SELECT ...'})")
    return stream(rule_job(df, rules, arguments, call.buckets, call.keys), delay, call.extras)


def _plans(query: str | Query | QuerySet | Mapping[str, str | Query]) -> list[Plan]:
    """The plans of all queries."""
    if isinstance(query, str | Query):
        return [_plan(query)]
    return list(query_set.to_set(query).plans.values())


def stream_job(
    df: Frames,
    query: str | Query | QuerySet | Mapping[str, str | Query],
    arguments: MatchArguments,
    buckets: int,
    strict: bool = False,
    emit: str = "watermark",
) -> StreamJob:
    """What a streaming query of one query, or of several, has to do."""
    if emit not in ("watermark", "now"):
        raise ArgumentError(f"emit must be 'watermark' or 'now', not {emit!r}")
    if isinstance(query, str | Query):
        job = job_of(prepare(df, _plan(query), arguments), buckets)
    else:
        job = query_set.stream_job(df, query_set.to_set(query), arguments, buckets, strict)
    return recognising_now(job) if emit == "now" else job


def matcher(
    query: str | Query | QuerySet | Mapping[str, str | Query], **options: Any
) -> Callable[[DataFrame], DataFrame]:
    """`match` as a function of the DataFrame alone: `payments.transform(matcher(query, time="ts"))`."""
    return lambda df: match(df, query, **options)


@spelt_out(OrderOptions, DEFAULTS)
def explain(
    df: Frames,
    query: str | Query,
    *,
    partitions: int | None = None,
    skewed: bool = False,
    buckets: int = BUCKETS,
    **options: Unpack[OrderOptions],
) -> str:
    """How `match` would go about it: how the work is divided, what the JVM decides, what is shipped to Python."""
    check_order("explain", df, query)
    return report(prepare(df, _plan(query), read_match(options, OrderOptions)), partitions, buckets, skewed)


def late_rows(progress: Any) -> int:
    """How many rows a micro-batch set aside as late, from a `StreamingQueryProgress` (or its dict)."""
    return metrics(progress)["late_rows"]


def _plan(query: str | Query) -> Plan:
    return (query if isinstance(query, Query) else compile(query)).plan
