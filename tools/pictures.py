"""`make pictures`: the pictures of the first steps, the recipes and the manual, from what the code beside them finds.

A page names its pictures where they belong. Each shows events as columns and, below them, a line for each match with a
mark at its events. Of a recipe, that is the query that ran last; in the manual and beside it, all of its section.
"""

from __future__ import annotations

import doctest
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import ceql
from ceql.results.timeline import COLOURS

ROOT = Path(__file__).parents[1]
MANUAL = sorted(page for page in (ROOT / "docs").glob("language*.md") if "](language/" in page.read_text())
WHICH = ROOT / "docs/which-matches.md"
_LINK = re.compile(r"!\[[^\]]*\]\(([\w/-]+\.svg)\)")
_RECIPES = [page for page in sorted((ROOT / "docs/recipes").glob("*.md")) if _LINK.search(page.read_text())]
PAGES = [ROOT / "docs/start.md", *_RECIPES, *MANUAL, WHICH]
_SELECT = re.compile(
    r"SELECT\s+((?:DISTINCT\s+)?(?:(?:ANY|NEXT|LAST|MAX|STRICT)\s)?).*?(?=\sFROM\s|\sWHERE\s)", re.DOTALL
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d ")
_HEADING = re.compile(r"^##+ ", re.MULTILINE)
_NAMED = re.compile(r"(NOT\s+)?(?:\([^()]*\)|[\w:]+)(?:\{[\d,]*\}|[+*?])?\s+AS\s+(\w+)")
_WIDE, _TALL = 34, 20
_MOST_LANES = 6
_FONT = 'font-family="system-ui, sans-serif" font-size="13"'
_STYLE = (
    "<style>.t{fill:#1f2328}.q{fill:#59636e}@media(prefers-color-scheme:dark){.t{fill:#e6edf3}.q{fill:#9198a1}}</style>"
)


class Ran(NamedTuple):
    """A query that a page has run."""

    query: ceql.Query
    events: Any
    options: dict[str, Any]


@contextmanager
def _watched() -> Iterator[list[Ran]]:
    """What is run in the meantime."""
    ran: list[Ran] = []
    run = ceql.Query.run

    def watch(query: ceql.Query, events: Any, **options: Any) -> ceql.Matches:
        ran.append(Ran(query, events, options))
        return run(query, events, **options)

    with mock.patch.object(ceql.Query, "run", watch):
        yield ran


def pictures(page: Path) -> dict[Path, str]:
    """The pictures that a page names, as SVG."""
    text = page.read_text()
    links = [(text.count("\n", 0, link.start()), page.parent / link[1]) for link in _LINK.finditer(text)]
    examples = doctest.DocTestParser().get_examples(text)
    sections = [text.count("\n", 0, heading.start()) for heading in _HEADING.finditer(text)]
    names: dict[str, Any] = {}
    found = {}
    with _watched() as ran, redirect_stdout(io.StringIO()):
        for line, path in links:
            while examples and examples[0].lineno < line:
                example = examples.pop(0)
                if sections and sections[0] < example.lineno:
                    ran.clear()
                    sections = [at for at in sections if at > example.lineno]
                exec(compile(example.source, str(page), "single"), names)
            runs = list(ran)
            found[path] = draw(runs, titled=True) if page in (*MANUAL, WHICH) else draw(runs[-1:], titled=False)
            ran.clear()
    return found


def with_variables(query: str) -> str:
    """The query with all variables selected and no measures, whatever it selects.

    >>> with_variables("SELECT MAX COUNT(a) AS n WHERE A+ AS a ; NOT C AS c ; B AS b")
    'SELECT MAX a, b WHERE A+ AS a ; NOT C AS c ; B AS b'
    """
    named = [name for absent, name in _NAMED.findall(query[query.index("WHERE") :]) if not absent]
    chosen = ", ".join(dict.fromkeys(named)) or "*"
    return _SELECT.sub(lambda select: f"SELECT {select[1] or ''}{chosen}", query, count=1)


def draw(runs: list[Ran], titled: bool) -> str:
    """For each run a table with a column for each event, and below it a line for each match."""
    parts: list[str] = []
    top = wide = 0.0
    for ran in runs:
        if isinstance(ran.events, list) and ran.events:
            panel = Panel(ran, top, titled)
            parts += panel.parts
            top, wide = panel.bottom + 6, max(wide, panel.right)
    size = f'width="{wide:g}" height="{top:g}" viewBox="0 0 {wide:g} {top:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_FONT}>{_STYLE}{"".join(parts)}</svg>\n'


class Panel:
    """The drawing of one run, from `top` on."""

    def __init__(self, ran: Ran, top: float, titled: bool) -> None:
        self.parts: list[str] = []
        self.bottom, self.right = top, 0.0
        events = ran.events
        shown = [name for name in events[0] if not self._is_number_of_event(name, events)] or ["type"]
        cells = {name: _shortened([str(event.get(name, k)) for k, event in enumerate(events)]) for name in shown}
        self.left = 12 + (8 * max(map(len, shown)) + 10 if len(shown) > 1 else 0)
        self.column = max(_WIDE, 8 * max(len(text) for texts in cells.values() for text in texts) + 12)
        self.right = self.left + self.column * len(events) + 12
        if titled:
            self._write("q", 12, " ".join(ran.query.text.split()))
        for name, texts in cells.items():
            if len(shown) > 1:
                self._write("q", 12, name)
                self.bottom -= _TALL
            for k, text in enumerate(texts):
                self._write("t", self._x(k), text, "middle")
                self.bottom -= _TALL
            self.bottom += _TALL
        self._matches(ran)

    @staticmethod
    def _is_number_of_event(name: str, events: list[dict[str, Any]]) -> bool:
        return [event.get(name) for event in events] == list(range(len(events))) and len(events[0]) > 2

    def _x(self, event: int) -> float:
        return self.left + self.column * (event + 0.5)

    def _write(self, style: str, x: float, text: str, anchor: str = "start") -> None:
        y = self.bottom + 16
        self.parts.append(f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')
        self.bottom += _TALL
        if anchor == "start":
            self.right = max(self.right, x + 7.7 * len(text) + 12)

    def _matches(self, ran: Ran) -> None:
        found = list(ceql.compile(with_variables(ran.query.text)).run(ran.events, **ran.options))
        names = list(dict.fromkeys(name for match in found for name in match.bindings))
        y = self.bottom + 10
        for match in found[:_MOST_LANES]:
            at = [self._x(match.events[k]) for k in (0, -1)]
            self.parts.append(f'<path d="M{at[0]:g} {y:g}H{at[1]:g}" stroke="#8a94a3" stroke-width="4" opacity=".5"/>')
            for k, name in enumerate(names):
                for event in match.bindings.get(name, ()):
                    self.parts.append(_dot(self._x(event), y, k))
            y += _TALL
        self.bottom = y - 8
        if not found or len(found) > _MOST_LANES:
            self._write("q", 12, f"and {len(found) - _MOST_LANES} more" if found else "no match")
        x = self.left
        for k, name in enumerate(names):
            self.parts.append(_dot(x + 6, self.bottom + 12, k))
            self._write("q", x + 18, name)
            self.bottom -= _TALL
            x += 34 + 8 * len(name)
        self.bottom += _TALL if names else 0


def _shortened(texts: list[str]) -> list[str]:
    """Times of one day without its date.

    >>> _shortened(["2026-03-01 09:00:00", "2026-03-01 10:30:00"])
    ['09:00:00', '10:30:00']
    """
    dates = {text[:11] for text in texts}
    return [text[11:] for text in texts] if len(dates) == 1 and _DATE.fullmatch(dates.pop()) else texts


def _dot(x: float, y: float, variable: int) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="5.5" fill="{COLOURS[variable % len(COLOURS)]}"/>'


def main() -> None:
    for page in PAGES:
        for path, picture in pictures(page).items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(picture)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
