"""Names the columns that a stream has besides matches: late events, rejected events, rejected rules.

A row of the stateful step is of a kind. The result has a column for each kind that is wanted besides matches; the other
columns are NULL in its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import DataType, StringType, StructField, StructType

from ceql.errors import ArgumentError, SchemaError
from ceql.spark.result_types import as_rows
from ceql.spark.task_recognizer import NO_TIME
from ceql.spark.task_spec import TaskSpec

KIND = "kind"
MATCHES, LATE, REJECTED, ERRORS = range(4)
_OPTIONS = {LATE: "late", REJECTED: "rejects", ERRORS: "errors"}
ERROR = pa.schema([pa.field(name, pa.string()) for name in ("query", "version", "error")])
"""The columns of a rule that makes no sense: the last is that of its kind, the others are columns of the result."""


@dataclass(frozen=True)
class Extras:
    """Which kinds are wanted, by the names of their columns, and what is done about events that make no sense."""

    late: str | None = None
    rejects: str | None = None
    errors: str | None = None
    on_bad: str = "reject"
    observe: str | None = None
    """The name of the metrics."""

    def __post_init__(self) -> None:
        if self.on_bad not in ("reject", "fail"):
            raise ArgumentError(f"on_bad must be 'reject' or 'fail', not {self.on_bad!r}")
        if self.on_bad == "fail" and self.rejects is not None:
            raise ArgumentError("with on_bad='fail' no event is rejected: leave out rejects=")

    @property
    def columns(self) -> dict[int, str]:
        """The columns that are wanted, by their kinds."""
        given = {LATE: self.late, REJECTED: self.rejects, ERRORS: self.errors}
        return {kind: name for kind, name in given.items() if name is not None}

    def fields(self, taken: Sequence[str], event: DataType) -> list[StructField]:
        """The fields of these columns, for events of this type."""
        rejected = StructType([StructField("reason", StringType()), StructField("event", event)])
        types: dict[int, DataType] = {LATE: event, REJECTED: rejected, ERRORS: StringType()}
        known = {name.lower() for name in taken}
        for kind, name in self.columns.items():
            if name.lower() in known:
                raise SchemaError(f"{_OPTIONS[kind]}='{name}' is already a column of the result; give it another name")
            known.add(name.lower())
        return [StructField(name, types[kind]) for kind, name in self.columns.items()]


def placed(found: pa.RecordBatch, kind: int, kinds: tuple[int, ...], wanted: pa.Schema) -> pa.RecordBatch:
    """Rows of a kind as rows of the result, whose last columns have rows of these kinds."""
    columns: list[pa.Array | None] = [None] * len(wanted)
    first = len(wanted) - len(kinds)
    if kind == MATCHES:
        columns[:first] = found.columns
    else:
        columns[first + kinds.index(kind)] = found.columns[-1]
        for name in found.schema.names[:-1]:
            columns[wanted.get_field_index(name)] = found.column(name)
    return as_rows(columns, wanted)


def late_events(rows: pa.RecordBatch, spec: TaskSpec) -> pa.RecordBatch:
    """A column of the events that the result would have shown of shipped rows."""
    columns = [rows.column(spec.place[name]) for name in spec.shown]
    events = columns[0] if spec.ids else pa.StructArray.from_arrays(columns, names=list(spec.shown))
    return pa.RecordBatch.from_arrays([events], names=["event"])


def rejected_events(rows: pa.RecordBatch, spec: TaskSpec) -> pa.RecordBatch:
    """A column of such events, each with the reason why it makes no sense."""
    reasons = pa.array([NO_TIME] * rows.num_rows, pa.string())
    told = pa.StructArray.from_arrays([reasons, late_events(rows, spec).column(0)], names=["reason", "event"])
    return pa.RecordBatch.from_arrays([told], names=["rejected"])
