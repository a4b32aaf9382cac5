"""A plan bound to the columns of its events.

In: a plan, the schema of the events, and what the caller says about them. Out: everything that follows from these
before an event is read: the columns of type and time, the guards over columns, the window's measure, the keys of
substreams, the columns of the result. A query that does not fit the columns is a `SchemaError` here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import pyarrow as pa

from ceql.analysis.lengths import is_hidden
from ceql.analysis.listed import attributes
from ceql.analysis.measures import measured_attributes
from ceql.analysis.neighbours import attribute_in, lags_in
from ceql.analysis.normal import Atom
from ceql.analysis.shape import Length
from ceql.automata.cache import TableCache
from ceql.automata.correlated import Correlated
from ceql.automata.steps import to_carrier, to_steps
from ceql.engine.common.layout import W_GIVEN
from ceql.engine.groups.layout import Carrier, Steps
from ceql.engine.groups.rows import emptied
from ceql.errors import NoMatchWarning, SchemaError, no_column, warn_caller
from ceql.io.partition_keys import PartitionKeys
from ceql.io.schemas import is_text, names_near
from ceql.io.shared_keys import QueryKeys
from ceql.io.source import Source, columns_of, have_columns
from ceql.jit import Array
from ceql.plans import Loop, Plan
from ceql.predicates.bind import BoundGuards, InputSchema, bind
from ceql.predicates.operands import Operands
from ceql.predicates.symbols import Symbolizer, SymbolTable
from ceql.predicates.time_arithmetic import with_unit
from ceql.predicates.values import ValueNumbers
from ceql.recognition.checks import Checks
from ceql.recognition.folds import Folds
from ceql.recognition.lags import LaggedEvents, with_lags
from ceql.recognition.lengths import Lengths
from ceql.recognition.measures import Measures
from ceql.recognition.options import Options
from ceql.recognition.result_columns import ResultColumns
from ceql.recognition.window import BoundWindow, bind_window
from ceql.syntax import tree as t
from ceql.syntax.walking import leaves


class Symbols(Protocol):
    """Turns batches into symbols: `predicates.symbols.Symbolizer`, or a reader of symbols computed elsewhere."""

    def symbols(self, batch: pa.RecordBatch, streams: int | Array) -> Array: ...

    def relevant(self, batch: pa.RecordBatch, streams: int | Array) -> tuple[Array, Array]: ...


SymbolsOver = Callable[[SymbolTable], Symbols]
_MANY = 1 << 10  # symbols or states of an automaton: more are not kept for the next recognition


class Learned(NamedTuple):
    """What a recognition learns of a query, whatever the events: symbols, and the tables of determinised automata."""

    table: SymbolTable
    symbols: Symbols
    caches: dict[str, TableCache]
    """By what the automaton is for."""


class Sharing(Protocol):
    """What several queries over the same events do together (`recognition.together`)."""

    def symbols(self, schema: pa.Schema, table: SymbolTable) -> Symbols | None:
        """Reads the symbols of a query's guards, which are decided with those of the others; None if they are not."""

    def keys(self, own: PartitionKeys) -> QueryKeys:
        """The keys of a query's substreams, in place of keys of its own."""


@dataclass(frozen=True, eq=False)
class BoundPlan:
    """A plan that fits its events. It is immutable; any number of recognitions can be made of it.

    `replace(bound, plan=other)` binds another plan to the same events.
    """

    plan: Plan
    schema: pa.Schema
    streams: tuple[str | None, ...]
    options: Options
    open_schema: bool = False
    """Whether later events may have further columns (dicts)."""
    untyped: frozenset[int] = frozenset()
    """The streams without the type column, where others have it."""
    timed: tuple[str, ...] = ()
    """Further columns that hold the times: copies, which conditions and measures read."""
    decided: SymbolsOver | None = None
    """Reads the symbols of guards that were decided elsewhere (in Spark's JVM). Then the events need no type, nor the
    attributes that guards read."""
    sharing: Sharing | None = None
    """What the query does together with others."""
    sources: tuple[pa.Schema, ...] = ()
    """The columns of each stream, as far as they are known."""
    _steps: dict[tuple[int, ...], Steps] = field(default_factory=dict, init=False, repr=False)
    _learned: list[Learned] = field(default_factory=list, init=False, repr=False)
    """What recognitions that came to their end have learned. Each is for one recognition at a time."""

    @classmethod
    def over(cls, plan: Plan, sources: Sequence[Source], options: Options, sharing: Sharing | None = None) -> BoundPlan:
        """The plan over the events of these sources."""
        schemas, schema, grows = columns_of(sources)
        nothing = not schema.names and not any(source.rows for source in sources)
        return cls(
            plan,
            schema=options.assumed if nothing else schema,
            streams=tuple(source.name for source in sources),
            options=options,
            open_schema=nothing or grows,
            untyped=options.untyped(schemas),
            sharing=sharing,
            sources=() if nothing else schemas,
        )

    def fits(self, sources: Sequence[Source], options: Options) -> bool:
        """Whether `over` would give the same for the events of these sources."""
        if options != self.options or tuple(source.name for source in sources) != self.streams or not self.sources:
            return False
        return have_columns(sources, self.sources, self.open_schema)

    def __post_init__(self) -> None:
        # the order is that in which an author mends a query: each step relies on those before
        if self.decided is None:
            _ = self.type, self.time
            self._check_fields()
            if self.sharing is None:  # else they are bound with those of other queries
                _ = self.guards
            if self.plan.loop is Loop.GROUPS:
                _ = self._checks
            if self.plan.compares:
                _ = self._values, self.operands
            self._check_selection()
        _ = self.window, self.result

    def _check_fields(self) -> None:
        """Tell of fields in brackets that no column has, if a variable has nearly the name of the column.

        Where further columns may come, that is a warning.
        """
        for node, hint in self.plan.misspelt:
            column = node.name.split(".")[0]
            if not any(name == column or name.startswith(f"{column}.") for name in self.schema.names):
                error = SchemaError(
                    f"the events have no column '{column}', and nothing binds '{column}'",
                    self.plan.source,
                    node.span,
                    hint,
                )
                if not self.open_schema:
                    raise error
                warn_caller(str(error), NoMatchWarning)

    @cached_property
    def type(self) -> str | None:
        """The column of types; None where an event's type is the name of its stream."""
        if self.decided is not None:
            return None
        name, schema = self.options.type_column(self.schema), self.schema
        if name is None:
            if all(stream is None for stream in self.streams):
                raise SchemaError(
                    "the events have no type: there is no column 'type', and no stream is named; "
                    f"pass type= (the columns are {', '.join(schema.names) or 'none'}) or write FROM"
                )
            return None
        kind = schema.field(name).type
        if not is_text(kind) and not pa.types.is_null(kind):
            raise SchemaError(f"the type column '{name}' must be text, not {kind}")
        return name

    @cached_property
    def time(self) -> str | None:
        """The column of times."""
        return self.options.time_column(self.schema)

    @property
    def time_type(self) -> pa.DataType | None:
        """The type of the times."""
        return self.schema.field(self.time).type if self.time is not None else None

    def with_unit(self, schema: pa.Schema) -> pa.Schema:
        """The schema as conditions are bound to it: a time column of plain numbers says its unit."""
        if self.options.time_unit is None:
            return schema
        for name in (self.options.time, *self.timed):
            schema = with_unit(schema, name, self.options.time_unit)
        return schema

    @cached_property
    def guards(self) -> BoundGuards:
        """The guards over the columns."""
        return self.guards_over(self.schema)

    def guards_over(self, schema: pa.Schema, guards: tuple[Atom, ...] | None = None) -> BoundGuards:
        """The guards (or others in their place) over the columns that an open schema has grown to."""
        lags = self.plan.lags
        if guards is None:
            guards = self.plan.guards
        else:
            lags = lags_in(predicate for guard in guards for predicate in guard.predicates)
        lagged = with_lags(self.with_unit(schema), lags)
        events = InputSchema(lagged, self.open_schema, self.type, self.streams, self.untyped)
        return bind(guards, events, self.plan.source)

    def symbols(self, schema: pa.Schema, table: SymbolTable) -> Symbols:
        """Turns batches of this schema (an open one grows) into symbols of `table`."""
        if self.decided is not None:
            return self.decided(table)
        shared = self.sharing.symbols(schema, table) if self.sharing is not None and not self.plan.lags else None
        if shared is not None:
            return shared
        return Symbolizer(self.guards if schema is self.schema else self.guards_over(schema), table)

    def learned(self) -> Learned:
        """What a recognition begins with: what another has left, or nothing."""
        if self._learned:
            with suppress(IndexError):  # another thread was faster
                return self._learned.pop()
        table = SymbolTable()
        return Learned(table, self.symbols(self.schema, table), {})

    def leave(self, learned: Learned) -> None:
        """Keep what a recognition has learned for the next one: the recognition is over."""
        caches = learned.caches.values()
        if len(learned.table.bits) < _MANY and all(len(cache.states) < _MANY for cache in caches):
            self._learned.append(learned)

    def lagged_events(self) -> LaggedEvents | None:
        """The lags that guards read, for one recognition; None if they read none."""
        return LaggedEvents(self.plan.lags) if self.plan.lags else None

    @cached_property
    def window(self) -> BoundWindow:
        """WITHIN over the columns."""
        return bind_window(self.plan, self.schema, self.time, self.options, self.open_schema)

    @cached_property
    def lengths(self) -> Lengths:
        """The windows inside the formula over the columns."""
        return Lengths(self.plan, self.schema, self.time, self.options, self.open_schema)

    @cached_property
    def keys(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The name and type of each key that substreams are made by; those that the result shows come first."""
        table = self.partition_keys()
        return tuple(zip(table.names, table.shown_types, strict=True)) if table is not None else ()

    @cached_property
    def result(self) -> ResultColumns:
        """The columns of the result."""
        plan = self.plan
        hidden = frozenset(plan.columns) - {item.name for item in plan.query.items or ()} if plan.query.measures else ()
        keys = self.keys[: len(plan.shown_keys)]
        measures, singles = tuple(self.measures.columns), plan.selection.singles
        return ResultColumns(plan.columns, self.time_type, keys, frozenset(hidden), measures, singles)

    @cached_property
    def measures(self) -> Measures:
        """What SELECT computes of each match."""
        time = self.options.time_column(self.schema)
        return Measures(self.plan.query, Folds(self.with_unit(self.schema), self.open_schema, time, self.plan.source))

    @cached_property
    def skips(self) -> bool:
        """Whether events that satisfy no guard can be left out."""
        return self.plan.skips_safely and not (self.plan.counts_events and self.plan.partition)

    @cached_property
    def by_time(self) -> bool:
        """Whether the window is over the times, which are in order."""
        return self.window.kind == W_GIVEN and self.window.column is not None and self.window.column == self.time

    @cached_property
    def by_clock(self) -> bool:
        """Whether the window is over the times, though they are in order by substream alone: they never fall there."""
        return self.window.exact and self.window.column == self.time

    @cached_property
    def may_divide(self) -> bool:
        """Whether nothing that the query says concerns all shards at once."""
        return not (self.plan.query.consume is t.Consume.ANY or self.window.exact)

    def partition_keys(self) -> PartitionKeys | None:
        """A new table of the substreams' numbers; None for a stream that is not split."""
        plan = self.plan
        if not plan.partition:
            return None
        return PartitionKeys(plan.partition, self.schema, self.type, self.open_schema, plan.source, self.untyped)

    def needed_columns(self) -> list[str]:
        """The columns that recognition reads; the others matter only to those who show the events."""
        return self._needed.copy()

    @cached_property
    def _needed(self) -> list[str]:
        names = {
            leaf.attribute if isinstance(leaf, t.Ref | t.Prev) else attribute_in(leaf.name)
            for guard in self.plan.guards
            for predicate in guard.predicates
            for leaf in leaves(predicate)
        }
        names.update(compared_attributes(self.plan))
        keys = self.partition_keys()
        names.update(keys.columns if keys is not None else ())
        names.update(name for name in (self.type, self.time, self.window.column) if name is not None)
        return sorted(names)

    @property
    def _automaton(self) -> Correlated:
        return self.plan.automaton

    @cached_property
    def _values(self) -> ValueNumbers:
        auto, schema = self._automaton, self.with_unit(self.schema)
        return ValueNumbers(auto.terms, auto.compares, schema, self.open_schema, self.plan.source)

    def values(self) -> ValueNumbers:
        """Numbers the values that are looked up between events, for one recognition."""
        return self._values.anew()

    @cached_property
    def _compared(self) -> pa.Schema:
        """The columns that conditions between events may read."""
        return self.lengths.extended(self.with_unit(self.schema))

    @cached_property
    def operands(self) -> Operands:
        """Reads what conditions between events compare."""
        return Operands(self._automaton.with_time(self.time), self._compared, self.open_schema, self.plan.source)

    @cached_property
    def _checks(self) -> Checks:
        return Checks(self._automaton, self._compared, self.open_schema, self.plan.source, self.time)

    def checks(self) -> Checks:
        """What checks candidates, for one recognition."""
        return copy(self._checks)

    def steps(self, symbols: Sequence[int]) -> Steps:
        """The automaton for these symbols (`automata.steps.to_steps`), which is only read."""
        known = self._steps.get(key := tuple(symbols))
        if known is None:
            known = to_steps(self.plan.running, symbols)
            self._steps.clear()  # the last one is enough: most inputs of a query have the same symbols
            self._steps[key] = known
        return known

    def carrier(self, operands: Operands) -> Carrier:
        """What runs carry (`automata.steps.to_carrier`) if conditions are bound so; what is written to is new."""
        if operands is not self.operands:
            return to_carrier(self.plan.running, operands.tests, operands.reads)
        return emptied(self._carrier)

    @cached_property
    def _carrier(self) -> Carrier:
        return to_carrier(self.plan.running, self.operands.tests, self.operands.reads)

    def _check_selection(self) -> None:
        """Refuse attributes of SELECT that the events do not have."""
        for item in self.plan.query.items or ():
            for name in item.attributes:
                if name not in self.schema.names and not self.open_schema:
                    raise no_column(name, names_near(self.schema, name), self.plan.source, item.span)


def compared_attributes(plan: Plan) -> tuple[str, ...]:
    """The attributes that are compared between events, other than by substreams, and those that measures read."""
    measured = measured_attributes(plan.query) if plan.query.measures else ()
    auto = plan.automaton
    terms = [*auto.terms, *(term.what for term in auto.reads)] if plan.compares else []
    found = {leaf.name for term in terms for leaf in leaves(term) if isinstance(leaf, t.Attribute)}
    found.update(measured, *(attributes(claim) for claim in auto.denials))
    windows = [claim.what.window for claim in plan.shape.claims if isinstance(claim.what, Length)]
    found.update(window.attribute for window in windows if isinstance(window, t.AttributeWindow))
    return tuple(sorted(name for name in found if not is_hidden(name)))
