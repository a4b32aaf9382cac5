"""`ceql studio`: what the command line names becomes the first query and the first data of a session."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from ceql.cli.exit_codes import UsageError
from ceql.cli.inputs import STDIN
from ceql.studio import loading
from ceql.studio.data import Columns, Data
from ceql.studio.examples import EXAMPLES
from ceql.studio.server import serve
from ceql.studio.session import Limits, Session
from ceql.studio.streams import join
from ceql.syntax.limits import MAX_CHARACTERS

_STREAM = re.compile(r"(?P<name>\w+)=(?P<file>.+)", re.DOTALL)


def open_studio(
    query: str | None,
    events: list[str],
    follow: bool,
    columns: tuple[str | None, str | None, str | None],
    port: int,
    browser: bool,
    time_limit: float,
    upload_limit: int,
) -> None:
    """Serve a studio that begins with this query and these events."""
    named = Columns(*columns)
    nothing = query is None and not events
    text = EXAMPLES[0].text if nothing else _text(query or "")
    data = loading.sample("first", EXAMPLES[0].id, named) if nothing else None
    if len(events) > 1 or any(_STREAM.match(name) and not os.path.exists(name) for name in events):
        data = _streams(events, follow, named)
    elif events:
        data = _data(events[0], follow, named)
    serve(Session(Limits(upload_limit << 20, time_limit), text, data), port, browser)


def _text(query: str) -> str:
    """The query in the file of this name, or the query itself. What is wrong with it is shown on the page."""
    if query == STDIN:
        raise UsageError("the query comes from a file or the command line; standard input is for events")
    if "\n" not in query and os.path.isfile(query):
        if os.path.getsize(query) > 4 * MAX_CHARACTERS:  # as many bytes as a character may take
            raise UsageError(f"{query} is too long for a query")
        try:
            return Path(query).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the query {query}: {error}") from error
    return query


def _streams(events: list[str], follow: bool, columns: Columns) -> Data:
    """NAME=FILE for each stream."""
    named = {}
    for event in events:
        found = _STREAM.match(event)
        if found is None or follow:
            raise UsageError(
                "for several streams, write NAME=FILE for each, with the names of FROM, and do not follow them"
            )
        named[found["name"]] = loading.load_path("first", found["file"], columns)
    return join("first", named)


def _data(events: str, follow: bool, columns: Columns) -> Data:
    if events == STDIN:
        return loading.arriving("first", "standard input", {"stdin": True}, os.dup(sys.stdin.fileno()), columns)
    return (loading.follow if follow else loading.load_path)("first", events, columns)
