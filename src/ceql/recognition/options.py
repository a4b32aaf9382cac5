"""The options of a run or a recogniser: spelt out, read, checked and documented here, once for all who take them.

A caller takes them as `**options: Unpack[RunOptions]` (or `FeedOptions`), under `spelt_out`, which shows each in the
signature; `read` makes the one value of them that goes on: `Options`.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from math import inf
from operator import index
from typing import Any, Literal, TypedDict, TypeVar

import pyarrow as pa

from ceql.errors import ArgumentError, DataError, QueryError, SchemaError, did_you_mean
from ceql.io.dicts import is_writable
from ceql.io.sort_keys import ticks
from ceql.syntax import tree as t
from ceql.syntax.parser import parse

Lateness = int | float | str | timedelta
Threads = int | Literal["all", "auto"]
OnBad = Literal["fail", "reject"]
TIME_UNITS = ("s", "ms", "us", "ns")
BATCH_ROWS = 1 << 17
"""The rows of a batch, unless the caller says how many."""
_Function = TypeVar("_Function", bound=Callable[..., Any])


class ColumnOptions(TypedDict, total=False):
    """What is said of the events' columns."""

    type: str | None
    """The column of types. Where the default, `type`, is absent, an event's type is the name of its stream."""
    time: str | None
    """The column of times. Where the default, `time`, is absent, there is no time."""
    time_unit: str | None
    """What times count that are plain numbers: s, ms, us or ns."""


class ReadingOptions(ColumnOptions, total=False):
    """What is said of how events come."""

    lateness: Lateness
    """How far behind the latest time an event may come and still be put in order: a number, a text such as "10 seconds"
    or a timedelta."""


class LimitOptions(ReadingOptions, total=False):
    """What may be held, and by how many threads."""

    memory: int
    """The most bytes that partial matches may take; of a recogniser, all that it holds."""
    max_states: int
    """The most states that the automaton may have."""
    max_buffered_rows: int
    """The most rows that are held to put events in order."""
    threads: Threads
    """How many threads may work on partial matches at once; "all" stands for as many as there are cores, "auto" for all
    over an input that ends (a table, a frame, files), and for one in a stream."""


class RunOptions(LimitOptions, total=False):
    """The options of a run over an input."""

    batch_rows: int
    """The most rows of a batch that is recognised at once."""


class FeedOptions(LimitOptions, total=False):
    """The options of a recogniser."""

    keep_rows: bool
    """Whether the rows that matches may still name are kept, for `Matches.events()`."""
    on_bad: OnBad
    """What is done about an event that makes no sense: "fail" refuses the feed as a whole, "reject" sets it aside for
    `take_rejected()`."""


@dataclass(frozen=True, slots=True)
class Options:
    """All options as one value; one that makes no sense is an `ArgumentError`. The classes above say what they are."""

    type: str | None = "type"
    time: str | None = "time"
    time_unit: str | None = None
    lateness: Lateness = 0
    memory: int = 4 << 30
    max_states: int = 1 << 16
    max_buffered_rows: int = 50_000_000
    threads: Threads = "auto"
    batch_rows: int = BATCH_ROWS
    keep_rows: bool = True
    on_bad: OnBad = "fail"

    def __post_init__(self) -> None:
        for name in ("type", "time"):
            column = getattr(self, name)
            if column is not None and not (isinstance(column, str) and is_writable(column)):
                raise ArgumentError(f"{name}= is the name of a column or None, not {column!r}")
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise ArgumentError(f"time_unit must be one of {', '.join(TIME_UNITS)}, not {self.time_unit!r}")
        _check_lateness(self.lateness)
        for name in ("memory", "max_states", "max_buffered_rows", "batch_rows"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        object.__setattr__(self, "threads", _threads(self.threads))
        if type(self.keep_rows) is not bool:
            raise ArgumentError(f"keep_rows= is True or False, not {self.keep_rows!r}")
        if self.on_bad not in ("fail", "reject"):
            raise ArgumentError(f"on_bad= is 'fail' or 'reject', not {self.on_bad!r}")

    @property
    def cores(self) -> int:
        """How many threads there may be."""
        if self.threads == "auto":
            return 1
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

    def to_json(self) -> dict[str, Any]:
        """The options as a snapshot has them: without what concerns the machine, not the stream."""
        found = asdict(self)
        del found["threads"], found["batch_rows"]
        if isinstance(self.lateness, timedelta):
            found["lateness"] = f"{self.lateness // timedelta(microseconds=1) / 1_000_000:.6f} seconds"
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any], threads: Threads) -> Options:
        """The options that a snapshot has."""
        threads = _threads(threads)
        try:
            return cls(**found, threads=threads)
        except ArgumentError as error:
            raise DataError(f"the snapshot is damaged: {error}") from error


def read(given: Mapping[str, Any], known: type[Any]) -> Options:
    """The options of a call, which knows those of `known` (one of the classes above)."""
    if not given:
        return _DEFAULT
    check_names(given, known)
    return Options(**given)


@lru_cache
def over_all(options: Options) -> Options:
    """The options of a run over an input that ends."""
    return replace(options, threads="all") if options.threads == "auto" else options


def check_names(given: Mapping[str, Any], known: type[Any]) -> None:
    """Refuse options that there are not."""
    for name in given:
        if name not in known.__annotations__:
            hint = did_you_mean(name, list(known.__annotations__)) or f"These are: {', '.join(known.__annotations__)}."
            raise TypeError(f"there is no option '{name}'. {hint}")


def spelt_out(known: type[Any], others: Mapping[str, object] = {}) -> Callable[[_Function], _Function]:
    """Shows the options that a function takes in its signature, for `help` and completion; `others` has the defaults
    of those that are not in `Options`."""
    defaults = {field.name: field.default for field in fields(Options)} | dict(others)

    def change(function: _Function) -> _Function:
        own = inspect.signature(function)
        shown = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        shown += [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind.__forward_arg__
            )
            for name, kind in known.__annotations__.items()
        ]
        function.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
        return function

    return change


def _threads(value: object) -> Threads:
    if value == "all":
        return "all"
    if value == "auto":
        return "auto"
    try:
        return _whole("threads", value)
    except ArgumentError:
        raise ArgumentError(f"threads= is a whole number of at least 1, or 'all' or 'auto', not {value!r}") from None


def _whole(name: str, value: object) -> int:
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ArgumentError(f"{name}= is a whole number of at least 1, not {value!r}")
    return number


def _check_lateness(value: object) -> None:
    match value:
        case str():
            try:
                duration(value)
            except ValueError as error:
                raise ArgumentError(f"lateness: {error}") from error
        case timedelta() if value >= timedelta(0):
            pass
        case int() | float() if 0 <= value < inf:
            pass
        case _:
            raise ArgumentError(
                f"lateness= is a number of at least 0, a duration such as '10 seconds', or a timedelta, not {value!r}"
            )


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


_DEFAULT = Options()
