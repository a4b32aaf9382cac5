"""Measures over whole batches of matches: the columns that SELECT computes.

In: a batch of matches with the positions of each variable's events, and the attributes of these events. Out: a column
for each measure. What a measure reads of a match (aggregates, attributes, times) is a column with a row for each match
(`folds`); the rest of it is calculated over such columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.analysis.measures import measured_attributes
from ceql.io.schemas import value_type
from ceql.jit import Array
from ceql.predicates.masks import MaskCompiler
from ceql.predicates.time_arithmetic import unit_in
from ceql.recognition.checks import numbered
from ceql.recognition.folds import Folds, outside
from ceql.recognition.result_columns import as_lists, true_name
from ceql.syntax import tree as t
from ceql.syntax.printer import print_expression
from ceql.syntax.walking import nodes

Take = Callable[[Array], pa.RecordBatch]
"""The attributes that measures read, of the events at these ascending positions."""


_Compiled = tuple[pa.DataType, list[Any], Callable[[pa.RecordBatch], Any]]


@dataclass(frozen=True)
class Measures:
    """The measures of a query over the columns of its events."""

    query: t.Query
    folds: Folds

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The columns of the events that are read."""
        return measured_attributes(self.query)

    @cached_property
    def columns(self) -> list[tuple[str, pa.DataType]]:
        """The name and type of each measure; one that does not fit the events is a `SchemaError`."""
        return [
            (measure.name or print_expression(measure.expression), type)
            for measure, (type, _, _) in zip(self.query.measures, self._compiled, strict=True)
        ]

    def calculate(self, matches: pa.RecordBatch, take: Take) -> list[pa.Array]:
        """The columns of these matches, which have the positions of every variable."""
        look = _Look(self, matches, take)
        found = []
        for type, parts, read in self._compiled:
            values = {f"#{k}": look.value(part) for k, part in enumerate(parts)}
            batch = pa.record_batch(values) if values else matches
            column = read(batch)
            if isinstance(column, pa.Scalar):
                column = pa.repeat(column, matches.num_rows)
            found.append(column if column.type == type else column.cast(type))
        return found

    @cached_property
    def _compiled(self) -> list[_Compiled]:
        return [self._compile(measure) for measure in self.query.measures]

    def _compile(self, measure: t.Measure) -> _Compiled:
        """The type of a measure, what it reads of a match, and what calculates it from columns of these."""
        parts: list[Any] = []
        read_of = (t.Ref, t.Aggregate, t.Lapse)
        rest = outside(measure.expression, parts, read_of, lambda k: t.Attribute(f"#{k}"))
        schema = pa.schema([self.folds.field(f"#{k}", part) for k, part in enumerate(parts)])
        if rest == t.Attribute("#0"):
            return schema.types[0], parts, lambda batch: batch.column(0)
        compiler = MaskCompiler(
            lambda node: value_type(schema.field(node.name).type),
            self.folds.source,
            lambda node: unit_in(schema, node.name),
        )
        type, read = compiler.expression(rest)
        return type, parts, read


class _Look:
    """One batch of matches."""

    def __init__(self, measures: Measures, matches: pa.RecordBatch, take: Take) -> None:
        self.folds = measures.folds
        self.matches = matches
        after = matches.schema.get_field_index("events") + 1
        own = list(matches.schema)[after:]
        self.lists = {true_name(field): as_lists(matches.column(field.name)) for field in own}
        self.known: dict[Any, pa.Array] = {}
        self._offsets: dict[str, Array] = {}
        read = sorted({n.variable for n in nodes(measures.query.measures) if isinstance(n, t.Ref)})
        positions, rows = numbered(*(np.asarray(self.lists[name].flatten()) for name in read))
        self.rows = dict(zip(read, rows, strict=True))
        self.data = take(positions) if len(positions) else None

    def value(self, part: Any) -> pa.Array:
        """The value of this part in each match."""
        if part not in self.known:
            self.known[part] = self._value(part)
        return self.known[part]

    def _value(self, part: Any) -> pa.Array:
        match part:
            case t.Lapse("DURATION"):
                return pc.subtract(self.matches.column("end_time"), self.matches.column("start_time"))
            case t.Lapse(name):
                return self.matches.column(name.lower())
            case t.Ref(variable):
                return self._single(part, variable)
            case t.Aggregate("COUNT", variable, None):
                return self.lists[variable].value_lengths().cast(pa.int64())
            case t.Aggregate(_, variable, operand) if operand is not None:
                values = self.folds.values(operand, self.data) if self.data is not None else pa.nulls(0)
                return self.folds.fold(part, values, self.rows[variable], self.offsets(variable))
        raise AssertionError(part)

    def offsets(self, variable: str) -> Array:
        """Where the entries of each match begin."""
        if variable not in self._offsets:
            offsets = np.asarray(self.lists[variable].offsets).astype(np.int64)
            self._offsets[variable] = offsets - offsets[0] if offsets[0] else offsets
        return self._offsets[variable]

    def _single(self, part: t.Ref, variable: str) -> pa.Array:
        """The attribute of a variable that is bound to one event at most."""
        row, count = self.rows[variable], self.matches.num_rows
        if not len(row):
            return pa.nulls(count, self.folds.type_of(part))
        values = self.folds.values(part, self.data)
        if len(row) == count:  # one each
            return values.take(pa.array(row))
        offsets = self.offsets(variable)
        none = offsets[:-1] == offsets[1:]
        return values.take(pa.array(row[np.minimum(offsets[:-1], len(row) - 1)], mask=none))
