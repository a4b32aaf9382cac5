"""The job of a stream whose rules come by a second stream, a folder or a table: `match(stream, rules=...)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ceql.errors import ArgumentError, SchemaError, did_you_mean
from ceql.io.sort_keys import is_ordered
from ceql.plans import Plan
from ceql.recognition.snapshot import schema_to_text
from ceql.spark.match_options import MatchArguments
from ceql.spark.prepare import Frames, prepare, require_column
from ceql.spark.query_set import any_event, carried, schema_of
from ceql.spark.rules import Ruling
from ceql.spark.stream_job import RowGroup, StreamJob, digest, identity_of, terms_of
from ceql.syntax import tree as t

Rules = DataFrame | str | PathLike[str]
"""A stream of rules, or a folder of JSON files with a rule in each line."""
Keys = str | Sequence[str | Sequence[str]]
_COLUMNS = {"name": "string", "text": "string", "version": "string", "enabled": "boolean", "valid_from": "timestamp"}
"""The columns of rules, and what their values are cast to; all but the first two may be missing."""


def rule_job(frames: Frames, rules: Rules, arguments: MatchArguments, buckets: int, keys: Keys | None) -> StreamJob:
    """What a stream has to do whose rules come by `rules`, its events divided by `keys`."""
    divisions = _divisions(keys)
    whole = prepare(frames, _any_event(()), arguments)
    schema = whole.bound.schema
    if len(whole.streams) > 1:
        raise ArgumentError("rules= is for one stream of events")
    for name in dict.fromkeys(name for division in divisions for name in division):
        require_column(name, schema, "keys")
    carriers, templates = zip(
        *(carried(frames, _any_event(division), whole, tuple(schema.names), arguments) for division in divisions),
        strict=True,
    )
    shown = _shown_keys(divisions, schema)
    ruling = Ruling(
        templates,
        divisions,
        schema_to_text(schema),
        replace(arguments.options, lateness=0),
        tuple(whole.collated.items()),
        tuple(shown.items()),
        arguments,
    )
    groups = tuple(
        RowGroup(carrier, template, identity_of(division))
        for carrier, template, division in zip(carriers, templates, divisions, strict=True)
    )
    fingerprint = digest(["rules", divisions], 16).hex()
    terms = terms_of(groups, fingerprint, f"rules over a stream that is divided by {divisions}", buckets)
    ruled, result = rule_rows(rules, whole.streams[0].sparkSession), schema_of(whole, shown, arguments, True)
    return StreamJob(groups, terms, result, whole.event_type, True, ruling, ruled)  # a rule may wait


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
    parts = tuple(t.Part((t.PartRef(name),)) for name in keys)
    return any_event((t.Event("any", None),), parts, None, not keys, True, (), "SELECT * WHERE any : any")


def _shown_keys(divisions: tuple[tuple[str, ...], ...], schema: pa.Schema) -> dict[str, pa.DataType]:
    """The keys that the result shows, with their types."""
    found = {name: schema.field(name).type for division in divisions for name in division}
    for name, kind in found.items():
        if not (is_ordered(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind)):
            raise SchemaError(f"column '{name}' is {kind}, which is no key")
    return found
