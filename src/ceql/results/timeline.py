"""Matches as a picture: a lane for each match, a mark for each event at its time, in its variable's colour and shape.

The picture is SVG and needs nothing else; a notebook's script makes it zoom and tell of its events. Its text has the
colour of the text around it; the colours of marks stand out on light and dark backgrounds alike. If matches lie far
apart, each lane begins with its own first event.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.engine.common.chunk import Int64s
from ceql.io.schemas import kind_of, take_rows
from ceql.recognition.result_columns import positions_of
from ceql.results.axis import Floats, date, ticks, to_numbers
from ceql.results.live import live
from ceql.results.reader import First
from ceql.results.tables import bound_events
from ceql.results.text import cell, clean, shorten, to_python

# Contrast of at least 3 to 1 with white and with the backgrounds of dark themes.
COLOURS = ("#2f80ed", "#d2691e", "#1f9d55", "#b455d9", "#e0455e", "#0e93a5", "#a07d0a", "#7d7d7d")
_SHAPES = (
    '<circle cx="{x}" cy="{y}" r="5"',
    '<path d="M{x} {y}m-4.6 -4.6h9.2v9.2h-9.2z"',
    '<path d="M{x} {y}m0 -6.2l6.2 6.2l-6.2 6.2l-6.2 -6.2z"',
    '<path d="M{x} {y}m0 -6l6 10.4h-12z"',
)
_WIDTH, _LANE, _MARGIN = 760, 24, 14
_LETTER = 7.1  # the width of a character, about: DejaVu Sans is wider than most
_EVENTS = 200  # of a lane
_VALUE = 200  # characters
_FAR = 6  # times the longest match


@dataclass(frozen=True)
class _Mark:
    at: float
    variable: int
    names: str
    """All variables that the event is bound to."""
    row: int
    values: list[str | None]
    """Its attributes, one for each of `attribute_names`."""

    def hint(self, names: list[str]) -> str:
        """What is said of the event under the pointer."""
        shown = [f"{name}={value}" for name, value in zip(names, self.values, strict=True) if value is not None]
        return f"{self.names}: row {self.row}" + (f"\n{' '.join(shown)}" if names else "")


@dataclass(frozen=True)
class Drawing:
    """A picture, and what a script needs to draw any part of it again."""

    svg: str
    data: dict[str, Any]


class Timeline:
    """A picture of matches. A notebook shows it; `to_svg` gives it as text to write to a file."""

    def __init__(self, first: First) -> None:
        self._first = first

    def __repr__(self) -> str:
        n = self._first.matches.num_rows
        return f"<Timeline of {n} match{'' if n == 1 else 'es'}>"

    def _repr_html_(self) -> str:
        if not self._first.matches.num_rows:
            return ""
        drawn = draw(self._first)
        return live(f'<div class="ceql-timeline">{drawn.svg}</div>', drawn.data)

    def to_svg(self) -> str:
        """The picture as an SVG document, with dark text where the reader prefers light, and the other way round."""
        style = (
            "<style>.ceql-alone{color:#1f2328}"
            "@media(prefers-color-scheme:dark){.ceql-alone{color:#e6edf3;background:#0d1117}}</style>"
        )
        return draw(self._first, attributes='class="ceql-alone" xmlns="http://www.w3.org/2000/svg" ', style=style).svg


def draw(first: First, most: int = _EVENTS, attributes: str = "", style: str = "") -> Drawing:
    """The whole picture, with at most so many events of each match."""
    n = first.matches.num_rows
    bound = _bound(first)
    names = [name for name, _ in bound]
    places, seconds = _places(first)
    lanes = _lanes(first, bound, places, most)
    starts = [min((mark.at for mark in lane), default=0.0) for lane in lanes]
    ends = [max((mark.at for mark in lane), default=0.0) for lane in lanes]
    longest = max((end - start for start, end in zip(starts, ends, strict=True)), default=0.0)
    apart = n > 1 and max(ends) - min(starts) > _FAR * longest
    origins = starts if apart else [0.0] * n
    low, high = (0.0, longest) if apart else (min(starts, default=0.0), max(ends, default=0.0))
    if high <= low:
        low, high = low - 0.5, high + 0.5
    labels = _labels(first, apart)
    left = _MARGIN + min(236.0, _LETTER * max((len(label) for label in labels), default=0) + 14)
    scale = (_WIDTH - left - 2 * _MARGIN) / (high - low)

    def x(at: float) -> str:
        return f"{left + (at - low) * scale:.1f}".removesuffix(".0")

    legend, top = _legend(names, sorted({mark.variable for lane in lanes for mark in lane}))
    bottom = top + _LANE * n
    shown = ticks(low, high, seconds, apart)
    grid = [f'<line x1="{x(t.at)}" x2="{x(t.at)}" y1="{top}" y2="{bottom + 4}" {_FAINT}/>' for t in shown]
    parts = [style, _group("legend", legend), _group("grid", *grid)]
    attribute_names = [] if first.rows is None else [clean(name) for name in first.rows.schema.names]
    for k, lane in enumerate(lanes):
        y = top + _LANE * k + _LANE // 2
        begin, end = x(starts[k] - origins[k]), x(ends[k] - origins[k])
        own = [_text(str(_MARGIN), y + 4, labels[k])]
        own.append(f'<line x1="{begin}" x2="{end}" y1="{y}" y2="{y}" {_SPAN}/>')
        for mark in lane:
            shape = _SHAPES[mark.variable % len(_SHAPES)].format(x=x(mark.at - origins[k]), y=y)
            colour = COLOURS[mark.variable % len(COLOURS)]
            hint = escape(mark.hint(attribute_names))
            own.append(f'{shape} fill="{colour}"><title>{hint}</title>{_closing(shape)}')
        parts.append(_group("lane", *own))
    axis = [_text(x(tick.at), bottom + 18, tick.label, 'text-anchor="middle"') for tick in shown]
    axis.append(_text(str(_WIDTH - _MARGIN), bottom + 35, _caption(first, seconds, apart, low, high), _RIGHT))
    parts.append(_group("axis", *axis))
    height = bottom + 46
    matches = "1 match" if n == 1 else f"{n} matches"
    svg = (
        f'<svg {attributes}viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
        f'style="max-width:100%;height:auto" aria-label="Timeline of {matches}" fill="currentColor" '
        f'font-family="system-ui, sans-serif" font-size="12">{"".join(parts)}</svg>'
    )
    size = {"width": _WIDTH, "left": left, "margin": _MARGIN, "top": top, "bottom": bottom, "height": height}
    data = {
        "low": low,
        "high": high,
        "seconds": seconds,
        "since": apart,
        "caption": _axis(first, seconds),
        "size": size,
    }
    return Drawing(svg, data | _events(first, attribute_names, lanes, origins))


def _events(first: First, names: list[str], lanes: list[list[_Mark]], origins: list[float]) -> dict[str, Any]:
    """The events of each match, for a script: place, variables, row, attributes."""
    return {
        "attributes": names,
        "numbers": [] if first.rows is None else [kind_of(field.type) == "number" for field in first.rows.schema],
        "lengths": np.asarray(first.matches.column("events").value_lengths()).tolist(),
        "lanes": [
            [[mark.at - origin, mark.names, mark.row, mark.values] for mark in lane]
            for lane, origin in zip(lanes, origins, strict=True)
        ],
    }


_FAINT = 'stroke="currentColor" stroke-opacity="0.15"'
_SPAN = 'stroke="currentColor" stroke-opacity="0.25" stroke-width="5" stroke-linecap="round"'
_RIGHT = 'text-anchor="end" fill-opacity="0.75"'


def _group(name: str, *parts: str) -> str:
    return f'<g class="ceql-{name}">{"".join(parts)}</g>'


def _closing(shape: str) -> str:
    return "</circle>" if shape.startswith("<circle") else "</path>"


def _text(x: str, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x}" y="{y}" {attributes}>{escape(clean(text))}</text>'


def _legend(names: list[str], shown: list[int]) -> tuple[str, int]:
    """The names of the variables beside their marks, and where the lanes begin."""
    parts, x, y = [], float(_MARGIN + 6), 16
    for k in shown:
        label = cell(names[k])
        width = 20 + _LETTER * len(label) + 14
        if x + width > _WIDTH and x > _MARGIN + 6:
            x, y = float(_MARGIN + 6), y + 20
        shape = _SHAPES[k % len(_SHAPES)].format(x=f"{x:.1f}", y=y)
        parts.append(f'{shape} fill="{COLOURS[k % len(COLOURS)]}"/>' + _text(f"{x + 11:.1f}", y + 4, label))
        x += width
    return "".join(parts), y + 16


def _places(first: First) -> tuple[Floats, bool]:
    """Where each event stands on the axis, and whether that is in seconds: by time, else by position."""
    if first.rows is not None and first.time is not None and first.time in first.rows.schema.names:
        found = to_numbers(first.rows.column(first.time))
        if found is not None and np.isfinite(found[0]).all():
            return found
    return positions_of(first.matches).astype(np.float64), False


def _bound(first: First) -> list[tuple[str, Int64s]]:
    """The variables with the rows of their events; one for all events, if SELECT names none but measures."""
    found = [(name, rows) for name, _, rows in bound_events(first.matches, first.selection)]
    return found or [("events", np.arange(len(positions_of(first.matches))))]


def _lanes(first: First, variables: list[tuple[str, Int64s]], places: Floats, most: int) -> list[list[_Mark]]:
    """The events of each match, each in the colour of its first variable; of many, some evenly spread."""
    lengths = np.asarray(first.matches.column("events").value_lengths()).astype(np.int64)
    bound = np.zeros((len(places), len(variables)), np.bool_)
    for k, (_, rows) in enumerate(variables):
        bound[rows, k] = True
    positions = positions_of(first.matches)
    found = []
    for end, length in zip(np.cumsum(lengths), lengths, strict=True):
        shown = end - length + np.flatnonzero(bound[end - length : end].any(axis=1))
        shown = shown[np.unique(np.linspace(0, len(shown) - 1, min(len(shown), most)).astype(int))]
        marks = zip(shown.tolist(), _values(first, shown), strict=True)
        found.append(
            [
                _Mark(
                    float(places[at]),
                    int(bound[at].argmax()),
                    ", ".join(clean(variables[k][0]) for k in np.flatnonzero(bound[at])),
                    int(positions[at]),
                    values,
                )
                for at, values in marks
            ]
        )
    return found


def _values(first: First, shown: Int64s) -> list[list[str | None]]:
    """The attributes of these events as text, None for NULL."""
    if first.rows is None or not first.rows.num_columns:
        return [[] for _ in shown]
    columns = [to_python(column, " ") for column in take_rows(first.rows, pa.array(shown)).columns]
    return [[None if value is None else cell(value, _VALUE) for value in row] for row in zip(*columns, strict=True)]


def _labels(first: First, apart: bool) -> list[str]:
    """What stands before each lane: the keys, or the rows from start to end; its time, if the axis does not say it."""
    names = first.matches.schema.names
    keys = names[4 if "end_time" in names else 2 : names.index("events")]
    shown = keys or (["start"] if apart else ["start", "end"])
    shown += ["start_time"] if apart and "start_time" in names else []
    columns = [to_python(first.matches.column(name), " ") for name in shown]
    joint = ".." if shown == ["start", "end"] else ", "
    return [shorten(joint.join(cell(value) for value in row), 32) for row in zip(*columns, strict=True)]


def _caption(first: First, seconds: bool, apart: bool, low: float, high: float) -> str:
    axis = _axis(first, seconds)
    if apart:
        return f"{axis} since the first event of each match"
    if not seconds:
        return axis
    days = [date(low), date(high)]
    return f"{axis}, {days[0]}" if days[0] == days[1] else f"{axis}, {days[0]} to {days[1]}"


def _axis(first: First, seconds: bool) -> str:
    """What the axis shows."""
    return "time" if seconds else clean(first.time) if first.time is not None and first.rows is not None else "row"
