"""Examples in docstrings as code blocks of the site: what begins with `>>>`, up to the next empty line."""

from __future__ import annotations

from typing import Any

import griffe


class Fences(griffe.Extension):
    """Fences the examples of every object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with fences around its examples."""
    lines: list[str] = []
    inside = False
    for line in [*text.split("\n"), ""]:
        if line.startswith(">>>") and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join(lines).rstrip()
