"""The keys of substreams as SQL expressions: what the engine would find to be a row's keys, computed in the JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from ceql.errors import SchemaError
from ceql.plans import Plan
from ceql.recognition.bound_plan import BoundPlan
from ceql.spark.guard_columns import quoted
from ceql.syntax import tree as t


def keys_as_text(plan: Plan, types: Mapping[str, DataType]) -> frozenset[int]:
    """The keys that compare whole numbers with floats."""
    found = set()
    for k, part in enumerate(plan.partition):
        kinds = {types[ref.attribute].simpleString() for ref in part.refs}
        if kinds & {"float", "double"} and not kinds <= {"float", "double"}:
            if any(kind.startswith("decimal") for kind in kinds):
                names = ", ".join(ref.attribute for ref in part.refs)
                raise SchemaError(
                    f"decimals are compared with floats ({names}), which is not exact in Spark; cast one of them",
                    plan.source,
                    part.span,
                )
            found.add(k)
    return frozenset(found)


def key_types(bound: BoundPlan, types: Mapping[str, DataType]) -> list[str]:
    """The types of the shipped keys."""
    texts = keys_as_text(bound.plan, types)
    kinds = [from_arrow_type(kind).simpleString() for _, kind in bound.keys]
    return ["string" if k in texts else kind for k, kind in enumerate(kinds)]


def key_text(part: t.Part, index: int, bound: BoundPlan, stream: int, types: Mapping[str, DataType]) -> str:
    """The value of a key in SQL; NULL where the event belongs to no substream.

    Of one that has whole numbers and floats it is a text: as floats, large whole numbers would be rounded.
    """
    kind = key_types(bound, types)[index]
    by_text = index in keys_as_text(bound.plan, types)

    def value(ref: t.PartRef) -> str:
        column, own = quoted(ref.attribute), types[ref.attribute].simpleString()
        if by_text and own in ("float", "double"):
            whole = f"{column} = rint({column}) AND abs({column}) < 9223372036854775808D"
            as_whole, as_float = (f"CAST(CAST({column} AS {kind}) AS STRING)" for kind in ("BIGINT", "DOUBLE"))
            return f"CASE WHEN {whole} THEN {as_whole} WHEN NOT isnan({column}) THEN {as_float} END"
        return column if own == kind else f"CAST({column} AS {kind})"

    def agreed(refs: Sequence[t.PartRef]) -> str:
        if not refs:
            return f"CAST(NULL AS {kind})"
        first, *others = (value(ref) for ref in refs)
        if not others:
            return first
        return f"CASE WHEN {' AND '.join(f'{first} = {other}' for other in others)} THEN {first} END"

    def chosen() -> str:
        qualified = list(dict.fromkeys(ref.name for ref in part.refs if ref.name is not None))
        bare = [ref for ref in part.refs if ref.name is None]
        if not qualified:
            return agreed(bare)
        if bound.type is None or stream in bound.untyped:
            name = bound.streams[stream]
            return agreed([ref for ref in part.refs if ref.name in (None, name)])
        of_types = [
            f"WHEN {quoted(bound.type)} = {_literal(name)} "
            f"THEN {agreed([ref for ref in part.refs if ref.name in (None, name)])}"
            for name in qualified
        ]
        return f"CASE {' '.join(of_types)} ELSE {agreed(bare)} END"

    # -0.0 as 0.0, with which it is equal: equal keys must go to one task
    return f"{chosen()} + CAST(0.0 AS {kind})" if kind in ("float", "double") else chosen()


def order_text(order_by: Sequence[str], stream: int | None = None) -> str:
    """A number in SQL that is the same for events that these columns, and the place of the stream, do not order.

    A hash leaves NULLs out, so that it is told which values are.
    """
    parts = [part for name in order_by for part in (quoted(name), f"{quoted(name)} IS NULL")]
    return f"xxhash64({', '.join([*parts, *([] if stream is None else [str(stream)])])})"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
