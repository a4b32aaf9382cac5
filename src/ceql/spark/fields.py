"""Fields of nested columns as columns of their own, as `ceql.io.nested` makes them outside Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from ceql.errors import SchemaError
from ceql.io.nested import field_path
from ceql.spark.guard_columns import quoted


def with_columns(df: DataFrame, schema: pa.Schema, names: Sequence[str]) -> DataFrame:
    """The rows with a column for each of the dotted `names` that is a field; `schema` is that of the rows."""
    for name in names:
        if path := field_path(schema, name):
            df = df.withColumn(name, F.col(".".join(map(quoted, path))))
    return df


def with_fields(struct: StructType, schema: pa.Schema, names: Sequence[str]) -> StructType:
    """The columns that `with_columns` gives to rows with these."""
    fields = list(struct.fields)
    for name in names:
        if path := field_path(schema, name):
            kind: DataType = struct
            for step in path:
                assert isinstance(kind, StructType)
                kind = kind[step].dataType
            fields.append(StructField(name, kind))
    return StructType(fields)


def refuse_fields(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raises an error if one of the `names` is a field: a table function reads columns."""
    for name in names:
        if field_path(schema, name):
            raise SchemaError(
                f"'{name}' is a field, and the function reads columns: make it one, in "
                f"TABLE(SELECT *, {name} AS `{name}` FROM ...)"
            )
