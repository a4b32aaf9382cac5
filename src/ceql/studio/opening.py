"""`ceql studio`: what the command line names becomes the first query and the first data of a session."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ceql.cli.exit_codes import UsageError
from ceql.cli.inputs import STDIN
from ceql.studio import loading
from ceql.studio.data import Columns, Data
from ceql.studio.examples import EXAMPLES
from ceql.studio.server import serve
from ceql.studio.session import Limits, Session


def open_studio(
    query: str | None,
    events: str | None,
    follow: bool,
    columns: tuple[str | None, str | None, str | None],
    port: int,
    browser: bool,
    time_limit: float,
    upload_limit: int,
) -> None:
    """Serve a studio that begins with this query and these events."""
    named = Columns(*columns)
    text = EXAMPLES[0].text if query is None and events is None else _text(query or "")
    data = loading.sample("first", EXAMPLES[0].id, named) if query is None and events is None else None
    if events is not None:
        data = _data(events, follow, named)
    serve(Session(Limits(upload_limit << 20, time_limit), text, data), port, browser)


def _text(query: str) -> str:
    """The query in the file of this name, or the query itself. What is wrong with it is shown on the page."""
    if query == STDIN:
        raise UsageError("the query comes from a file or the command line; standard input is for events")
    if "\n" not in query and os.path.isfile(query):
        try:
            return Path(query).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the query {query}: {error}") from error
    return query


def _data(events: str, follow: bool, columns: Columns) -> Data:
    if events == STDIN:
        return loading.arriving("first", "standard input", {"stdin": True}, os.dup(sys.stdin.fileno()), columns)
    path = Path(events).expanduser().absolute()
    if follow:
        return loading.follow("first", path, columns)
    return loading.load("first", path, {"path": str(path)}, columns)
