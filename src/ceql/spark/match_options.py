"""The options of `match` and of what is like it on Spark: spelt out, read, checked and documented here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ceql.errors import ArgumentError
from ceql.plans import Plan
from ceql.recognition.options import ColumnOptions, Options, check_names
from ceql.results.match_ids import names_of
from ceql.results.suppression import read_limit

EventsAs = Literal["rows", "ids", "columns"]
"""The ways in which the result shows events."""
DEFAULTS: dict[str, Any] = {"order_by": (), "events": "rows", "id": None, "match_id": None, "suppress": None}


class ResultOptions(ColumnOptions, total=False):
    """What decides which columns the result has."""

    events: EventsAs
    """'rows' for the matched events themselves, 'ids' for the values of the column `id`, 'columns' for a flat result: a
    column `x_a` for attribute a of each variable x that binds one event."""
    id: str | Sequence[str] | None
    """The column that identifies an event (with `match_id`, or several that do so together)."""
    match_id: str | None
    """The name of a further column, the first, with an id of each match: the same in every run, to merge by."""
    suppress: str | Mapping[str, str] | None
    """How many matches of a key are kept in a period, such as '1 per hour'; of a set, for all queries, or by name."""


class OrderOptions(ResultOptions, total=False):
    """What decides how events are prepared."""

    order_by: str | Sequence[str]
    """Further columns that order events of the same time."""


class MatchOptions(OrderOptions, total=False):
    """All that goes to tasks."""

    memory: int
    """The budget of a task's partial matches, in bytes."""
    max_states: int
    """The most states that the automaton may have."""


@dataclass(frozen=True)
class MatchArguments:
    """The options of `match` as one value."""

    options: Options
    order_by: tuple[str, ...] = ()
    ids: bool = False
    id: tuple[str, ...] = ()
    match_id: str | None = None
    suppress: str | Mapping[str, str] | None = None
    flat: bool = False
    read: tuple[str, ...] | None = None
    """The attributes of matched events that are wanted, if not those that the query shows."""

    def suppressing(self, plan: Plan, name: str = "") -> tuple[int, int] | None:
        """How many matches of a key of this query are kept in a period, and its nanoseconds; None for all."""
        text = self.suppress.get(name) if isinstance(self.suppress, Mapping) else self.suppress
        if text is None:
            return None
        if plan.split_by:
            names = ", ".join(dict.fromkeys(ref.attribute for part in plan.split_by for ref in part.refs))
            raise ArgumentError(
                "suppress= goes by the keys of PARTITION BY, and conditions of this query let all events of a match "
                f"agree in {names}, too: write PARTITION BY {names}"
            )
        return read_limit(text)


def read_match(given: Mapping[str, Any], known: type[Any] = MatchOptions) -> MatchArguments:
    """The options of a call, which knows those of `known`, checked as far as they can be by themselves."""
    check_names(given, known)
    own = {name: given.get(name, default) for name, default in DEFAULTS.items()}
    events, id, order_by, match_id = own["events"], names_of(own["id"]), own["order_by"], own["match_id"]
    suppress = own["suppress"]
    for text in suppress.values() if isinstance(suppress, Mapping) else [suppress] * (suppress is not None):
        read_limit(text)
    if events not in get_args(EventsAs):
        raise ArgumentError(f"events must be 'rows', 'ids' or 'columns', not {events!r}")
    if id and events != "ids" and match_id is None:
        raise ArgumentError("id= goes with events='ids', or with match_id=")
    if len(id) > 1 and events == "ids":
        raise ArgumentError("events='ids' shows events by one column: pass id= the name of it")
    if match_id is not None and not (isinstance(match_id, str) and match_id):
        raise ArgumentError(f"match_id= is the name of a column for the ids, not {match_id!r}")
    options = Options(**{name: value for name, value in given.items() if name not in DEFAULTS})
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    return MatchArguments(options, order, events == "ids", id, match_id, suppress, events == "columns")
