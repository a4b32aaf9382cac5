"""Matches to look through in a notebook or a page: a timeline, a table, and the events of the match that is clicked.

All data are inside the HTML, so that it is the same in a notebook, in its export and in a file. The table is there
before the script runs, and stays where none is run.
"""

from __future__ import annotations

from html import escape
from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ceql.results import views
from ceql.results.live import live
from ceql.results.reader import First
from ceql.results.timeline import draw

_EVENTS = 100  # of a match
_PAGE = (
    '<!doctype html><html lang="en" style="color-scheme:light dark"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
    "<title>Matches</title></head>"
    '<body style="margin:0"><main><h1 style="font:600 18px system-ui;margin:14px 22px 0">Matches</h1>'
    "{}</main></body></html>\n"
)


class Explorer:
    """The first matches to look through. A notebook shows it; `save` writes it as a page of its own."""

    def __init__(self, first: First) -> None:
        self._first = first

    def __repr__(self) -> str:
        return f"<Explorer: {views.note(self._first)}>"

    def _repr_html_(self) -> str:
        first = self._first
        shown = views.telling(first)
        n = first.matches.num_rows
        drawn = draw(first, _EVENTS)
        timeline = f'<div class="ceql-timeline">{drawn.svg}</div>' if n else ""
        table = views.html_table(shown, n)
        body = (
            f'<p class="ceql-note">{escape(views.note(first))}</p>{timeline}'
            f'<div class="ceql-scroll" tabindex="0" role="region" aria-label="Matches">{table}</div>'
        )
        return live(body, {**drawn.data, "ranks": [_ranks(column.values) for column in shown]}, "ceql-explorer")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file; a browser opens it without a network."""
        Path(path).write_text(_PAGE.format(self._repr_html_()), encoding="utf-8")


def _ranks(values: pa.Array | None) -> list[int | None] | None:
    """Where each value stands among all, None for NULL; None where values have no order."""
    if values is None:
        return None
    try:
        ranks = pc.rank(values, tiebreaker="dense").to_pylist()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return [rank if valid else None for rank, valid in zip(ranks, values.is_valid().to_pylist(), strict=True)]
