"""Shows one match: its keys and measures, and the events behind it with what lies between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ceql.recognition.result_columns import FIXED, variable_fields
from ceql.results.axis import duration
from ceql.results.tables import bound_events
from ceql.results.text import cell, to_rows
from ceql.studio.match_index import MatchIndex
from ceql.studio.match_table import readable, take

_MOST_EVENTS = 2000  # of one match


def match(index: MatchIndex, number: int) -> dict[str, Any]:
    """The events of a match, each with its variables and what lies between it and the one before."""
    data = index.run.data
    begin, end = index.first[number], index.first[number + 1]
    rows = index.events[begin:end][:_MOST_EVENTS]
    bound = _variables(index, number)
    places, seconds = data.places
    gaps = np.diff(places[rows], prepend=places[rows[:1]]).tolist()
    skipped = np.diff(rows, prepend=rows[:1]) - 1
    table = to_rows(take(data, rows), " ")
    _shorten_times(table, data.columns.time)
    events = [
        {
            "row": int(shown),
            "at": float(places[row]),
            "variables": bound.get(int(row), []),
            "gap": "" if k == 0 else f"+{duration(gap)}" if seconds else f"+{gap:g}",
            "skipped": 0 if k == 0 else int(skip),
            "cells": [cell(value) for value in event.values()],
        }
        for k, (row, shown, gap, skip, event) in enumerate(
            zip(rows, data.row_numbers(rows), gaps, skipped, table, strict=True)
        )
    ]
    return {
        "match": number,
        "start": float(index.start[number]),
        "end": float(index.end[number]),
        "columns": data.table.schema.names,
        "events": events,
        "all": int(end - begin),
        "variables": index.variables,
        "measures": _measures(index, number),
    }


def _variables(index: MatchIndex, number: int) -> dict[int, list[str]]:
    """The names that each row of a match is bound to."""
    found: dict[int, list[str]] = {}
    one = index.batch.slice(number, 1)
    for name, lists, _ in bound_events(one, index.run.query.plan.selection):
        if name in index.variables:
            for row in lists.flatten().to_pylist():
                found.setdefault(row, []).append(name)
    return found


def _measures(index: MatchIndex, number: int) -> list[dict[str, str]]:
    """When a match begins and how long it lasts, its keys and its measures, by name."""
    one = index.batch.slice(number, 1)
    events = {"events", *(field.name for field in variable_fields(one.schema))}
    shown = [name for name in one.schema.names if name not in events]
    (row,) = to_rows(readable(one.select(shown)), " ")
    found = {name: cell(value) for name, value in row.items() if name not in FIXED}
    if "start_time" in row:
        span = float(index.end[number] - index.start[number])
        lasts = duration(span) if index.run.data.places[1] else f"{span:g}"
        found = {"begins": cell(row["start_time"]), "lasts": lasts, **found}
    return [{"name": name, "value": value} for name, value in found.items()]


def _shorten_times(rows: list[dict[str, Any]], time: str | None) -> None:
    """Leave out the date where all events are of one day; the match says which."""
    if time is None:
        return
    times = [str(row.get(time)) for row in rows]
    if len({text.partition(" ")[0] for text in times}) == 1 and all(" " in text for text in times):
        for row, text in zip(rows, times, strict=True):
            row[time] = text.partition(" ")[2]
