"""The options of a run: which columns have the types and times, and how much memory may be used."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Literal

import numpy as np
import pyarrow as pa

from ceql.errors import QueryError, SchemaError
from ceql.io.sort_keys import ticks
from ceql.syntax import tree as t
from ceql.syntax.parser import parse

Lateness = int | float | str | timedelta
TIME_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True, slots=True)
class Options:
    """The columns of types and times, and the limits.

    `type` and `time` name columns; where the default column is absent, an event's type is the name of its
    stream, and there is no time. `memory` bounds the graph of partial matches, in bytes; of a recogniser, all it holds.
    `threads` is how many may work on it at once.
    """

    type: str | None = "type"
    time: str | None = "time"
    time_unit: str | None = None
    lateness: Lateness = 0
    memory: int = 4 << 30
    max_states: int = 1 << 16
    max_buffered_rows: int = 50_000_000
    threads: int | Literal["all"] = 1

    def __post_init__(self) -> None:
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise ValueError(f"time_unit must be one of {', '.join(TIME_UNITS)}, not {self.time_unit!r}")
        for name in ("type", "time"):
            if not isinstance(getattr(self, name), str | None):
                raise ValueError(f"{name} must be the name of a column or None, not {getattr(self, name)!r}")
        for name in ("memory", "max_states", "max_buffered_rows"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} must be a whole number that is not negative, not {value!r}")
        if self.threads != "all" and (type(self.threads) is not int or self.threads < 1):
            raise ValueError(f"threads must be a whole number of at least 1 or 'all', not {self.threads!r}")
        lateness = self.lateness
        if not isinstance(lateness, Lateness) or (isinstance(lateness, float) and not math.isfinite(lateness)):
            raise ValueError(f"lateness must be a number, a text such as '10 seconds' or a timedelta, not {lateness!r}")

    @property
    def cores(self) -> int:
        """How many threads there may be."""
        if self.threads != "all":
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def nested(self, dotted: tuple[str, ...]) -> tuple[str, ...]:
        """The names of attributes that may be fields of nested ones, given those with a dot in the query."""
        own = [name for name in (self.type, self.time) if name is not None and "." in name]
        return tuple(dict.fromkeys([*dotted, *own]))

    @property
    def assumed(self) -> pa.Schema:
        """The columns of events of which none has come, such as an empty list: what every query may ask for."""
        times = pa.timestamp("us") if self.time_unit is None else pa.int64()
        columns = {self.type: pa.string(), self.time: times}
        return pa.schema([pa.field(name, type) for name, type in columns.items() if name is not None])

    def type_column(self, schema: pa.Schema) -> str | None:
        """The column of types, where there is one."""
        return self._column(self.type, "type", schema, "type column")

    def untyped(self, schemas: Sequence[pa.Schema]) -> frozenset[int]:
        """The numbers of the streams that lack the type column, where another has it."""
        if not any(self.type in schema.names for schema in schemas):
            return frozenset()
        return frozenset(k for k, schema in enumerate(schemas) if self.type not in schema.names)

    def time_column(self, schema: pa.Schema) -> str | None:
        """The column of times, where there is one."""
        return self._column(self.time, "time", schema, "time column")

    @staticmethod
    def _column(name: str | None, default: str, schema: pa.Schema, called: str) -> str | None:
        if name is None or (name == default and name not in schema.names):
            return None
        if name not in schema.names:
            raise SchemaError(
                f"the events have no column '{name}' (given as the {called}); they have {', '.join(schema.names)}"
            )
        return name

    def lateness_in(self, type: pa.DataType | None) -> Fraction:
        """The lateness in the unit of the time column."""
        value = self.lateness
        if value == 0:
            return Fraction(0)
        if type is None:
            raise SchemaError("lateness needs a time column")
        if isinstance(value, str):
            nanoseconds = duration(value)
        elif isinstance(value, timedelta):
            nanoseconds = (value // timedelta(microseconds=1)) * 1000
        else:
            if pa.types.is_temporal(type):
                raise SchemaError(f"times are {type}: give the lateness as text ('10 seconds') or as a timedelta")
            return Fraction(value)
        converted = ticks(nanoseconds, type, self.time_unit)
        if converted is None:
            raise SchemaError(
                f"times are plain numbers ({type}): say their unit with time_unit='s', 'ms', 'us' or 'ns'"
            )
        return converted


def duration(text: str) -> int:
    """A duration as WITHIN reads it, in nanoseconds.

    >>> duration("1 minute 30 seconds")
    90000000000
    """
    if re.fullmatch(r"[\w\s.]+", text):
        try:
            window = parse(f"SELECT * WHERE A WITHIN {text}").window
        except QueryError:
            window = None
        if isinstance(window, t.TimeWindow):
            return window.nanoseconds
    raise ValueError(f"not a duration: {text!r} (write, for example, '10 seconds' or '1 hour 30 minutes')")
