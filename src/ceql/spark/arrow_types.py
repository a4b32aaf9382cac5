"""Spark's types as Arrow's: PySpark's own function, whose arguments differ between 4.1 and 4.2."""

from __future__ import annotations

from inspect import signature

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

_TAKES_ZONE = "timezone" in signature(to_arrow_type).parameters


def arrow_type(kind: DataType, zone: str) -> pa.DataType:
    """The Arrow type of values of a Spark type; a TIMESTAMP is in this time zone.

    >>> from pyspark.sql.types import ArrayType, TimestampType
    >>> print(arrow_type(ArrayType(TimestampType()), "Asia/Tokyo").value_type)
    timestamp[us, tz=Asia/Tokyo]
    """
    if _TAKES_ZONE:
        return to_arrow_type(kind, timezone=zone)
    return in_zone(to_arrow_type(kind), zone)


def in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    """The type with another time zone wherever there is one.

    >>> print(in_zone(pa.struct([("t", pa.timestamp("us", "UTC")), ("n", pa.int64())]), "Asia/Tokyo"))
    struct<t: timestamp[us, tz=Asia/Tokyo], n: int64>
    """

    def field(one: pa.Field) -> pa.Field:
        return one.with_type(in_zone(one.type, zone))

    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, zone)
    if pa.types.is_list(kind):
        return pa.list_(field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([field(kind.field(k)) for k in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(field(kind.key_field), field(kind.item_field))
    return kind
