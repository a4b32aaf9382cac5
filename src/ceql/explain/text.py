"""Plain text of bounded width: sections, tables, and the same as HTML for notebooks.

What a query or the data brings along (line ends, escape codes) is spelled out, so that it can neither
break the layout nor steer a terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from ceql.results.text import clean

WIDTH = 100


class Explanation(str):
    """Text that a notebook shows as it is, in a fixed pitch."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return preformatted(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def preformatted(text: str) -> str:
    """`text` as an HTML element, everything in it escaped. It names its font, for notebooks may set another."""
    return f'<pre class="ceql-explain" style="font-family: monospace">{escape(text)}</pre>'


def section(heading: str, lines: Iterable[str]) -> str:
    """A heading and its lines, indented.

    >>> print(section("Window", ["3 EVENTS"]))
    Window
      3 EVENTS
    """
    return "\n".join([heading, *(f"  {line}".rstrip() for line in lines)])


def wrapped(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    """`text` on lines that, inside a section, are no wider than WIDTH; a longer word is broken."""
    return textwrap.wrap(
        clean(text),
        WIDTH - 2,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_on_hyphens=False,
    ) or [indent]


def pairs(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Names and what is said of them, in two columns.

    >>> pairs([("a", "one"), ("long", "two")])
    ['a     one', 'long  two']
    """
    width = max((len(clean(name)) for name, _ in rows), default=0)
    lines: list[str] = []
    for name, said in rows:
        lines += wrapped(said, clean(name).ljust(width) + "  ", " " * (width + 2))
    return lines


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Aligned columns; those numbered in `right` are aligned to the right. Too wide a line has its end cut off."""
    cells = [[clean(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    lines = [
        "  ".join(c.rjust(w) if k in right else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return [cut(line.rstrip()) for line in lines]


def cut(text: str, width: int = WIDTH - 2) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def number(count: int, noun: str, plural: str | None = None) -> str:
    """A count and its noun.

    >>> number(1, "match", "matches"), number(2000, "event")
    ('1 match', '2,000 events')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
