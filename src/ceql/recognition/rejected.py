"""Takes the good events of a feed in, and sets aside those that make no sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ceql.errors import DataError, SchemaError

_State = TypeVar("_State")


class Rejected(NamedTuple):
    """An event that makes no sense, as it was fed (a dict, or a row of what it was fed in), and why."""

    event: Any
    reason: str


def sift(
    state: _State,
    events: Any,
    push: Callable[[_State, Any], tuple[_State, list[Any]]],
    fits: Callable[[_State], bool],
) -> tuple[_State, list[Any], list[Rejected]]:
    """Push events; if they are refused, push halves of them, and so on, until only bad ones are left over.

    `push` gives a new state and what comes of it, or raises an error and changes nothing. `fits` says whether the query
    is known to fit the columns of events; as long as it is not, a `SchemaError` is about the query, not about an event.
    What cannot be divided is pushed as it is.
    """
    count = _count(events)
    try:
        pushed, found = push(state, events)
        return pushed, found, []
    except (DataError, SchemaError) as error:
        if count is None or (count == 1 and isinstance(error, SchemaError) and not fits(state)):
            raise
        if count == 1:
            return state, [], [Rejected(_event(events), str(error))]
    state, first, bad = sift(state, _part(events, 0, count // 2), push, fits)
    state, second, worse = sift(state, _part(events, count // 2, count), push, fits)
    return state, first + second, bad + worse


def _count(events: Any) -> int | None:
    """How many events there are, if they can be divided."""
    if isinstance(events, list | tuple) or hasattr(events, "iloc") or hasattr(events, "slice"):
        return len(events) or None
    return None


def _part(events: Any, begin: int, end: int) -> Any:
    if isinstance(events, list | tuple):
        return events[begin:end]
    return events.iloc[begin:end] if hasattr(events, "iloc") else events.slice(begin, end - begin)


def _event(events: Any) -> Any:
    """The only one of these events, as a dict where that can be."""
    if isinstance(events, list | tuple):
        return events[0]
    for method in ("to_pylist", "to_dicts"):
        if hasattr(events, method):
            return getattr(events, method)()[0]
    return events.to_dict("records")[0] if hasattr(events, "to_dict") else events
