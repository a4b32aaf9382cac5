"""`make playground`: runs each example of the playground with each choice that a visitor can make.

An example, in playground.toml, is a few events and a query with slots. Each slot offers some texts, and a visitor of
docs/playground.md chooses among them. The page has no server and no Python, so ceql runs every combination here and
writes docs/playground/recorded.js: matches, measures, warnings, errors, and what diagnose says if nothing matches. It
is a script and no JSON, since a page that is opened from the disk may load the one and not the other.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ceql

ROOT = Path(__file__).parents[1]
EXAMPLES = Path(__file__).with_name("playground.toml")
RECORDED = ROOT / "docs/playground/recorded.js"
DAY = "2026-03-01"
MOST = 12  # matches of a run that are recorded, beside how many there are
_SLOT = re.compile(r"\{\{(\w+)\}\}")


class Example(NamedTuple):
    """Events, and a query whose slots `{{name}}` have choices; the first ones are those that the page begins with."""

    title: str
    question: str
    events: list[dict[str, Any]]
    query: str
    choices: dict[str, list[str]]


def examples() -> dict[str, Example]:
    """All examples, by name."""
    found = tomllib.loads(EXAMPLES.read_text())
    return {
        name: Example(**{**one, "events": rows(one["events"]), "query": one["query"].strip()})
        for name, one in found.items()
    }


def rows(table: str) -> list[dict[str, Any]]:
    """The events of a table whose first line has the names of columns.

    >>> rows("type  v    time\\nA     1.5  09:00:00\\n")
    [{'type': 'A', 'v': 1.5, 'time': '2026-03-01 09:00:00'}]
    """
    names, *lines = (line.split() for line in table.strip().split("\n"))
    return [{name: _value(text) for name, text in zip(names, line, strict=True)} for line in lines]


def _value(text: str) -> Any:
    if ":" in text:
        return f"{DAY} {text}"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def combinations(example: Example) -> Iterator[tuple[int, ...]]:
    """The choices as numbers, one for each slot."""
    return itertools.product(*(range(len(texts)) for texts in example.choices.values()))


def text_of(example: Example, chosen: tuple[int, ...]) -> str:
    """The query with these choices; a line that is empty then is left out."""
    texts = {name: example.choices[name][k] for name, k in zip(example.choices, chosen, strict=True)}
    filled = _SLOT.sub(lambda slot: texts[slot[1]], example.query)
    return "\n".join(re.sub(r" {2,}", " ", line).strip() for line in filled.split("\n") if line.strip())


def record(example: Example, chosen: tuple[int, ...]) -> dict[str, Any]:
    """What ceql says to the query with these choices."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            query = ceql.compile(text_of(example, chosen))
            found = query.run(example.events)
            matches = [_match(match) for match in itertools.islice(found, MOST)]
            run: dict[str, Any] = {"count": found.count(), "matches": matches}
            if not matches:
                run["why"] = list(query.diagnose(example.events).reasons)
        except ceql.CeqlError as error:
            run = {"error": str(error)}
    notes = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    return run | ({"notes": list(dict.fromkeys(notes))} if notes and "error" not in run else {})


def _match(match: ceql.Match) -> dict[str, Any]:
    """The events of each variable; of a type and a variable with the same events, the variable."""
    named = {name: tuple(events) for name, events in match.bindings.items() if events}
    own = {name: events for name, events in named.items() if not _is_said_again(name, named)}
    shown: dict[str, Any] = {"events": own}
    if match.measures:
        shown["measures"] = {name: _plain(value) for name, value in match.measures.items()}
    return shown


def _is_said_again(name: str, named: dict[str, tuple[int, ...]]) -> bool:
    return name[:1].isupper() and any(
        not other[:1].isupper() and set(named[name]) & set(events) for other, events in named.items()
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 2)
    return value if value is None or isinstance(value, int) else str(value).removeprefix("0 days ")


def recorded() -> dict[str, Any]:
    """All that the page needs to know."""
    return {
        name: example._asdict()
        | {"runs": {".".join(map(str, chosen)): record(example, chosen) for chosen in combinations(example)}}
        for name, example in examples().items()
    }


def as_script(found: dict[str, Any]) -> str:
    """A script with a line for each example.

    >>> as_script({"a": {"title": "A"}})
    'window.recorded = {\\n"a": {"title":"A"}\\n}\\n'
    """
    lines = (
        f"{json.dumps(name)}: {json.dumps(one, separators=(',', ':'), ensure_ascii=False)}"
        for name, one in found.items()
    )
    return "window.recorded = {\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(as_script(recorded()))
