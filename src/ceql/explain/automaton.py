"""The automaton of a query as a text table, as DOT for Graphviz and as mermaid for Markdown.

States are numbered as in `automata.cea.CEA`, or as in `automata.parallel.Parallel` for a query that compares events;
`start` stands for a run that has not begun. Transitions of the first that read an event without binding it and without
asking anything of it are the waiting of `;`: they are drawn dashed. The second waits in its indexes. Its transitions
say what the event has in common with the last event of the run, as in `k = x.k`, and what is tested of what the run
carries; they may join several runs. States say what their runs carry.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ceql.automata.cea import CEA, Label
from ceql.automata.cea import Transition as PlainTransition
from ceql.automata.correlated import Correlated, Link, Transition
from ceql.engine.groups.layout import NULLS_DIFFER
from ceql.explain.carried import event_of, print_carried, print_register, print_registers, print_tests, unread
from ceql.explain.formula import print_asked, print_guard, print_label, print_mask
from ceql.explain.names import event_name, listed, print_value
from ceql.explain.text import preformatted, table, wrapped
from ceql.plans import Loop, Plan
from ceql.results.text import clean
from ceql.syntax import tree as t
from ceql.syntax.printer import print_expression

START = "start"
NEXT_EVENT = "next event"
MOST_ROWS = 200


class Origin(NamedTuple):
    """Runs that a transition goes on with: those in any of these states. `compared`, for each state: what the event has
    in common with the last of the run."""

    states: tuple[str, ...]
    compared: tuple[str, ...] = ("",)

    @property
    def compares(self) -> str:
        return " | ".join(dict.fromkeys(filter(None, self.compared)))


class Arrow(NamedTuple):
    """A transition as it is shown. Several sources are joined."""

    sources: tuple[Origin, ...]
    event: str
    binds: str
    target: str
    waits: bool = False

    @property
    def source(self) -> str:
        """The sources as text.

        >>> Arrow((Origin(("0", "2"), ("", "")), Origin(("1",))), "A", "", "3").source
        '0|2 and 1'
        """
        return " and ".join("|".join(source.states) for source in self.sources)

    @property
    def compares(self) -> str:
        return " and ".join(source.compares for source in self.sources if source.compares)

    @property
    def text(self) -> str:
        """What the event must be, and what it is bound to."""
        return f"{self.event} / {self.binds}" if self.binds else self.event

    def label(self, compared: str) -> str:
        """The same with what is compared, for a transition of one source."""
        asked = f"{self.event} & {compared}" if compared else self.event
        return f"{asked} / {self.binds}" if self.binds else asked


class Edge(NamedTuple):
    """A line of a picture, from a state or a point to another."""

    source: str
    target: str
    label: str
    waits: bool = False
    joins: bool = False


class AutomatonView:
    """What `Query.automaton()` returns; `print` and notebooks show a table."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._distinct = plan.query.distinct
        self.automaton: CEA | Correlated = plan.automaton if plan.loop is Loop.GROUPS else plan.cea
        if isinstance(self.automaton, Correlated):
            self.states, self._final = self.automaton.states, frozenset(self.automaton.final)
        else:
            self.states, self._final = len(self.automaton.states), self.automaton.final

    def arrows(self) -> Iterator[Arrow]:
        """Every transition, those of the start first."""
        if isinstance(self.automaton, Correlated):
            shown = [self._joined(self.automaton, transition) for transition in self.automaton.transitions]
            yield from sorted(shown, key=lambda a: a.sources[0].states != (START,))
            return
        for transition in self.automaton.initial:
            yield self._plain(self.automaton, START, transition)
        for source, row in enumerate(self.automaton.states):
            for transition in row:
                yield self._plain(self.automaton, str(source), transition)

    def _plain(self, cea: CEA, source: str, transition: PlainTransition) -> Arrow:
        waits = transition.guard == 0 and not transition.label
        event = print_mask(cea.guards, transition.guard)
        for mask, what in ((transition.unless, "but no"), (transition.after, "after no")):
            if mask:
                event += f" {what} {' or '.join(print_guard(g) for k, g in enumerate(cea.guards) if mask >> k & 1)}"
        return Arrow((Origin((source,)),), event, self._label(transition.label), str(transition.target), waits)

    def _joined(self, auto: Correlated, transition: Transition) -> Arrow:
        mark = auto.marks[transition.mark]
        found = tuple(map(self._source, print_links(auto, transition))) or (Origin((START,)),)
        compared = {term for link in transition.links for term in (*link.key, *link.unlike)}
        asked = [print_asked(auto.guards, transition.guard, transition.failing)]
        needed = [print_expression(_term(auto, k)) for k in transition.needs if k not in compared]
        asked += [f"{', '.join(needed)} not NULL"] if needed else []
        if len(transition.links) != 1:
            asked += print_tests(auto, transition)
        label = auto.label(mark) & frozenset(self._plan.selected)
        return Arrow(found, " & ".join(asked), self._label(label), str(transition.target))

    @staticmethod
    def _source(compared: dict[int, list[str]]) -> Origin:
        return Origin(tuple(map(str, compared)), tuple(map(" & ".join, compared.values())))

    def carried(self, state: int) -> list[str]:
        """What the runs in a state carry."""
        return print_carried(self._plan.running, state) if isinstance(self.automaton, Correlated) else []

    def _label(self, label: Label) -> str:
        # DISTINCT forgets which variable an event is bound to
        return ("bound" if label else "") if self._distinct else print_label(label)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<automaton: {self.states} states, {sum(1 for _ in self.arrows())} transitions>"

    def lines(self, most: int | None = None) -> list[str]:
        """The table, of no more than `most` transitions; final states have a star."""
        arrows = list(self.arrows())
        shown = arrows if most is None else arrows[:most]
        head, rooms = ["from", "event", "binds", "to"], [8, 48, 28, 8]
        rows = [[self._stars(a), a.event, a.binds or "-", self._star(a.target)] for a in shown]
        if isinstance(self.automaton, Correlated):
            head.insert(2, "compared")
            rooms = [10, 28, 34, 12, 5]
            for row, a in zip(rows, shown, strict=True):
                row.insert(2, a.compares or "-")
        lines = table(head, [self._short(row, rooms) for row in rows])
        if len(shown) < len(arrows):
            lines.append(f"… and {len(arrows) - len(shown):,} more transitions")
        lines.append("* final: a match ends at the event that enters it")
        for state in range(self.states):
            if names := self.carried(state):
                lines += wrapped(f"state {state} carries {listed(names)}", "", "    ")
        return lines

    @staticmethod
    def _short(row: list[str], rooms: list[int]) -> list[str]:
        """The row with its long texts shortened, so that the table keeps its shape."""
        return [cell if len(cell) <= room else cell[: room - 1] + "…" for cell, room in zip(row, rooms, strict=True)]

    def _star(self, state: str) -> str:
        return f"{state}*" if state != START and int(state) in self._final else state

    def _stars(self, arrow: Arrow) -> str:
        return " and ".join("|".join(map(self._star, source.states)) for source in arrow.sources)

    def _drawing(self) -> Iterator[Edge | str]:
        """The edges of a picture. The point at which a transition joins runs comes before its edges, as a name."""
        for k, a in enumerate(self.arrows()):
            if len(a.sources) == 1:
                for state, compared in zip(*a.sources[0], strict=True):
                    yield Edge(_id(state), _id(a.target), a.label(compared), waits=a.waits)
                continue
            yield (point := f"j{k}")
            for source in a.sources:
                for state, compared in zip(*source, strict=True):
                    yield Edge(_id(state), point, compared, joins=True)
            yield Edge(point, _id(a.target), a.text)

    def to_dot(self) -> str:
        """A Graphviz digraph. A transition that joins runs has a point where they meet."""
        lines = ["digraph automaton {", "  rankdir=LR;", "  node [shape=circle];", '  start [shape=point, label=""];']
        for number in range(self.states):
            shape = "doublecircle" if number in self._final else "circle"
            label = "\\n".join(map(dot_text, [str(number), *self.carried(number)]))
            lines.append(f'  s{number} [shape={shape}, label="{label}"];')
        for drawn in self._drawing():
            if isinstance(drawn, str):
                lines.append(f'  {drawn} [shape=point, label=""];')
            else:
                style = ", style=dashed" if drawn.waits else ", dir=none" if drawn.joins else ""
                lines.append(f'  {drawn.source} -> {drawn.target} [label="{dot_text(drawn.label)}"{style}];')
        return "\n".join([*lines, "}", ""])

    def to_mermaid(self) -> str:
        """A mermaid flowchart. A transition that joins runs has a point where they meet."""
        lines = ["flowchart LR", "  start(( ))"]
        for state in range(self.states):
            names = "<br/>".join(map(mermaid_text, self.carried(state)))
            text = f'"{state}<br/>{names}"' if names else str(state)
            lines.append(f"  s{state}((({text})))" if state in self._final else f"  s{state}(({text}))")
        for drawn in self._drawing():
            if isinstance(drawn, str):
                lines.append(f"  {drawn}[ ]")
            else:
                line = "-.->" if drawn.waits else "---" if drawn.joins else "-->"
                text = f'|"{mermaid_text(drawn.label)}"|' if drawn.label else ""
                lines.append(f"  {drawn.source} {line}{text} {drawn.target}")
        return "\n".join([*lines, ""])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The table: a picture in mermaid is blank in exported pages, which would have to fetch what draws it."""
        return {"text/plain": str(self), "text/html": preformatted(str(self))}


def print_links(auto: Correlated, transition: Transition) -> list[dict[int, list[str]]]:
    """Of each link of a transition and each state there: what the event must have in common with a run.

    The event's own values are bare. They are compared with those of the last event of the run and with what the run
    carries; further tests are written as the query has them.
    """
    names = last_names(auto)
    tests = print_tests(auto, transition) if len(transition.links) == 1 else []
    found: list[dict[int, list[str]]] = []
    for link in transition.links:
        index = auto.indexes[link.where]
        further = [NEXT_EVENT] if index.tight else []
        found.append(
            {state: [*_compared(auto, link, state, names[state]), *tests, *further] for state in index.feeders}
        )
    return found


def _compared(auto: Correlated, link: Link, state: int, name: str) -> list[str]:
    """What a look-up compares: terms with those of the last event, then terms with carried values."""
    index = auto.indexes[link.where]
    key, unlike = index.feeders[state]
    pairs = [("=", own, theirs) for own, theirs in zip(link.key, key, strict=False)]
    pairs += [("!=", own, theirs) for own, theirs in zip(link.unlike, unlike, strict=True)]
    parts = [
        f"{print_expression(_term(auto, own))} {op} {print_value(_term(auto, theirs), name)}"
        + " or NULL" * (own >= NULLS_DIFFER)
        for op, own, theirs in pairs
    ]
    carried, ahead = index.registers[: index.hashed], unread(auto, [state])
    return parts + [
        f"{print_expression(_term(auto, own))} = {print_register(auto, register, ahead)}"
        for own, register in zip(link.key[len(key) :], carried, strict=True)
    ]


def index_rows(auto: Correlated) -> list[tuple[str, str]]:
    """Each index: the runs that wait in it and under which values, and the events that look them up."""
    rows, names = [], last_names(auto)
    between = {index.between for index in auto.indexes}
    waited_in = {k for own in auto.waits_in for k in own}
    for k, index in enumerate(auto.indexes):
        if k not in waited_in:
            continue
        if k in between:  # nothing looks them up by themselves
            events = listed(sorted({names[state] for state in index.feeders}))
            rows.append((f"i{k + 1}", f"{events}, which no condition asks for, in the order in which they came"))
            continue
        fed: dict[str, list[int]] = {}
        for state, (key, unlike) in index.feeders.items():
            hashed = print_registers(auto, state, index.registers[: index.hashed])
            under = ", ".join([print_value(_term(auto, term), names[state]) for term in key] + hashed)
            apart = ", ".join(print_value(_term(auto, term), names[state]) for term in unlike)
            how = f"under {under}" if under else "all together"
            how += f", told apart by {apart}" if apart else ""
            groups = ", ".join(print_registers(auto, state, index.registers[index.hashed :]))
            how += f", {'in order of' if index.order else 'grouped by'} {groups}" if groups else ""
            fed.setdefault(how, []).append(state)
        text = "; ".join(f"runs in {number_list(states)}, {how}" for how, states in fed.items())
        if index.tight:
            text += "; only those that ended at the previous event"
        asked: dict[str, None] = {}
        for transition in auto.transitions:
            for link in transition.links:
                if link.where == k:
                    event = event_of(auto, transition)
                    values = [print_value(_term(auto, term), event) for term in link.key]
                    values += [f"any but {print_value(_term(auto, term), event)}" for term in link.unlike]
                    asked[", ".join(values) if values else f"{event} (whatever its values)"] = None
        text += f"; looked up by {' | '.join(asked)}"
        if index.between >= 0:
            text += f", each with any one event of i{index.between + 1} that came after it"
        rows.append((f"i{k + 1}", text))
    return rows


@lru_cache(maxsize=1)
def last_names(auto: Correlated) -> list[str]:
    """Of each state, what the last event of its runs is called."""
    last: list[set[int]] = [set() for _ in range(auto.states)]
    for transition in auto.transitions:
        last[transition.target] |= auto.marks[transition.mark].leaves
    return [event_name(auto.shape, leaves) for leaves in last]


def _term(auto: Correlated, term: int) -> t.Expression:
    return auto.terms[(term & ~NULLS_DIFFER) - len(auto.reads)]


def number_list(states: list[int]) -> str:
    """
    >>> number_list([3]), number_list([1, 2])
    ('state 3', 'states 1, 2')
    """
    return f"state{'s' * (len(states) > 1)} {', '.join(map(str, states))}"


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
