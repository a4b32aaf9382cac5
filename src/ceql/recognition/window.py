"""WITHIN over the columns of the events.

In: the clause and the schema. Out: for each event two numbers, its key as the start of a match and the least key that
the start of a match ending here may have.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.engine.common.layout import NO_KEY, W_COUNTED, W_ENVELOPE, W_GIVEN
from ceql.errors import DataError, SchemaError, no_column
from ceql.io.sort_keys import bounds, encode, is_ordered, ticks
from ceql.jit import Array
from ceql.plans import Plan
from ceql.recognition.options import Options
from ceql.syntax import tree as t

NOTHING_LIVE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class BoundWindow:
    """A window as the loops take it (`kind`, `width`), and the column that measures it: `size` units of its `type`."""

    kind: int
    width: int = 0
    column: str | None = None
    type: pa.DataType | None = None
    size: Fraction | None = None

    @property
    def exact(self) -> bool:
        """Whether each start must be checked by itself: the measure may decrease."""
        return self.kind == W_ENVELOPE

    @property
    def counts_all_rows(self) -> bool:
        """Whether events that no guard accepts count too."""
        return self.kind == W_COUNTED

    @property
    def shift(self) -> int:
        """By how much keys are greater than the encoded values: that of an unsigned 0 must not be `NO_KEY`."""
        return int(self.type == pa.uint64())

    def keys(
        self, batch: pa.RecordBatch, rows: Array | None, positions: Array, times: Array | None
    ) -> tuple[Array, Array]:
        """Start keys and bounds of the rows (all, when None); `times` are the encoded times of these rows."""
        if self.column is None:
            if self.size is None:
                return positions, np.full(len(positions), NO_KEY, np.int64)
            return positions, positions - int(self.size)
        if self.kind == W_GIVEN:
            assert times is not None
            assert self.type is not None
            assert self.size is not None
            keys = times + self.shift if self.shift else times
            if len(keys) and (keys[0] == NO_KEY or keys[-1] == NO_KEY):  # times are in order; a shift may go round
                raise self._extreme()
            return keys, _some_key(bounds(keys, self.type, self.size))
        return self._attribute(batch, rows)

    def _extreme(self) -> DataError:
        """Two keys stand for "none"; no window can be measured from the values that would have them."""
        return DataError(
            f"column '{self.column}' has the least or the greatest {self.type} there is, from which no window can be "
            "measured; leave such events out"
        )

    def _attribute(self, batch: pa.RecordBatch, rows: Array | None) -> tuple[Array, Array]:
        assert self.type is not None
        assert self.size is not None
        index = batch.schema.get_field_index(self.column)
        values = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows, self.type)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if values.type != self.type and not pa.types.is_null(values.type):
            try:
                values = values.cast(self.type)
            except pa.ArrowInvalid as error:
                raise DataError(
                    f"the window attribute '{self.column}' was {self.type} and now is {values.type}: {error}"
                ) from error
        if rows is not None:
            values = values.take(pa.array(rows))
        if pa.types.is_floating(values.type):
            values = values.cast(pa.float64())  # older releases of pyarrow can do little with float16
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        if pa.types.is_null(values.type):
            return np.full(len(values), NO_KEY, np.int64), np.full(len(values), NOTHING_LIVE, np.int64)
        keys = encode(values, str(self.column)) + self.shift
        if ((keys == NO_KEY) | (keys == NOTHING_LIVE)).any():
            raise self._extreme()
        lowest = _some_key(bounds(keys, values.type, self.size))
        if values.null_count:
            absent = values.is_null().to_numpy(zero_copy_only=False)
            keys = np.where(absent, NO_KEY, keys)
            lowest = np.where(absent, NOTHING_LIVE, lowest)
        return keys, lowest


def _some_key(lowest: Array) -> Array:
    """The bounds, none of which is "none": that would be no window."""
    return np.maximum(lowest, NO_KEY + 1)


def bind_window(
    plan: Plan,
    schema: pa.Schema,
    time: str | None,
    options: Options,
    open_schema: bool,
    window: t.Window | None = None,
) -> BoundWindow:
    """The window of a query over these columns, or another window of it, which stands inside the formula."""
    window = window or plan.query.window
    match window:
        case None:
            return BoundWindow(W_GIVEN)
        case t.EventsWindow(count) if plan.partition:
            return BoundWindow(W_COUNTED, width=count)
        case t.EventsWindow(count):
            return BoundWindow(W_GIVEN, size=Fraction(count))
        case t.TimeWindow(nanoseconds, span=span):
            if time is None:
                hint = f"Pass time=, one of: {', '.join(schema.names)}." if schema.names else None
                raise SchemaError("WITHIN a duration needs a time column, and there is none", plan.source, span, hint)
            type = schema.field(time).type
            if not is_ordered(type) and not pa.types.is_null(type):
                raise SchemaError(f"the time column '{time}' is {type}, which is no time", plan.source, span)
            size = ticks(nanoseconds, type, options.time_unit)
            if size is None:
                raise SchemaError(
                    f"the time column '{time}' holds plain numbers ({type}), whose unit is not known",
                    plan.source,
                    span,
                    "Say it with time_unit='s', 'ms', 'us' or 'ns'.",
                )
            return BoundWindow(W_GIVEN, column=time, type=type, size=size)
        case t.AttributeWindow(size, attribute, span=span):
            index = schema.get_field_index(attribute)
            if index < 0 and not open_schema:
                raise no_column(attribute, schema.names, plan.source, span)
            type = schema.field(index).type if index >= 0 else pa.null()
            if pa.types.is_dictionary(type):
                type = type.value_type
            if not is_ordered(type) and not pa.types.is_null(type):
                raise SchemaError(f"column '{attribute}' ({type}) cannot measure a window", plan.source, span)
            if pa.types.is_null(type):  # not seen yet: floats hold whatever may come
                type = pa.float64()
            return BoundWindow(W_ENVELOPE, column=attribute, type=type, size=Fraction(size))
    raise AssertionError(window)
