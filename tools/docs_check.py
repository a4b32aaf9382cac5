"""`make docs-check`: counts the words of each page of the documentation, and says where one is too long to be read.

A page has at most 1,500 words, a paragraph 80, an item of a list 50. Code and tables do not count for paragraphs and
items. The reference may be as long as the language, the map of the code as long as the code, and tables of measurements
as long as what was measured.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PARAGRAPH, ITEM = 1500, 80, 50
AS_LONG_AS_NEEDED = ("architecture.md", "reference.md")
TABLES = "benchmarks/"  # what was measured, on pages behind benchmarks.md
_BULLET = re.compile(r"\s*(?:[-*]|\d+\.)\s")
_APART = re.compile(r"\s*(?:\||#|!\[|<|>>>|    )")


class Block(NamedTuple):
    """A paragraph or an item of a list: where it begins, and how many words it has."""

    line: int
    is_item: bool
    words: int

    @property
    def most(self) -> int:
        return ITEM if self.is_item else PARAGRAPH


def blocks(text: str) -> Iterator[Block]:
    """The paragraphs and items of a page.

    >>> [block.words for block in blocks("One two.\\n\\n- three\\n- four\\n  five\\n\\n| a | b |\\n")]
    [2, 1, 2]
    """
    begun, is_item, words, in_code = 0, False, 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        is_bullet = _BULLET.match(line) is not None
        ends = in_code or not line.strip() or is_bullet or (not is_item and _APART.match(line) is not None)
        if ends and words:
            yield Block(begun, is_item, words)
            words = 0
        if in_code or line.lstrip().startswith("```") or not line.strip():
            continue
        if is_bullet or (not words and _APART.match(line) is None):
            begun, is_item = number, is_bullet
        if words or begun == number:
            words += len(_BULLET.sub("", line, count=1).split()) if is_bullet else len(line.split())


class Page(NamedTuple):
    """A page with its number of words, and its blocks that are too long."""

    name: str
    words: int
    long: tuple[Block, ...]

    @property
    def faults(self) -> list[str]:
        """Says what is too long."""
        if self.name in AS_LONG_AS_NEEDED or self.name.startswith(TABLES):
            return []
        found = [f"{self.name}: {self.words} words, of at most {PAGE}"] if self.words > PAGE else []
        return found + [f"{self.name}:{b.line}: {b.words} words, of at most {b.most}" for b in self.long]


def pages() -> list[Page]:
    found = []
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text()
        long = tuple(block for block in blocks(text) if block.words > block.most)
        found.append(Page(str(path.relative_to(DOCS)), len(text.split()), long))
    return found


def main() -> int:
    faults = []
    for page in pages():
        print(f"{page.words:6} {page.name}" + (f", {len(page.long)} long paragraphs or items" if page.long else ""))
        faults += page.faults
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
