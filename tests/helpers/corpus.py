"""The corpus: queries with the matches they must give, whatever runs them. See `tests/corpus/*.toml`.

A case has a `title`, a `query`, its events and its `matches`. The events are given in full (`events`), by the
name of a stream of the same file (`stream`), or as a `word`, which is one event for each letter: its type, with
the index as `time` and `id`. A missing attribute is NULL. `decimals` names the attributes that are decimals; their
values are written as text. A match is `{start, end, events, x = [...], ...}`; start and end may be left out where they
are the first and last of `events`, variables where they are of no interest; a list stands for `{events = [...]}`.
Where the contract leaves open which matches are kept (LIMIT, ANY), `count` tells how many. `error` is a part of the
message that the query must be refused with.

A case that says what another system says has that system's pattern as `peer`, the words for it `here`, and a remark
`about` it; if the query is not what a user would write, `clumsy` says why. Entries `missing` are tests of another
system that no query says, and why.

A case of `tests/corpus/totals` has, in place of matches, what is `asked` of all of them (with `by` and `every`), and
the `rows` that `aggregate` must give.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import constructs
from ceql.syntax.absence import trailing
from ceql.syntax.parser import parse

FOLDER = Path(__file__).parents[1] / "corpus"
THOROUGH = os.environ.get("CEQL_CORPUS") == "all"  # `make thorough`
KEYS = {
    "title", "query", "events", "stream", "word", "decimals", "matches", "count", "error", "correlated", "time_unit",
    "options", "peer", "here", "clumsy", "about",
}  # fmt: skip


def some(cases: Sequence[Case], every: int) -> list[Case]:
    """Every so-manieth case, for tests that are slow for each; all of them with CEQL_CORPUS=all."""
    return list(cases if THOROUGH else cases[::every])


def covering(cases: Iterable[Case], times: int) -> list[Case]:
    """The first cases that have each construct of the language so many times, for tests that are slower still.

    With CEQL_CORPUS=all, all of them.
    """
    cases, chosen, seen = list(cases), [], Counter[str]()
    if THOROUGH:
        return cases
    for case in cases:
        own = constructs.of(parse(case.query))
        if any(seen[name] < times for name in own):
            chosen.append(case)
            seen.update(own)
    return chosen


class AnyMatch(Protocol):
    """What a match must show to be compared; `oracle.Match` does."""

    start: int
    end: int
    events: tuple[int, ...]
    bindings: frozenset[tuple[str, tuple[int, ...]]]


class Expected(NamedTuple):
    start: int
    end: int
    events: tuple[int, ...]
    bindings: frozenset[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Case:
    file: str
    title: str
    query: str
    events: list[dict[str, Any]]
    matches: list[Expected] | None = None
    count: int | None = None
    error: str | None = None
    correlated: bool = False
    time_unit: str = "ms"
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments that `oracle.candidates` and `oracle.check` take."""
        return {"time_unit": self.time_unit, **self.options}

    def verify(self, got: list[Any]) -> None:
        """Assert that these are the matches of the case; `got` are `AnyMatch`es in output order."""
        query = parse(self.query)
        if not trailing(query.formula) and query.after_match is None:
            order = [(m.end, -m.start) for m in got]
            assert order == sorted(order), f"not by end, then later starts first: {got}"
        if self.matches is None:
            assert len(got) == self.count, f"{len(got)} matches instead of {self.count}: {got}"
            return
        left = list(got)
        # the most detailed first, so that a vague one does not take the place of an exact one
        for wanted in sorted(self.matches, key=lambda m: -len(m.bindings)):
            fits = [m for m in left if agrees(m, wanted)]
            assert fits, f"missing {wanted}\nin {left}\nof {got}"
            left.remove(fits[0])
        assert not left, f"not expected: {left}"


def agrees(got: AnyMatch, wanted: Expected) -> bool:
    return (got.start, got.end, tuple(got.events)) == wanted[:3] and wanted.bindings <= got.bindings


def load() -> list[Case]:
    """Every case of the corpus, by file and in its order."""
    return list(_all())


@cache
def _all() -> tuple[Case, ...]:
    return tuple(case for path in sorted(FOLDER.glob("*.toml")) for case in load_file(path))


@dataclass(frozen=True)
class TotalsCase:
    """What `aggregate` must give for a query: `asked` columns, `by` keys, `every` stretch of time, and the `rows`."""

    title: str
    query: str
    events: list[dict[str, Any]]
    asked: dict[str, str]
    rows: list[dict[str, Any]]
    by: tuple[str, ...] = ()
    every: int | None = None

    def __str__(self) -> str:
        return self.title


def load_totals() -> list[TotalsCase]:
    """Every case of `corpus/totals`; their events are given as in other cases."""
    found = []
    for path in sorted((FOLDER / "totals").glob("*.toml")):
        content = tomllib.loads(path.read_text())
        for entry in content["case"]:
            events = streams_of(content, entry)
            known = {key: entry[key] for key in ("every",) if key in entry}
            asked, rows, by = entry["asked"], entry["rows"], tuple(entry.get("by", ()))
            found.append(TotalsCase(entry["title"], entry["query"], events, asked, rows, by, **known))
    return found


def streams_of(content: dict[str, Any], entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a case."""
    if "stream" in entry:
        return list(content["streams"][entry["stream"]])
    if "word" in entry:
        return [{"type": letter, "time": i, "id": i} for i, letter in enumerate(entry["word"])]
    return list(entry.get("events", []))


def load_file(path: Path) -> list[Case]:
    with path.open("rb") as file:
        content = tomllib.load(file)
    return [read_case(path.stem, content.get("streams", {}), entry) for entry in content["case"]]


def read_case(file: str, streams: dict[str, Any], entry: dict[str, Any]) -> Case:
    title = entry["title"]
    unknown = entry.keys() - KEYS
    if unknown:
        raise ValueError(f"{file}: {title}: unknown {sorted(unknown)}")
    if sum(key in entry for key in ("matches", "count", "error")) != 1:
        raise ValueError(f"{file}: {title}: one of matches, count, error")
    events = streams_of({"streams": streams}, entry)
    decimals = entry.get("decimals", ())
    if decimals:
        events = [{name: Decimal(v) if name in decimals else v for name, v in event.items()} for event in events]
    return Case(
        file,
        title,
        entry["query"],
        events,
        [read_match(m) for m in entry["matches"]] if "matches" in entry else None,
        **{key: entry[key] for key in ("count", "error", "correlated", "time_unit", "options") if key in entry},
    )


def read_match(entry: dict[str, Any] | list[int]) -> Expected:
    if isinstance(entry, list):
        entry = {"events": entry}
    events = tuple(entry["events"])
    rest = {name: tuple(value) for name, value in entry.items() if name not in ("start", "end", "events")}
    start = entry["start"] if "start" in entry else events[0]
    end = entry["end"] if "end" in entry else events[-1]
    return Expected(start, end, events, frozenset(rest.items()))
