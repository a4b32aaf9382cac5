"""The automaton of a query as nodes and edges for the page to draw, and the states that each event brings runs to.

The states come from the engine, which follows the runs of the query as `diagnose` does: within its window, its
substreams and its conditions between events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ceql.diagnose.following import CorrelatedFollowing, UnaryFollowing
from ceql.engine.common.chunk import Int64s
from ceql.explain.automaton import START, AutomatonView
from ceql.io.sequencer import Sequencer, merge_sources
from ceql.io.sorted_runs import EventBatch
from ceql.io.source import Source
from ceql.io.sources import open_streams
from ceql.plans import Loop
from ceql.query import Query
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.correlated import CorrelatedRecognition
from ceql.recognition.options import Options
from ceql.recognition.recognise import recognise
from ceql.recognition.unary import UnaryRecognition
from ceql.results.text import attributes, cell, to_rows
from ceql.studio.compact_view import IN_GROUPS, CompactView, nothing
from ceql.studio.data import Data
from ceql.studio.match_index import MatchIndex
from ceql.studio.match_table import take
from ceql.studio.streams import to_input

MOST_STEPS = 400
_BEFORE, _AFTER = 5, 3  # events that are shown around a match
MOST_STATES, MOST_EDGES = 60, 150


def automaton(query: Query) -> dict[str, Any]:
    """The states and transitions."""
    view = AutomatonView(query.plan)
    arrows = list(view.arrows())
    if view.states > MOST_STATES or len(arrows) > MOST_EDGES:
        return {"states": [], "edges": [], "text": "\n".join(view.lines(MOST_EDGES)), "size": view.states}
    final = {a.target for a in arrows if view._star(a.target).endswith("*")}
    states = [{"id": str(k), "final": str(k) in final, "carries": view.carried(k)} for k in range(view.states)]
    edges = []
    for arrow in arrows:
        for source in arrow.sources:
            for state, compared in zip(source.states, source.compared, strict=False):
                edges.append(
                    {
                        "from": state,
                        "to": arrow.target,
                        "event": arrow.event,
                        "compares": compared,
                        "binds": arrow.binds,
                        "waits": arrow.waits,
                        "joins": len(arrow.sources) > 1,
                    }
                )
    return {"states": states, "edges": edges, "start": START, "size": view.states}


def steps(index: MatchIndex, match: int) -> dict[str, Any]:
    """The events around a match, in its substream, each with the states that it brought runs to."""
    run, rows = index.run, _rows_around(index, match)
    data, (entered, graph) = run.data, _entered(run.query, run.data, rows, index.variables)
    own = {row: variable for _, variable, row in index.marks(match, MOST_STEPS)}
    ends = np.isin(rows, np.asarray(index.batch.column("end")))
    columns = data.columns
    hidden = {name for name in (columns.type, columns.time) if name is not None}
    events = to_rows(take(data, rows), " ")
    found = [
        {
            "row": int(shown),
            "type": cell(event.get(columns.type)) if columns.type is not None else "",
            "time": cell(event.get(columns.time)) if columns.time is not None else "",
            "text": attributes(event, hidden),
            "variable": own.get(int(row), -1),
            "entered": states,
            "ends": bool(end),
        }
        for row, shown, event, states, end in zip(
            rows, data.row_numbers(rows), events, entered, ends.tolist(), strict=True
        )
    ]
    return {"match": match, "events": found, "variables": index.variables, "graph": graph}


def _rows_around(index: MatchIndex, match: int) -> Int64s:
    """The rows from some before the match to some after it, of its substream where that is known."""
    begin, end = (int(index.batch.column(name)[match].as_py()) for name in ("start", "end"))
    own = index.rows_of_lane(int(index.lane[match]))
    if own is None:
        own = np.arange(max(0, begin - _BEFORE), min(index.run.data.rows, end + _AFTER + 1))
    low, high = np.searchsorted(own, [begin, end + 1])
    chosen = own[max(0, low - _BEFORE) : high + _AFTER]
    return chosen[:MOST_STEPS]


def _entered(query: Query, data: Data, rows: Int64s, variables: list[str]) -> tuple[list[list[int]], dict[str, Any]]:
    """The states that each of these events brings runs to, if the stream has these events alone, and the graph."""
    events = to_input(data, lambda table, _: table, rows)
    options = Options(**data.columns.options)
    plan = query.plan
    sources = open_streams(events, plan.query.streams, time=options.time, nested=options.nested(plan.dotted))
    bound = BoundPlan.over(query.plan, sources, options)
    # the picture is of the automaton of all matches, also beside AFTER MATCH and where a mask for each event decides
    drawn = bound.plan.loop is Loop.PREFERRED or bound.plan.straight is not None
    recognition = UnaryRecognition(bound) if drawn else recognise(bound)
    following = _following(recognition)
    compact = CompactView(recognition, variables) if isinstance(recognition, UnaryRecognition) else None
    before = following.reached.entered.copy()
    found = []
    for batch in _one_by_one(bound, sources):
        if compact is not None:
            compact.before()
        for _ in recognition.feed(batch):
            pass
        if compact is not None:
            compact.after()
        now = following.reached.entered
        found.append(np.flatnonzero(now > before)[: following_states(following)].tolist())
        before = now.copy()
    return found, compact.to_json() if compact is not None else nothing(IN_GROUPS)


def _one_by_one(bound: BoundPlan, sources: list[Source]) -> Iterator[EventBatch]:
    """The events of all streams in order, each by itself."""
    sequencer = Sequencer(list(bound.streams), bound.time, bound.options.lateness_in(bound.time_type), MOST_STEPS)
    for batch in merge_sources(sources, sequencer, bound.needed_columns()):
        for row in range(batch.data.num_rows):
            yield batch.slice(row, 1)


def _following(recognition: Any) -> UnaryFollowing | CorrelatedFollowing:
    if recognition.bound.plan.loop is Loop.GROUPS:
        assert isinstance(recognition, CorrelatedRecognition)
        return CorrelatedFollowing(recognition)
    assert isinstance(recognition, UnaryRecognition)
    return UnaryFollowing(recognition)


def following_states(following: UnaryFollowing | CorrelatedFollowing) -> int:
    """How many states the automaton has; what follows them in the report stands for NOT before a match."""
    return len(following.cea.states) if isinstance(following, UnaryFollowing) else following.auto.states
