"""Matches as a picture: a lane for each match, a mark for each event at its time, in its variable's colour and shape.

The picture is SVG and needs nothing else. Its text has the colour of the text around it; the colours of marks stand out
on light and dark backgrounds alike. If matches lie far apart, each lane begins with its own first event.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np
import pyarrow as pa

from ceql.engine.common.chunk import Int64s
from ceql.io.schemas import take_rows
from ceql.results.axis import Floats, date, ticks, to_numbers
from ceql.results.reader import First, positions_of
from ceql.results.tables import bound_events
from ceql.results.text import attributes, cell, clean, shorten, to_python, to_rows

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
_FAR = 6  # times the longest match


@dataclass(frozen=True)
class _Mark:
    at: float
    variable: int
    hint: str
    """What is said of the event under the pointer."""


class Timeline:
    """A picture of matches. A notebook shows it; `to_svg` gives it as text to write to a file."""

    def __init__(self, first: First) -> None:
        self._first = first

    def __repr__(self) -> str:
        n = self._first.matches.num_rows
        return f"<Timeline of {n} match{'' if n == 1 else 'es'}>"

    def _repr_html_(self) -> str:
        return f'<div class="ceql-timeline">{_draw(self._first)}</div>' if self._first.matches.num_rows else ""

    def to_svg(self) -> str:
        """The picture as an SVG document, with dark text where the reader prefers light, and the other way round."""
        style = (
            "<style>.ceql-alone{color:#1f2328}"
            "@media(prefers-color-scheme:dark){.ceql-alone{color:#e6edf3;background:#0d1117}}</style>"
        )
        return _draw(self._first, 'class="ceql-alone" xmlns="http://www.w3.org/2000/svg" ', style)


def _draw(first: First, attributes: str = "", style: str = "") -> str:
    """The whole picture."""
    n = first.matches.num_rows
    names = [name for name, _, _ in bound_events(first.matches, first.selection)]
    places, seconds = _places(first)
    lanes = _lanes(first, names, places)
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
    parts = [style, legend]
    for tick in ticks(low, high, seconds, apart):
        parts.append(f'<line x1="{x(tick.at)}" x2="{x(tick.at)}" y1="{top}" y2="{bottom + 4}" {_FAINT}/>')
        parts.append(_text(x(tick.at), bottom + 18, tick.label, 'text-anchor="middle"'))
    for k, lane in enumerate(lanes):
        y = top + _LANE * k + _LANE // 2
        begin, end = x(starts[k] - origins[k]), x(ends[k] - origins[k])
        parts.append(_text(str(_MARGIN), y + 4, labels[k]))
        parts.append(f'<line x1="{begin}" x2="{end}" y1="{y}" y2="{y}" {_SPAN}/>')
        for mark in lane:
            shape = _SHAPES[mark.variable % len(_SHAPES)].format(x=x(mark.at - origins[k]), y=y)
            colour = COLOURS[mark.variable % len(COLOURS)]
            parts.append(f'{shape} fill="{colour}"><title>{escape(mark.hint)}</title>{_closing(shape)}')
    parts.append(_text(str(_WIDTH - _MARGIN), bottom + 35, _caption(first, seconds, apart, low, high), _RIGHT))
    height = bottom + 46
    matches = "1 match" if n == 1 else f"{n} matches"
    return (
        f'<svg {attributes}viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
        f'style="max-width:100%;height:auto" aria-label="Timeline of {matches}" fill="currentColor" '
        f'font-family="system-ui, sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


_FAINT = 'stroke="currentColor" stroke-opacity="0.15"'
_SPAN = 'stroke="currentColor" stroke-opacity="0.25" stroke-width="5" stroke-linecap="round"'
_RIGHT = 'text-anchor="end" fill-opacity="0.75"'


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


def _lanes(first: First, names: list[str], places: Floats) -> list[list[_Mark]]:
    """The events of each match, each under the first variable it is bound to; of many, some evenly spread."""
    lengths = np.asarray(first.matches.column("events").value_lengths()).astype(np.int64)
    variable = np.full(len(places), -1)
    for k, (_, _, bound) in reversed(list(enumerate(bound_events(first.matches, first.selection)))):
        variable[bound] = k
    found = []
    for end, length in zip(np.cumsum(lengths), lengths, strict=True):
        shown = end - length + np.flatnonzero(variable[end - length : end] >= 0)
        shown = shown[np.unique(np.linspace(0, len(shown) - 1, min(len(shown), _EVENTS)).astype(int))]
        hints = _hints(first, [names[k] for k in variable[shown]], shown)
        marks = zip(places[shown].tolist(), variable[shown].tolist(), hints, strict=True)
        found.append([_Mark(*mark) for mark in marks])
    return found


def _hints(first: First, names: list[str], shown: Int64s) -> list[str]:
    """The variable, the row and the attributes of these events."""
    positions = positions_of(first.matches)[shown]
    heads = [f"{name}: row {position}" for name, position in zip(names, positions, strict=True)]
    if first.rows is None:
        return heads
    events = to_rows(take_rows(first.rows, pa.array(shown)), " ")
    return [f"{head}\n{attributes(event)}" for head, event in zip(heads, events, strict=True)]


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
    axis = "time" if seconds else clean(first.time) if first.time is not None and first.rows is not None else "row"
    if apart:
        return f"{axis} since the first event of each match"
    if not seconds:
        return axis
    days = [date(low), date(high)]
    return f"{axis}, {days[0]}" if days[0] == days[1] else f"{axis}, {days[0]} to {days[1]}"
