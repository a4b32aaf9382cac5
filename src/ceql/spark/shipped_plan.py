"""The plan that tasks run: the query as its text compiles, over the columns of a task's view (see `task_spec`).

Attributes have the user's names there. Keys, and the clock of a stream whose events are in order by key alone, are
columns of the view's own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ceql.plan import make_plan
from ceql.plans import Plan
from ceql.syntax import tree as t


@lru_cache(maxsize=16)
def shipped_plan(text: str, keys: tuple[str, ...], clock: str | None) -> Plan:
    """The plan of a query over a view, kept for the tasks that a worker runs one after another.

    `keys` are the columns of keys, those that the result shows first.
    With `clock`, events are in order by key alone: a window of time is one over this column then.
    """
    plan = make_plan(text)
    window = plan.query.window
    if clock is not None and isinstance(window, t.TimeWindow):
        window = t.AttributeWindow(window.nanoseconds // 1000, clock)
    parts, shown = tuple(t.Part((t.PartRef(key),)) for key in keys), len(plan.shown_keys)
    query = replace(plan.query, window=window, streams=())
    return replace(plan, query=query, shown_keys=parts[:shown], split_by=parts[shown:])
