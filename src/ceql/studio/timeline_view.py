"""Draws the timeline: for a range of the axis and a width in pixels, lanes with their matches, or densities.

The answer grows with the picture, not with the data: lanes outside the view are counted, not sent, and a lane with more
matches than can be told apart is sent as a histogram.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ceql.engine.common.chunk import Int64s
from ceql.results.axis import Floats
from ceql.studio.data import Data
from ceql.studio.match_index import MatchIndex
from ceql.syntax import tree as t

MOST_LANES = 200
_MOST_PIXELS = 10_000
_MOST_SPANS = 60  # of a lane; more of them are a histogram
_MOST_MARKS = 150  # of a match
_MOST_OTHERS = 300  # events of a lane that no match has
_BIN = 4  # pixels


def overview(data: Data, index: MatchIndex | None, width: int) -> dict[str, Any]:
    """The whole axis: how many events and how many ends of matches there are in each bin."""
    places, seconds = data.places
    low, high = extent(places)
    bins = max(1, min(width, 4000) // 2)
    edges = np.linspace(low, high, bins + 1)
    inner = np.searchsorted(places, edges[1:-1])  # events are in order
    events = np.diff(np.concatenate([[0], inner, [len(places)]]))
    matches = np.zeros(bins, np.int64) if index is None else np.histogram(index.end, edges)[0]
    return {
        "low": low,
        "high": high,
        "seconds": seconds,
        "axis": data.columns.time if seconds or data.columns.time is not None else "row",
        "events": events.tolist(),
        "matches": matches.tolist(),
    }


def extent(places: Floats) -> tuple[float, float]:
    """The range of the axis; never empty."""
    if not len(places):
        return 0.0, 1.0
    low, high = float(places[0]), float(places[-1])
    return (low, high) if high > low else (low - 0.5, high + 0.5)


@dataclass(frozen=True)
class Asked:
    """What part of the axis is drawn, how wide, and which lanes: one for each key, or for each match."""

    low: float
    high: float
    width: int
    first: int
    count: int
    by: str
    match: int = -1


def lanes(index: MatchIndex, asked: Asked) -> dict[str, Any]:
    """Some of the lanes that have matches in the range, and the `place` of the lane of a match among all of them."""
    low, high = min(asked.low, asked.high), max(asked.low, asked.high)
    visible = index.visible(low, high)
    common = {"variables": index.variables, "matches": len(visible), "window": _window(index), "keys": index.keys}
    first, last = asked.first, asked.first + min(asked.count, MOST_LANES)
    if asked.by == "key" and index.keys:
        numbers, where = np.unique(index.lane[visible], return_inverse=True)
        shown = [
            _key_lane(index, int(numbers[k]), visible[where == k], low, high, asked.width)
            for k in range(first, min(last, len(numbers)))
        ]
        place = _place(numbers, index.lane[asked.match]) if 0 <= asked.match < index.count else None
        return {**common, "by": "key", "total": len(numbers), "lanes": shown, "place": place}
    chosen = visible[first:last].tolist()
    shown = [{"name": _match_name(index, match), "spans": [_span(index, match)]} for match in chosen]
    return {**common, "by": "match", "total": len(visible), "lanes": shown, "place": _place(visible, asked.match)}


def _place(numbers: Int64s, number: int) -> int | None:
    """Where a number stands among others, which are in order."""
    place = int(np.searchsorted(numbers, number))
    return place if place < len(numbers) and numbers[place] == number else None


def _key_lane(index: MatchIndex, lane: int, matches: Int64s, low: float, high: float, width: int) -> dict[str, Any]:
    name = index.lane_names[lane]
    found: dict[str, Any] = {"name": name, "count": len(matches)}
    if len(matches) <= _MOST_SPANS:
        found["spans"] = [_span(index, match) for match in matches.tolist()]
        found["others"] = _others(index, lane, low, high)
        return found
    bins = max(1, min(width, _MOST_PIXELS) // _BIN)
    counts = np.histogram(index.end[matches], bins, (low, high))[0]
    filled = np.flatnonzero(counts)
    found["bins"] = {"count": bins, "at": filled.tolist(), "matches": counts[filled].tolist()}
    found["first"] = int(matches[0])
    return found


def _span(index: MatchIndex, match: int) -> dict[str, Any]:
    return {
        "match": match,
        "start": float(index.start[match]),
        "end": float(index.end[match]),
        "marks": index.marks(match, _MOST_MARKS),
    }


def _others(index: MatchIndex, lane: int, low: float, high: float) -> list[float]:
    """The places of a lane's events in the range; none if they are too many to be told apart."""
    rows = index.rows_of_lane(lane)
    if rows is None:
        return []
    places = index.places[rows]
    begin, end = np.searchsorted(places, [low, high])
    return places[begin:end].tolist() if end - begin <= _MOST_OTHERS else []


def _match_name(index: MatchIndex, match: int) -> str:
    key = index.lane_names[index.lane[match]] if index.keys else ""
    return f"{match + 1}  {key}".rstrip()


def _window(index: MatchIndex) -> float | None:
    """How long a match may be, in the measure of the axis; None if that is measured otherwise."""
    window, seconds = index.run.query.plan.query.window, index.run.data.places[1]
    match window:
        case t.TimeWindow(length) if seconds:
            return length / 1e9
        case t.EventsWindow(count) if index.run.data.columns.time is None and not index.keys:
            return float(count)
    return None
