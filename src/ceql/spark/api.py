"""The functions that users call: `match`, `matcher`, `explain`, `late_rows`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Unpack

from pyspark.sql import DataFrame, Observation

from ceql.errors import ArgumentError, warn_caller
from ceql.plan import make_plan
from ceql.plans import Plan
from ceql.query import Query
from ceql.query_set import QuerySet
from ceql.recognition.options import spelt_out
from ceql.spark import batch, query_set
from ceql.spark.extras import Extras
from ceql.spark.lacking_types import telling
from ceql.spark.match_options import DEFAULTS, MatchArguments, MatchOptions, OrderOptions, read_match
from ceql.spark.prepare import Frames, check_order, prepare
from ceql.spark.report import report
from ceql.spark.rule_stream import Keys, Rules, rule_job
from ceql.spark.stream_job import StreamJob, job_of, recognising_now
from ceql.spark.streaming import Seed, stream
from ceql.spark.streaming_checks import check_streaming
from ceql.spark.task_metrics import metrics

BUCKETS = 16
OnBad = Literal["reject", "fail"]
"""The ways to treat an event of a stream that cannot be recognised."""


@spelt_out(MatchOptions, DEFAULTS)
def match(
    df: Frames,
    query: str | Query | QuerySet | Mapping[str, str | Query] | None = None,
    *,
    rules: Rules | None = None,
    keys: Keys | None = None,
    partitions: int | None = None,
    skewed: bool = False,
    buckets: int = BUCKETS,
    late: str | None = None,
    rejects: str | None = None,
    on_bad: OnBad = "reject",
    errors: str | None = None,
    emit: str = "watermark",
    seed: Seed | None = None,
    observe: str | Observation | None = None,
    strict: bool = False,
    **options: Unpack[MatchOptions],
) -> DataFrame:
    """The matches of a query over a DataFrame, as a lazy DataFrame: nothing runs before an action.

    A streaming DataFrame gives a streaming one, in append mode; it needs a watermark on the time column.

    - `df`: the events; for FROM with several streams, a dict with a DataFrame for each.
    - `type`, `time`: the columns of types and times; `time_unit` says what plain numbers count ('s', 'ms', 'us', 'ns').
    - `order_by`: further columns that order events of the same time.
    - `events`: 'rows' for the matched events themselves, 'ids' for the values of the column `id`, 'columns' for a flat
      result: a column `x_a` for attribute a of each variable x that binds one event.
    - `match_id`: the name of a further column, the first, with an id of each match: the key for MERGE, upserts and
      deduplication, the same in every run and that of `Matches.with_ids`. `id` then says which column (or columns)
      identifies an event; without it, all columns do.
    - `partitions`: batch: how many tasks to divide the work into (Spark chooses by default).
    - `skewed`: batch: a few keys have most of the events; cut the stream by time, where the window allows it.
    - `buckets`: streaming: how many states the keys are divided into; it cannot change under a checkpoint.
    - `late`: streaming: the name of a further column that holds the events that came too late; the other columns are
      NULL in such a row. Without it they are only counted.
    - `emit`: streaming: 'watermark': events are recognised when the watermark has passed them, whatever order they come
      in; 'now': they are recognised as they come, if they come in order of time by key. One that is behind another of
      its key is late then.
    - `seed`: streaming: what `state_of` gave for history, from which the stream goes on.
    - `rejects`: streaming: the name of a further column that holds the events that make no sense, as a struct of
      `reason` and `event`: those without a time, as a record has that could not be read. Without it they are only
      counted; `on_bad="fail"` ends the query instead.
    - `rules`: streaming, in place of a query: rules that change while the stream runs, as a second stream with the
      columns `name`, `text`, `version`, `enabled` and `valid_from`, or as a folder of JSON files with these. `keys` are
      the columns by which events are divided (a list: several ways); each rule's PARTITION BY must have those of one
      way. The result has a column `version` after `query`, and with `errors` a further column, the message about a rule
      that makes no sense.
    - `strict`: streaming: refuse to go on from a checkpoint of another set of queries. Without it, queries of the same
      name and meaning go on with their states, those that are gone are dropped, new and changed ones begin.
    - `observe`: what the tasks count, as Spark's observed metrics. Batch: an `Observation`, whose `get` has it after an
      action. Streaming: the progress reports have it always (see `metrics`), under "ceql_" and this name or a number.
    - `memory`: the budget of a task's partial matches, in bytes; `max_states`: of the automaton's states.

    Columns: the partition keys, `start_time`, `end_time`, one array for each selected variable, and `events`, an array
    of all events of the match.

    With a dict of queries by name (or a `ceql.QuerySet`), all of them are matched in one pass. Columns:
    `query` (the name), the partition keys of all queries, `start_time`, `end_time`, `bindings` (a map from each
    selected variable to its events), `measures` (a map from each measure to its value as text), and `events`.
    """
    check_order("match", df, query)
    arguments = read_match(options)
    if rules is not None:
        _check_rules(df, query, arguments, partitions is not None or skewed, observe)
        if seed is not None or emit != "watermark":
            raise ValueError("seed= and emit= do not go with rules=: rules come and go by the watermark")
        delay = check_streaming(df, str(arguments.options.time))
        if delay is None:
            raise ValueError(
                "rules= is for streaming; rules over a batch are a dict: match(df, {'name': 'SELECT ...'})"
            )
        extras = Extras(late, rejects, errors, on_bad, observe if isinstance(observe, str) else None)
        return stream(rule_job(df, rules, arguments, buckets, keys), delay, extras)
    if query is None:
        raise ArgumentError("match takes a query after the DataFrame, a dict of queries by name, or rules=")
    if keys is not None or errors is not None:
        raise ValueError("keys= and errors= go with rules=")
    several = isinstance(query, QuerySet | Mapping)
    if several and (skewed or arguments.flat):
        raise ValueError("skewed= and events='columns' are for one query, not for several")
    delay = check_streaming(df, str(arguments.options.time))
    if delay is None:
        if late is not None:
            raise ValueError("late= is for streaming: in a batch no event comes too late")
        if seed is not None:
            raise ValueError("seed= is for streaming: it is what state_of() gives for the events before the stream")
        if emit != "watermark":
            raise ValueError("emit= is for streaming: a batch has all events before it begins")
        if rejects is not None:
            raise ValueError("rejects= is for streaming: of a batch, filter such rows out")
        if not isinstance(query, str | Query):
            if observe is not None:
                raise ValueError("observe= in a batch is for one query, not for several")
            return query_set.run(df, query_set.to_set(query), arguments, partitions)
        prepared = prepare(df, _plan(query), arguments)
        found = batch.run(prepared, partitions, skewed, observe)
        return telling(found, prepared, {"": prepared.plan.query.formula})
    if partitions is not None or skewed:
        raise ValueError("partitions= and skewed= are for batch; a stream has buckets=")
    if buckets < 1:
        raise ValueError("buckets must be at least 1")
    if observe is not None and not isinstance(observe, str):
        raise ValueError("a stream's metrics are in its progress reports: pass observe= a name, not an Observation")
    for note in {plan.late_note for plan in _plans(query)} - {None}:
        warn_caller(str(note), UserWarning)
    return stream(
        stream_job(df, query, arguments, buckets, strict, emit),
        delay,
        Extras(late, rejects, None, on_bad, observe),
        seed,
    )


def _check_rules(
    df: Frames, query: object, arguments: MatchArguments, divided: bool, observe: str | Observation | None
) -> None:
    if query is not None:
        raise ArgumentError("pass a query, or rules=: rules that are there from the beginning are rows of it, too")
    if isinstance(df, Mapping):
        raise ArgumentError("rules= is for one stream of events, not for a dict of them")
    if divided or arguments.flat:
        raise ValueError("partitions=, skewed= and events='columns' do not go with rules=")
    if observe is not None and not isinstance(observe, str):
        raise ValueError("a stream's metrics are in its progress reports: pass observe= a name, not an Observation")


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
    return query.plan if isinstance(query, Query) else make_plan(query)
