"""One match as an object, with the events behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ceql.analysis.selection import Selection
from ceql.errors import DataError, did_you_mean
from ceql.recognition.match_source import Positions
from ceql.recognition.result_columns import true_name, variable_fields
from ceql.results.text import python_values


class EventRows:
    """The events of some matches by position. A column becomes Python values when the first of them is asked for."""

    def __init__(self, positions: Positions, load: Callable[[], pa.Table], selection: Selection) -> None:
        self.selection = selection
        self._positions = positions
        self._load = load
        self._table: pa.Table | None = None
        self._places: dict[int, int] = {}
        self._columns: dict[str, list[Any]] = {}

    def row(self, position: int, names: Sequence[str] | None = None) -> dict[str, Any]:
        """The event at a position: all its attributes, or those of these names."""
        if self._table is None:
            self._table = self._load()
            self._places = {position: place for place, position in enumerate(self._positions.tolist())}
        place = self._places[position]
        shown = self._table.schema.names if names is None else names
        return {name: self._column(self._table, name)[place] for name in shown}

    def _column(self, table: pa.Table, name: str) -> list[Any]:
        if name not in self._columns:
            known = name in table.schema.names
            self._columns[name] = python_values(table[name], name) if known else [None] * len(self._positions)
        return self._columns[name]


class _HasRows:
    """Keeps the rows out of the fields, so that they are no part of ==, repr and asdict."""

    __slots__ = ("_rows",)
    _rows: EventRows


@dataclass(frozen=True, slots=True)
class Match(_HasRows):
    """One match: its interval, the positions of its events, and those that each selected variable is bound to.

    `match["x"]` is the event that the variable x is bound to, as a dict (None if there is none), or a list of dicts
    where x may be bound to several.
    """

    start: int
    end: int
    events: tuple[int, ...]
    bindings: dict[str, tuple[int, ...]] = field(default_factory=dict)
    start_time: Any = None
    end_time: Any = None
    partition: dict[str, Any] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The events of the match with all their attributes."""
        known = self._known()
        return [known.row(position) for position in self.events]

    def __getitem__(self, variable: str) -> Any:
        if variable not in self.bindings:
            hint = did_you_mean(variable, list(self.bindings)) or f"These are: {', '.join(self.bindings) or 'none'}."
            raise KeyError(f"'{variable}' is no selected variable. {hint}")
        known = self._known()
        names = known.selection.projections.get(variable)
        found = [known.row(position, names) for position in self.bindings[variable]]
        if variable in known.selection.singles:
            return found[0] if found else None
        return found

    def _known(self) -> EventRows:
        try:
            return self._rows
        except AttributeError:
            raise DataError("this match has no rows: only matches that come from iterating over a result do") from None


def to_matches(batch: pa.RecordBatch, rows: EventRows) -> Iterator[Match]:
    """The matches of a batch."""
    keys, variables = true_names(batch.schema)
    middle = batch.schema.get_field_index("events")
    first_key = middle - len(keys)
    after = middle + 1 + len(variables)
    measured = batch.schema.names[after:]
    columns = [python_values(column, name) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    for row in zip(*columns, strict=True):
        start_time, end_time = row[2:first_key] or (None, None)
        bound = dict(zip(variables, map(_positions, row[middle + 1 : after]), strict=True))
        partition = dict(zip(keys, row[first_key:middle], strict=True))
        measures = dict(zip(measured, row[after:], strict=True))
        match = Match(row[0], row[1], tuple(row[middle]), bound, start_time, end_time, partition, measures)
        object.__setattr__(match, "_rows", rows)
        yield match


def _positions(value: int | list[int] | None) -> tuple[int, ...]:
    """The events of a variable: a list of them, or one or none."""
    return tuple(value) if isinstance(value, list) else () if value is None else (value,)


def true_names(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """The partition keys and the variables by their true names."""
    names = [true_name(field) for field in schema]
    middle = schema.get_field_index("events")
    return names[4 if "end_time" in schema.names else 2 : middle], list(map(true_name, variable_fields(schema)))
