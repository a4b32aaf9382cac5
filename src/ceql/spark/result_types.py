"""The types of a result's columns, from the query and the events' columns alone: nothing runs.

PARTITION BY keys     as in the events (text, numbers, dates, ...)
start_time, end_time  the type of the time column
a variable            ArrayType(StructType([its attributes])); ArrayType(type of the id) under events='ids';
                      under events='columns' a column for each attribute, where it binds one event
a measure             LongType, DoubleType, DecimalType, StringType, TimestampType, DayTimeIntervalType, ...
events                ArrayType(StructType([all shown attributes])), last; not under events='columns'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType

from ceql.errors import SchemaError
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.result_columns import is_measure, true_name, variable_fields
from ceql.spark.arrow_types import arrow_type
from ceql.spark.result_rows import SUPPRESSED, flat_columns, flat_names, is_flat, result_names, spark_type
from ceql.spark.task_spec import TaskSpec


def event_type(spec: TaskSpec, names: Sequence[str], types: Mapping[str, DataType]) -> DataType:
    """The type of an event of which these attributes are shown, or its id."""
    if spec.ids:
        return types[spec.shown[0]]
    return StructType([StructField(name, types[name]) for name in names])


def result_schema(bound: BoundPlan, spec: TaskSpec, types: Mapping[str, DataType]) -> StructType:
    """The columns of the result; `types` are those of the events' columns."""
    plan = bound.plan
    variables = [true_name(field) for field in variable_fields(bound.result.schema)]
    measures = [field for field in bound.result.schema if is_measure(field)]
    time = types[str(bound.time)]
    first = [*(from_arrow_type(kind) for _, kind in bound.result.keys), time, time]
    computed = [from_arrow_type(spark_type(field.type)) for field in measures]
    measured = [field.name for field in measures]
    if is_flat(spec.flat, plan):
        flat = flat_columns(plan, spec.shown, variables)
        shown = [types[what] if isinstance(what, str) else ArrayType(event_type(spec, what, types)) for _, what in flat]
        return _identified(spec, flat_names(spec.keys, flat, measured), [*first, *shown, *computed])
    lists: list[DataType] = [
        ArrayType(event_type(spec, plan.projections.get(name, spec.shown), types)) for name in variables
    ]
    everything = ArrayType(event_type(spec, spec.shown, types))
    return _identified(spec, result_names(spec.keys, [*variables, *measured]), [*first, *lists, *computed, everything])


def first_fields(match_id: str | None, suppresses: bool, others: Sequence[str]) -> list[StructField]:
    """The columns before all others: ids of matches, and how many were suppressed, if these are wanted."""
    taken = {other.lower() for other in others}
    fields = [] if match_id is None else [StructField(match_id, StringType())]
    fields += [StructField(SUPPRESSED, LongType())] if suppresses else []
    for field, option in zip(fields, ["match_id="] * (match_id is not None) + ["suppress="] * suppresses, strict=True):
        if field.name.lower() in taken:
            raise SchemaError(
                f"{option.removesuffix('=')}='{field.name}' is already a column of the result; give it another name"
                if option == "match_id="
                else f"with suppress= the result has a column '{SUPPRESSED}', and the query has one, too; rename it"
            )
        taken.add(field.name.lower())
    return fields


def arrow_types(schema: StructType, zone: str = "UTC") -> pa.Schema:
    """The Arrow types in which a task gives rows of a result. Times are instants, so the zone does not matter."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType, zone)) for field in schema.fields])


def as_rows(columns: Sequence[pa.Array | None], wanted: pa.Schema) -> pa.RecordBatch:
    """Columns in these types, None for NULLs: all batches of a task must have the very same types."""
    rows = next(len(column) for column in columns if column is not None)
    typed = [
        pa.nulls(rows, field.type)
        if column is None
        else column
        if column.type == field.type
        else column.cast(field.type)
        for column, field in zip(columns, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=wanted)


def _identified(spec: TaskSpec, names: Sequence[str], kinds: Sequence[DataType]) -> StructType:
    fields = first_fields(spec.match_id, spec.suppresses, names)
    return StructType(fields + [StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])
