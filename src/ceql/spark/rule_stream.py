"""The job of a stream whose rules come by a second stream, a folder or a table: `match(stream, rules=...)`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from os import PathLike

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from ceql.errors import ArgumentError, SchemaError, did_you_mean
from ceql.io.sort_keys import is_ordered
from ceql.plan import plan_query
from ceql.plans import Plan
from ceql.recognition.snapshot import schema_to_text
from ceql.spark.match_options import MatchArguments
from ceql.spark.prepare import Frames, Prepared, prepare, require_column
from ceql.spark.result_types import first_fields
from ceql.spark.rules import Ruling
from ceql.spark.stream_job import RowGroup, StreamJob, place_of, terms_of
from ceql.syntax import tree as t

Rules = DataFrame | str | PathLike[str]
"""A stream of rules, or a folder of JSON files with a rule in each line."""
Keys = str | Sequence[str | Sequence[str]]
_COLUMNS = {"name": "string", "text": "string", "version": "string", "enabled": "boolean", "valid_from": "timestamp"}
"""The columns of rules, and what their values are cast to; all but the first two may be missing."""
_LAST = ("start_time", "end_time", "bindings", "measures", "events")


def rule_job(frames: Frames, rules: Rules, arguments: MatchArguments, buckets: int, keys: Keys | None) -> StreamJob:
    """What a stream has to do whose rules come by `rules`, its events divided by `keys`."""
    divisions = _divisions(keys)
    whole = prepare(frames, _any_event(()), arguments)
    schema = whole.bound.schema
    if len(whole.streams) > 1:
        raise ArgumentError("rules= is for one stream of events")
    for name in dict.fromkeys(name for division in divisions for name in division):
        require_column(name, schema, "keys")
    everything = replace(
        arguments, read=tuple(schema.names), ids=False, id=(), match_id=None, suppress=None, flat=False
    )
    carriers = [prepare(frames, _any_event(division), everything) for division in divisions]
    templates = tuple(
        replace(
            carrier.spec,
            exact=(),
            undecided=(),
            type=whole.bound.type,
            shown=whole.spec.shown,
            ids=arguments.ids,
            match_id=arguments.match_id,
            suppresses=arguments.suppress is not None,
            suppress=None,
            told_by=whole.spec.told_by,
        )
        for carrier in carriers
    )
    shown = _shown_keys(divisions, whole)
    ruling = Ruling(
        templates,
        divisions,
        schema_to_text(schema),
        replace(arguments.options, lateness=0),
        tuple(whole.collated.items()),
        tuple((name, schema.field(name).type) for name in shown),
        arguments,
    )
    groups = tuple(
        RowGroup(carrier, template, _identity(division))
        for carrier, template, division in zip(carriers, templates, divisions, strict=True)
    )
    if len({place_of(group.identity, buckets) for group in groups}) < len(groups):
        raise ArgumentError(f"two of keys= are alike, or their numbers clash: pass another number than {buckets=}")
    fingerprint = blake2b(json.dumps(["rules", divisions]).encode(), digest_size=16).hexdigest()
    terms = terms_of(groups, fingerprint, f"rules over a stream that is divided by {divisions}", buckets)
    session = whole.streams[0].sparkSession
    ruled = rule_rows(rules, session)
    return StreamJob(groups, terms, _schema(whole, shown), whole.event_type, True, ruling, ruled)  # a rule may wait


def rule_rows(rules: Rules, session: SparkSession) -> DataFrame:
    """The rules with the columns that tasks know: times are in microseconds, what is missing has its default.

    `wrong` says of a value that it cannot be read: as NULL it would mean a rule that is on, at once.
    """
    if isinstance(rules, str | PathLike):
        rules = session.readStream.schema(", ".join(f"{name} string" for name in _COLUMNS)).json(str(rules))
    if not isinstance(rules, DataFrame) or not rules.isStreaming:
        raise ArgumentError(
            "rules= is a streaming DataFrame (spark.readStream...) or a folder of JSON files; rules that do not change "
            "are a dict: match(df, {'name': 'SELECT ...'})"
        )
    known = {name.lower(): name for name in rules.columns}
    for name in ("name", "text"):
        if name not in known:
            raise SchemaError(
                f"the rules have no column '{name}'; they have {', '.join(rules.columns)}",
                suggestion=did_you_mean(name, rules.columns),
            )

    def given(name: str) -> Column:
        return F.col(f"`{known[name]}`") if name in known else F.lit(None)

    read = {name: given(name).try_cast(kind) for name, kind in _COLUMNS.items()}
    complaints = [
        F.when(read[name].isNull(), F.concat(F.lit(f"{name} is no {_COLUMNS[name]}: "), given(name).cast("string")))
        for name in ("enabled", "valid_from")
    ]
    return rules.select(
        *(read[name].alias(name) for name in ("name", "text", "version")),
        F.coalesce(read["enabled"], F.lit(True)).alias("enabled"),
        F.unix_micros(read["valid_from"]).alias("valid_from"),
        F.coalesce(*complaints).alias("wrong"),
    )


def _divisions(keys: Keys | None) -> tuple[tuple[str, ...], ...]:
    """The columns of each division."""
    if keys is None or not len(keys):
        return ((),)
    given = (keys,) if isinstance(keys, str) else tuple(keys)
    divisions = tuple((one,) if isinstance(one, str) else tuple(one) for one in given)
    if not all(isinstance(name, str) for division in divisions for name in division):
        raise ArgumentError(
            f"keys= are the columns that divide events: 'card', or ['card', ['card', 'shop']], not {keys!r}"
        )
    return divisions


def _any_event(keys: tuple[str, ...]) -> Plan:
    """A query for which all events are shipped, by these keys."""
    event = t.Event("any", None)
    parts = tuple(t.Part((t.PartRef(name),)) for name in keys)
    consume = t.Consume.NONE if keys else t.Consume.ANY
    query = t.Query(t.Then((event, event), (t.Joint.TOUCH,)), partition=parts, consume=consume)
    return plan_query(query, "SELECT * WHERE any : any")


def _identity(division: tuple[str, ...]) -> int:
    return int.from_bytes(blake2b(json.dumps(division).encode(), digest_size=8).digest())


def _shown_keys(divisions: tuple[tuple[str, ...], ...], whole: Prepared) -> tuple[str, ...]:
    """The keys that the result shows."""
    for name in dict.fromkeys(name for division in divisions for name in division):
        kind = whole.bound.schema.field(name).type
        if not (is_ordered(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind)):
            raise SchemaError(f"column '{name}' is {kind}, which is no key")
    return tuple(dict.fromkeys(name for division in divisions for name in division))


def _schema(whole: Prepared, keys: tuple[str, ...]) -> StructType:
    """The columns of the result."""
    event, time = whole.event_type, whole.schema["start_time"].dataType
    taken, shown = {"query", "version", *_LAST}, []
    for name in keys:
        kind = from_arrow_type(whole.bound.schema.field(name).type)
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        shown.append(StructField(name, kind))
    own = [
        StructField("query", StringType()),
        StructField("version", StringType()),
        *shown,
        StructField("start_time", time),
        StructField("end_time", time),
        StructField("bindings", MapType(StringType(), ArrayType(event))),
        StructField("measures", MapType(StringType(), StringType())),
        StructField("events", ArrayType(event)),
    ]
    return StructType([*first_fields(whole.spec.match_id, whole.spec.suppresses, [field.name for field in own]), *own])
