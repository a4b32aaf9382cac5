"""Refuses to compare text of a column with a collation: ceql compares text byte by byte, as UTF8_BINARY does.

Keys, types and conditions are decided partly in the JVM and partly by the engine, which knows no collations. So a
column with one is refused by name wherever it would be compared, and only there: to show it is no trouble.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.types import StringType, StructType

from ceql.errors import SchemaError
from ceql.recognition.bound_plan import BoundPlan
from ceql.syntax import tree as t
from ceql.syntax.walking import nodes

_COMPARE_NOTHING = {"FIRST", "LAST", "LOWER", "UPPER", "LENGTH", "SUBSTRING", "CONCAT", "COALESCE"}
"""Functions of text in measures that mean the same under any collation."""


def collations(structs: Sequence[StructType]) -> dict[str, str]:
    """The columns that have a collation, and which."""
    return {
        field.name: field.dataType.collation
        for struct in structs
        for field in struct.fields
        if isinstance(field.dataType, StringType) and not field.dataType.isUTF8BinaryCollation()
    }


def refuse_collations(collated: Mapping[str, str], bound: BoundPlan, order_by: Sequence[str] = ()) -> None:
    """Raise `SchemaError` for the first column of `collated` whose values the query compares, or that orders events."""
    if not collated:
        return
    used = {**dict.fromkeys(order_by, "orders events"), **_compared(bound.plan.query)}
    if bound.type is not None:
        used[bound.type] = "has the events' types"
    for name, collation in collated.items():
        if name in used:
            raise SchemaError(
                f"column '{name}' {used[name]} and has the collation {collation}, but ceql compares text byte by byte",
                suggestion=f"Before match(), make it df.withColumn('{name}', F.collate('{name}', 'UTF8_BINARY')), "
                f"or F.lower(F.collate('{name}', 'UTF8_BINARY')) to leave case out of account; in SQL, "
                f"`{name}` COLLATE UTF8_BINARY.",
            )


def _compared(query: t.Query) -> dict[str, str]:
    """The attributes whose values are compared, and for what."""
    found: dict[str, str] = {}
    for node in nodes(query.measures):
        if isinstance(node, t.Aggregate | t.Call) and node.function not in _COMPARE_NOTHING:
            found.update((ref.attribute, "is compared") for ref in nodes(node) if isinstance(ref, t.Ref))
    for node in nodes(query.formula):
        if isinstance(node, t.Ref | t.Prev):
            found[node.attribute] = "is compared"
        elif isinstance(node, t.Attribute):
            found[node.name] = "is compared"
    for node in nodes((*query.partition, query.formula)):
        if isinstance(node, t.PartRef):
            found[node.attribute] = "is a key"
    return found
