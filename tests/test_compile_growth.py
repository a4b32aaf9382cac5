"""Compiling takes work in proportion to the query, counted in calls of Python functions, which no load can disturb."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

import ceql
from ceql.analysis import resolve
from ceql.automata import compile_correlated


def _chain(n: int) -> str:
    return " ; ".join(f"A AS x{k}" for k in range(n))


SHAPES: dict[str, Callable[[int], str]] = {
    "a chain": _chain,
    "a contiguous chain": lambda n: " : ".join(f"A{k}" for k in range(n)),
    "a chain of iterations": lambda n: " ; ".join(f"A{k}+" for k in range(n)),
    "a chain of alternatives": lambda n: " ; ".join(f"(A{k} OR B{k})" for k in range(n)),
    "alternatives": lambda n: " OR ".join(f"A{k} ; B{k}" for k in range(n)),
    "a chain of filters": lambda n: " ; ".join(f"(A AS x{k} FILTER x{k}[v > {k}])" for k in range(n)),
    "filters on a chain": lambda n: _chain(n) + " FILTER " + " AND ".join(f"x{k}[v > {k}]" for k in range(n)),
    "neighbours compared": lambda n: (
        _chain(n) + " FILTER " + " AND ".join(f"x{k}.v < x{k + 1}.v" for k in range(n - 1))
    ),
    "neighbours equal": lambda n: _chain(n) + " FILTER " + " AND ".join(f"x{k}.v = x{k + 1}.v" for k in range(n - 1)),
    "one equal to all": lambda n: _chain(n) + " FILTER " + " AND ".join(f"x0.v = x{k}.v" for k in range(1, n)),
    "filters that wait for the item before": lambda n: (
        "A AS x0 ; " + " ; ".join(f"(A AS x{k} FILTER x{k - 1}.v < x{k}.v)" for k in range(1, n))
    ),
    "windows": lambda n: " ; ".join(f"(A ; B WITHIN {k + 1} EVENTS)" for k in range(n)),
    "one compared with all": lambda n: _chain(n) + " FILTER " + " AND ".join(f"x0.v < x{k}.v" for k in range(1, n)),
    "absences in a chain": lambda n: " ; NOT N ; ".join(f"A AS x{k}" for k in range(n)) + f" FILTER x0.v < x{n - 1}.v",
    "a key for a chain": lambda n: f"({_chain(n)} PARTITION BY [k])",
    "a key for each type": lambda n: (
        " ; ".join(f"A{k}" for k in range(n)) + f" PARTITION BY [{', '.join(f'A{k}.a{k}' for k in range(n))}]"
    ),
    "a key for each variable": lambda n: f"{_chain(n)} PARTITION BY [{', '.join(f'x{k}.a{k}' for k in range(n))}]",
    "a long list": lambda n: f"A FILTER A[v IN {{{', '.join(map(str, range(n)))}}}]",
    "many cases": lambda n: "A FILTER A[" + " OR ".join(f"v = {k}" for k in range(n)) + "]",
}


def calls(text: str) -> int:
    """How many calls of Python functions it takes to compile a query."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        ceql.compile(text)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_as_long_takes_twice_the_work(shape: str) -> None:
    ceql.compile("SELECT * WHERE A")  # the grammar is read once
    short, long = (calls(f"SELECT * WHERE {SHAPES[shape](n)}") for n in (150, 300))
    assert long < 2.5 * short


TOO_LARGE: dict[str, tuple[str, str]] = {
    "MOST_NODES": (
        "ORs of a FILTER",
        "A AS a ; B AS b FILTER " + " AND ".join(f"(a[v={k}] OR b[v={k}])" for k in range(60)),
    ),
    "MAX_JOINED": ("may be missing", " ; ".join(f"A{k}?" for k in range(800))),
    "MOST_EDGES": (
        "may be missing",
        " ; ".join(f"A{k}?" for k in range(400)) + " ; B AS x ; C AS y FILTER x.v < y.v",
    ),
    "MOST_KNOWN": (
        "99 equalities of different values between 100 events",
        _chain(100) + " FILTER " + " AND ".join(f"x{k}.v{k} = x{k + 1}.v{k}" for k in range(99)),
    ),
    "MAX_MOVES": ("ALL joins so many sides", " ALL ".join(f"A{k}" for k in range(12))),
}


@pytest.mark.parametrize("limit", TOO_LARGE)
def test_what_would_take_minutes_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message, formula = TOO_LARGE[limit]
    monkeypatch.setattr(resolve, "MOST_NODES", 1_000)
    monkeypatch.setattr(compile_correlated, "MOST_KNOWN", 1_000)
    with pytest.raises(ceql.ResourceError, match=message) as error:
        ceql.compile(f"SELECT * WHERE {formula}")
    assert error.value.limit == limit
