"""The message from the driver to a task: the query, and which shipped column is what.

The JVM ships columns to Python under names of their own, which never clash with the user's:

    bits0 ...   which guards hold
    time
    key0 ...    what substreams are made by, the PARTITION BY clause first
    order       a hash of the columns of order_by, which order events of the same time
    stream      the number of the event's stream, if there are several
    main        whether a row belongs to its chunk, or only warms it up
    a_...       attributes of events: for the output, to compare events, and for guards that the JVM cannot decide

A task gives them other names again (`TaskSpec.view`), so that its query finds attributes under the user's.
Everything here is plain data, pickled to the workers. A task has one query (`TaskSpec`) or several (`SetSpec`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from ceql.jit import Array
from ceql.plans import Plan
from ceql.predicates.bind import InputSchema, bind_together
from ceql.predicates.shared_symbols import SharedGuards
from ceql.predicates.time_arithmetic import with_unit
from ceql.recognition.bound_plan import compared_attributes
from ceql.recognition.options import Options
from ceql.recognition.snapshot import schema_from_text
from ceql.spark.shipped_plan import shipped_plan
from ceql.syntax import tree as t

TIME, ORDER, MAIN, CHUNK, STREAM = "time", "order", "main", "chunk", "stream"
ATTRIBUTE = "a_"
BITS = 63
"""Guards in one shipped column: what a signed 64-bit integer holds without its sign."""


def bits_column(index: int) -> str:
    """The shipped column that says which of guards 63 * index and following hold."""
    return f"bits{index}"


def key_column(index: int) -> str:
    """The shipped column of a key."""
    return f"key{index}"


def own_name(column: str) -> str:
    """The name that a shipped column has in a view, where it is no attribute; users cannot give such a name."""
    return f"\x1e{column}"


def attribute_column(name: str) -> str:
    """The shipped column of an attribute, which does not depend on the others: states name it."""
    plain = name.isascii() and name.isidentifier()
    return f"{ATTRIBUTE}{name}" if plain else f"{ATTRIBUTE}{blake2b(name.encode(), digest_size=8).hexdigest()}_"


@dataclass(frozen=True)
class TaskSpec:
    """The query, which shipped column is what, and what the result shows.

    `exact` lists the guards that the JVM decides, in the order of the bits; `always` those that hold for every row, and
    are not shipped; `undecided` those that the task decides itself, bound to the attributes' schema (`schema`, as text)
    under these names.
    """

    query: str
    options: Options
    attributes: tuple[str, ...]
    """The shipped attributes by name, but for those in `shared`."""
    keys: tuple[str, ...]
    """The names of the key columns in the result; they are the first that are shipped."""
    shown: tuple[str, ...]
    """The attributes that the events of the result have; a single one, the id, where `ids`."""
    ids: bool
    """Whether events are shown by the values of that attribute."""
    exact: tuple[int, ...]
    key_columns: tuple[str, ...] = ()
    """The shipped columns of keys; those that the result shows come first. By the others all events of a match agree,
    though no clause says so."""
    compared: tuple[str, ...] = ()
    """The attributes that are compared between events, other than by keys."""
    shared: tuple[tuple[str, str], ...] = ()
    """Attributes that are shipped already, as the time or a key, with that column."""
    keys_as_text: frozenset[int] = frozenset()
    """The keys that are shipped as texts, so as not to be rounded, and shown as floats."""
    always: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()
    schema: str = ""
    type: str | None = None
    streams: tuple[str | None, ...] = (None,)
    untyped: frozenset[int] = frozenset()
    ordered_by: tuple[str, ...] = ()
    """The columns of order_by, for messages."""
    flat: bool = False
    """Whether the attributes of variables of one event are columns of the result."""
    now: bool = False
    """Whether events come in order of time by key alone (`emit="now"`)."""
    match_id: str | None = None
    """The column of the result that has ids of matches, if there is one."""
    told_by: tuple[str, ...] = ()
    """The attributes by which these ids tell events."""
    suppresses: bool = False
    """Whether the result says how many matches were suppressed."""
    suppress: tuple[int, int] | None = None
    """How many matches of a key are kept in a period, and its nanoseconds; None for all."""
    shipped: str = ""
    """The shipped columns and their types, as the text of a schema; empty if they are as a state has them."""
    identity: str = ""
    """What tells the query in them: its name in a set, or its fingerprint."""

    names = ("",)
    """The names of queries: one that is alone has none."""

    @property
    def first(self) -> TaskSpec:
        """The query that says how rows are read: this one; of a `SetSpec`, the first."""
        return self

    @property
    def specs(self) -> tuple[TaskSpec, ...]:
        """The queries."""
        return (self,)

    @property
    def kept(self) -> tuple[str, ...]:
        """The attributes that are kept of the events that matches may name."""
        return tuple(dict.fromkeys([*self.shown, *self.told_by]))

    @cached_property
    def deciding(self) -> frozenset[str]:
        """The shipped columns that decide about matches: all but those that are only shown, once the JVM has looked."""
        window = self.plan.query.window
        names = {*self.compared, *(schema_from_text(self.schema).names if self.schema else ())}
        names |= {window.attribute} if isinstance(window, t.AttributeWindow) else set()
        return frozenset(self.place[name] for name in names if name in self.place)

    @cached_property
    def plan(self) -> Plan:
        """The plan over the view."""
        names = {column: name for name, column in self.place.items() if column.startswith(ATTRIBUTE)}
        clock = own_name(TIME) if self.now else None
        return shipped_plan(self.query, tuple(names.get(key) or own_name(key) for key in self.key_columns), clock)

    def recognising_now(self) -> TaskSpec:
        """The same for events that come in order of time by key alone."""
        found = replace(self, now=True)
        _ = found.plan  # made here once, and pickled along
        return found

    def of_set(self, plan: Plan, name: str, schema: str, suppress: tuple[int, int] | None) -> TaskSpec:
        """The same for a query of a set, which decides all its guards by itself, over attributes of this schema."""
        return replace(
            self,
            query=plan.source,
            keys=tuple(part.refs[0].attribute for part in plan.shown_keys),
            compared=compared_attributes(plan),
            exact=(),
            undecided=tuple(range(len(plan.guards))),
            schema=schema,
            suppress=suppress,
            identity=name,
        )

    @cached_property
    def place(self) -> dict[str, str]:
        """The shipped column of each attribute."""
        return {name: attribute_column(name) for name in self.attributes} | dict(self.shared)

    def view(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as queries read them: attributes under the user's names, the other columns under names of their
        own."""
        others = [name for name in batch.schema.names if not name.startswith(ATTRIBUTE)]
        columns = [batch.column(name) for name in (*self.place.values(), *others)]
        return pa.RecordBatch.from_arrays(columns, names=[*self.place, *map(own_name, others)])

    def with_streams(self, view: pa.RecordBatch) -> tuple[pa.RecordBatch, int | Array]:
        """The rows of a view, and the stream of each."""
        if len(self.streams) == 1:
            return view, 0
        return view, np.asarray(view.column(own_name(STREAM)).to_numpy(zero_copy_only=False)).astype(np.int32)

    @property
    def bit_columns(self) -> list[str]:
        """The shipped columns of bits."""
        return [bits_column(k) for k in range(-(-len(self.exact) // BITS))]


@dataclass(frozen=True)
class SetSpec:
    """Queries by name, which ship the same columns, and the keys that the result shows, with their types."""

    names: tuple[str, ...]
    specs: tuple[TaskSpec, ...]
    keys: tuple[tuple[str, pa.DataType], ...]
    versions: tuple[str | None, ...] | None = None
    """The version of each query, which the result shows; None where they have none."""

    @property
    def first(self) -> TaskSpec:
        """Any query of the set: all share schema and keys."""
        return self.specs[0]

    def recognising_now(self) -> SetSpec:
        """The same for events that come in order of time by key alone."""
        return replace(self, specs=tuple(spec.recognising_now() for spec in self.specs))

    @cached_property
    def guards(self) -> SharedGuards:
        """The guards of all queries, for one bucket after another: they remember nothing but the last batch."""
        first = self.first
        schema = with_unit(schema_from_text(first.schema), first.options.time, first.options.time_unit)
        events = InputSchema(schema, False, first.type, first.streams, first.untyped)
        queries = [(() if one.plan.lags else one.plan.guards, one.plan.source) for one in self.specs]
        return SharedGuards(bind_together(queries, events), first.with_streams)

    @property
    def deciding(self) -> frozenset[str]:
        """See `TaskSpec.deciding`."""
        return frozenset().union(*(one.deciding for one in self.specs))


Specs = TaskSpec | SetSpec
