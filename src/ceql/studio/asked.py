"""Reads what the page asks for, and refuses what makes no sense as `Malformed` (HTTP 400), before anything is done."""

from __future__ import annotations

import json
import re
from math import isfinite
from pathlib import Path
from typing import Any

from starlette.requests import Request

from ceql.errors import CeqlError
from ceql.recognition.options import TIME_UNITS
from ceql.studio.data import Columns

Body = dict[str, Any]
_WHOLE, _FAR = 10**9, 1e300  # the largest numbers that are taken as they are
_SUFFIXES = re.compile(r"(\.\w{1,10}){1,2}\Z")


class Malformed(CeqlError):
    """A request that the page would not send; `status` is the answer's."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


async def json_object(request: Request) -> Body:
    """The object that is sent, all of whose texts can be written again."""
    if "application/json" not in request.headers.get("content-type", ""):
        raise Malformed("JSON is expected", 415)
    try:
        body = await request.json()
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # no JSON, deep JSON, half of a character
        body = None
    if not isinstance(body, dict):
        raise Malformed("a JSON object is expected")
    return body


def text(body: Body, name: str) -> str | None:
    """The text of this name; None if there is none."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise Malformed(f"'{name}' must be text")
    return value


def query(body: Body) -> str:
    """The text of the query."""
    found = text(body, "query")
    if found is None:
        raise Malformed("there is no query")
    return found


def columns(body: Body) -> Columns:
    """The columns of types and times, and the unit; what is empty is to be guessed."""
    found = Columns(*(text(body, name) or None for name in ("type", "time", "unit")))
    if found.time_unit is not None and found.time_unit not in TIME_UNITS:
        raise Malformed(f"the unit of times must be one of {', '.join(TIME_UNITS)}, not '{found.time_unit}'")
    return found


def streams(body: Body) -> dict[str, str] | None:
    """The paths of several streams by their names; None if the page does not ask for streams."""
    found = body.get("streams")
    if found is None:
        return None
    if not isinstance(found, dict) or not all(isinstance(path, str) for path in found.values()):
        raise Malformed("'streams' must have a path for each name")
    return found


def whole(given: str | None, default: int) -> int:
    """A number of things. A larger one than there can be things stands for all of them."""
    if given is None or not given.isdecimal():
        return default
    return int(given) if len(given) < 10 else _WHOLE


def number(given: str | None, default: float) -> float:
    """A place on the axis."""
    try:
        found = float(given) if given is not None else default
    except ValueError:
        return default
    return found if isfinite(found) and abs(found) <= _FAR else default


def suffixes(name: str) -> str:
    """The endings of a file's name that may tell its format.

    >>> suffixes("events.csv.gz"), suffixes("events." + "x" * 5000)
    ('.csv.gz', '')
    """
    found = _SUFFIXES.search(Path(name).name)
    return found.group() if found is not None else ""
