"""Results in other shapes: their columns before there is a result, and one row for each matched event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from ceql.errors import ArgumentError
from ceql.io.schemas import unify_schemas
from ceql.plan import make_plan
from ceql.query import Query
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.options import spelt_out
from ceql.recognition.result_columns import unique_names
from ceql.spark import result_types
from ceql.spark.collations import collations, refuse_collations
from ceql.spark.fields import with_fields
from ceql.spark.guard_columns import quoted
from ceql.spark.match_options import DEFAULTS, ResultOptions, read_match
from ceql.spark.prepare import arrow_schema, check_order, check_time, column_types, shown_attributes, streams_of
from ceql.spark.task_spec import TaskSpec

_EXACT = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of `to_json` under which different rows are different texts, in every session: by default it leaves NULLs
out, cuts times to milliseconds, and writes them in the session's zone."""

Columns = DataFrame | StructType
"""The columns of events: a DataFrame that has them, or their types."""


@spelt_out(ResultOptions, DEFAULTS)
def result_schema(
    columns: Columns | Mapping[str, Columns], query: str | Query, **options: Unpack[ResultOptions]
) -> StructType:
    """The columns that `match` gives for events with these columns. Nothing runs.

    With a StructType no session is needed. The arguments are those of `match`, and so are the errors.

    >>> from pyspark.sql.types import LongType, StringType, TimestampType
    >>> events = StructType().add("type", StringType()).add("time", TimestampType()).add("v", LongType())
    >>> result_schema(events, "SELECT a, COUNT(b) AS n WHERE A AS a ; B+ AS b", events="columns").simpleString()
    'struct<start_time:timestamp,end_time:timestamp,a_type:string,a_time:timestamp,a_v:bigint,n:bigint>'
    """
    check_order("result_schema", columns, query, StructType)
    plan = query.plan if isinstance(query, Query) else make_plan(query)
    arguments = read_match(options, ResultOptions)
    given = {name: _struct(own) for name, own in columns.items()} if isinstance(columns, Mapping) else _struct(columns)
    fields = arguments.options.nested(plan.dotted)
    structs = [with_fields(own, arrow_schema(own, "UTC"), fields) for _, own in streams_of(given, plan)]
    schemas = [arrow_schema(struct, "UTC") for struct in structs]
    schema = unify_schemas(schemas)
    check_time(arguments.options, schema)
    untyped = arguments.options.untyped(schemas)
    bound = BoundPlan(plan, schema, tuple(plan.query.streams or (None,)), arguments.options, untyped=untyped)
    refuse_collations(collations(structs), bound)
    spec = TaskSpec(
        query=plan.source,
        options=arguments.options,
        attributes=(),
        keys=tuple(name for name, _ in bound.result.keys),
        shown=shown_attributes(arguments, plan, schema),
        ids=arguments.ids,
        exact=(),
        flat=arguments.flat,
        match_id=arguments.match_id,
        suppresses=arguments.suppress is not None,
    )
    return result_types.result_schema(bound, spec, column_types(structs, schema))


def _struct(columns: Columns) -> StructType:
    return columns if isinstance(columns, StructType) else columns.schema


def match_id(df: DataFrame) -> Column:
    """A column that identifies each match of a result of `match`: 32 hexadecimal digits, the same in every run.

    It is a hash (128 bits of SHA-256) of all columns of `df`, whatever the shape, at full precision and without regard
    to the session's time zone; a NULL is a value like others. Matches that agree in every column have one id: let
    SELECT show what tells events apart, or pass `events="ids"`. `match` with `match_id=` gives an id that does not
    depend on what is shown, and is that of `Matches.with_ids`.

    `found.withColumn("id", match_id(found))` is what a MERGE, an upsert or a reader of a topic can go by.
    """
    text = F.to_json(F.struct(*(_column(name) for name in df.columns)), _EXACT)
    return F.substring(F.sha2(text, 256), 1, 32)


def matches_to_rows(df: DataFrame) -> DataFrame:
    """One row for each event of each match, from the result of `match` with `events="rows"` or `"ids"`.

    Columns: `match`, a text that the rows of one match have in common (`match_id`);
    `variable` and `place`, which variable the event is bound to, as its first (0), second, ... event; the columns of
    the match that are no arrays of events (keys, times, measures); and the attributes of the event, or its `id`. Where
    SELECT names attributes (`x[a, b]`), the others are NULL. An event that is bound to several variables has a row for
    each. A column that is called like one before it gets an underscore at its end.

    `match(...).transform(matches_to_rows)` chains; it works on streams.
    """
    arrays = {f.name: f.dataType.elementType for f in df.schema.fields if isinstance(f.dataType, ArrayType)}
    if "events" not in arrays:
        raise ArgumentError(
            "matches_to_rows takes the result of match() with events='rows' or 'ids': there is no array 'events'"
        )
    whole = arrays["events"]
    variables = [name for name in arrays if name != "events"] or ["events"]
    kept = [name for name in df.columns if name not in arrays]
    attributes = whole.names if isinstance(whole, StructType) else ["id"]
    names = unique_names([*kept, *attributes], taken=("match", "variable", "place"))
    bound = F.concat(*(_bound(name, arrays[name], whole) for name in variables))
    rows = df.select(
        match_id(df).alias("match"),
        *(_column(name).alias(f"kept{k}") for k, name in enumerate(kept)),
        F.explode(bound).alias("one"),
    )
    shown = [_column(f"kept{k}") for k in range(len(kept))]
    shown += [F.col(f"one.a{k}") for k in range(len(attributes))]
    return rows.select(
        "match",
        F.col("one.variable").alias("variable"),
        F.col("one.place").alias("place"),
        *(column.alias(name) for column, name in zip(shown, names, strict=True)),
    )


def _bound(name: str, kind: DataType, whole: DataType) -> Column:
    """The events of a variable as structs of its name, their places and all attributes (NULL for those not shown)."""

    def row(event: Column, place: Column) -> Column:
        if not isinstance(whole, StructType):
            values = [event.alias("a0")]
        else:
            own = kind.names if isinstance(kind, StructType) else []
            values = [
                (event.getField(field.name) if field.name in own else F.lit(None)).cast(field.dataType).alias(f"a{k}")
                for k, field in enumerate(whole.fields)
            ]
        variable = F.lit(None).cast("string") if name == "events" else F.lit(name)
        return F.struct(variable.alias("variable"), place.alias("place"), *values)

    return F.transform(_column(name), row)


def _column(name: str) -> Column:
    return F.col(quoted(name))
