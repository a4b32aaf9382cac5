"""The automaton of a query as a text table, as DOT for Graphviz and as mermaid for Markdown and notebooks.

States are numbered as in `automata.cea.CEA`; `start` stands for a run that has not begun. Transitions that read an
event without binding it and without asking anything of it are the waiting of `;`: they are drawn dashed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ceql.automata.cea import CEA, Label, Transition
from ceql.explain.formula import print_label, print_mask
from ceql.explain.text import table
from ceql.plan import Plan
from ceql.results.views import clean

START = "start"
MOST_ROWS = 200


class Arrow(NamedTuple):
    """A transition as it is shown."""

    source: str
    event: str
    binds: str
    target: str
    waits: bool

    @property
    def text(self) -> str:
        return f"{self.event} / {self.binds}" if self.binds else self.event


class AutomatonView:
    """What `Query.automaton()` returns; `print` shows a table, a notebook that knows mermaid shows a picture."""

    def __init__(self, plan: Plan) -> None:
        self.cea: CEA = plan.cea
        self._distinct = plan.query.distinct

    def arrows(self) -> Iterator[Arrow]:
        """Every transition, those of the start first."""
        for t in self.cea.initial:
            yield self._arrow(START, t)
        for source, row in enumerate(self.cea.states):
            for t in row:
                yield self._arrow(str(source), t)

    def _arrow(self, source: str, t: Transition) -> Arrow:
        waits = t.guard == 0 and not t.label
        return Arrow(source, print_mask(self.cea, t.guard), self._label(t.label), str(t.target), waits)

    def _label(self, label: Label) -> str:
        # DISTINCT forgets which variable an event is bound to
        return ("bound" if label else "") if self._distinct else print_label(label)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<automaton: {len(self.cea.states)} states, {sum(1 for _ in self.arrows())} transitions>"

    def lines(self, most: int | None = None) -> list[str]:
        """The table, of no more than `most` transitions; final states have a star."""
        arrows = list(self.arrows())
        shown = arrows if most is None else arrows[:most]
        rows = [[self._star(a.source), a.event, a.binds or "-", self._star(a.target)] for a in shown]
        lines = table(["from", "event", "binds", "to"], [self._short(row) for row in rows])
        if len(shown) < len(arrows):
            lines.append(f"… and {len(arrows) - len(shown):,} more transitions")
        return [*lines, "* final: a match ends at the event that enters it"]

    @staticmethod
    def _short(row: list[str]) -> list[str]:
        """The row with its long texts shortened, so that the table keeps its shape."""
        return [
            cell if len(cell) <= room else cell[: room - 1] + "…"
            for cell, room in zip(row, (8, 48, 28, 8), strict=True)
        ]

    def _star(self, state: str) -> str:
        return f"{state}*" if state != START and int(state) in self.cea.final else state

    def to_dot(self) -> str:
        """A Graphviz digraph."""
        lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];", '  start [shape=point, label=""];']
        for state in range(len(self.cea.states)):
            shape = "doublecircle" if state in self.cea.final else "circle"
            lines.append(f'  s{state} [shape={shape}, label="{state}"];')
        for a in self.arrows():
            style = ", style=dashed" if a.waits else ""
            lines.append(f'  {_id(a.source)} -> {_id(a.target)} [label="{dot_text(a.text)}"{style}];')
        return "\n".join([*lines, "}", ""])

    def to_mermaid(self) -> str:
        """A mermaid flowchart."""
        lines = ["flowchart LR", "  start(( ))"]
        lines += [
            f"  s{state}((({state})))" if state in self.cea.final else f"  s{state}(({state}))"
            for state in range(len(self.cea.states))
        ]
        for a in self.arrows():
            line = "-.->" if a.waits else "-->"
            lines.append(f'  {_id(a.source)} {line}|"{mermaid_text(a.text)}"| {_id(a.target)}')
        return "\n".join([*lines, ""])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/vnd.mermaid": self.to_mermaid()}


def _id(state: str) -> str:
    return state if state == START else f"s{state}"


def dot_text(text: str) -> str:
    r"""`text` for between the quotes of a DOT label.

    >>> print(dot_text('a = "b\\" <c>'))
    a = \"b\\\" <c>
    """
    return clean(text).replace("\\", "\\\\").replace('"', '\\"')


# mermaid has no escapes but entities; a backslash may start a line break, a backtick Markdown, and %%{ a directive
_MERMAID = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "\\": "#92;", "`": "#96;", "%": "#37;"}


def mermaid_text(text: str) -> str:
    """`text` for between the quotes of a mermaid label.

    >>> mermaid_text('T & name = "<b>"')
    'T #amp; name = #quot;#lt;b#gt;#quot;'
    """
    return "".join(_MERMAID.get(c, c) for c in clean(text))
