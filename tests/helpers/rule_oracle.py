"""Rules by their definition, and random ones: what `ceql.rule` and the engine for it are tested against.

`homomorphisms` is pcea-hcq-2024, section 4, as it stands there: of all maps from the body's atoms to positions,
those for which one assignment of values to variables turns every atom into the event at its position. Nothing is
shared with ceql or with `oracle`. The stream decides three things that the paper's databases leave open: a map
counts at its greatest position, a window keeps those that are short enough, and NULL and NaN, which equal nothing, fit
only a variable that is used nowhere else.

`rule_cases` makes rules with events to run them over. Their columns are those of `generators`, so
that `paths` can make tables of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, product
from typing import Any, NamedTuple

from hypothesis import strategies as st

import ceql

Draw = Callable[[st.SearchStrategy[Any]], Any]
Events = Sequence[Mapping[str, Any]]
Attributes = dict[str, list[str]]
Positions = tuple[int, ...]  # of the atoms, in the order of the body


class Var(NamedTuple):
    name: str


class Const(NamedTuple):
    value: int | float | str


ANY = Var("_")
Term = Var | Const


class Atom(NamedTuple):
    relation: str
    terms: tuple[Term, ...]


class Rule(NamedTuple):
    body: tuple[Atom, ...]
    head: tuple[str, ...] = ()

    @property
    def self_joins(self) -> bool:
        return len({atom.relation for atom in self.body}) < len(self.body)

    @property
    def hierarchical(self) -> bool:
        """For any two variables, the atoms of one are among those of the other, or they share none."""
        names = {term.name for atom in self.body for term in atom.terms if isinstance(term, Var)} - {ANY.name}
        atoms = [{i for i, atom in enumerate(self.body) if Var(name) in atom.terms} for name in names]
        return all(a <= b or b <= a or not a & b for a in atoms for b in atoms)


class Window(NamedTuple):
    """`unit` is EVENTS, or the column that is measured: time (in milliseconds) or w."""

    size: int
    unit: str

    def __str__(self) -> str:
        return f"{self.size} {({'EVENTS': 'EVENTS', 'time': 'MILLISECONDS'}).get(self.unit, f'[{self.unit}]')}"


class RuleCase(NamedTuple):
    """A rule and its events, in milliseconds where the window is one of time; in a report they read as text."""

    rule: Rule
    attributes: Attributes
    events: list[dict[str, Any]]
    window: Window | None

    @property
    def text(self) -> str:
        return rule_text(self.rule)

    @property
    def within(self) -> str | None:
        return None if self.window is None else str(self.window)

    def compile(self, **options: Any) -> ceql.Query:
        return ceql.rule(self.text, attributes=self.attributes, within=self.within, **options)

    def expected(self) -> list[Positions]:
        return homomorphisms(self.rule, self.attributes, self.events, self.window)

    def __repr__(self) -> str:
        lines = "\n".join(f"  {i}: {event}" for i, event in enumerate(self.events))
        return f"\n{self.text}\n{self.attributes}, within {self.within}\n{lines}\n"


def rule_text(rule: Rule) -> str:
    def text(term: Term) -> str:
        if isinstance(term, Var):
            return term.name
        return "'{}'".format(term.value.replace("'", "''")) if isinstance(term.value, str) else str(term.value)

    atoms = [f"{atom.relation}({', '.join(map(text, atom.terms))})" for atom in rule.body]
    return f"Q({', '.join(rule.head)}) <- {', '.join(atoms)}"


# --- the definition ---


def homomorphisms(rule: Rule, attributes: Attributes, events: Events, window: Window | None = None) -> list[Positions]:
    """The t-homomorphisms by the position of their last event; for one such position, later starts first."""
    found = [
        eta
        for eta in product(range(len(events)), repeat=len(rule.body))
        if is_homomorphism(rule, attributes, [events[i] for i in eta]) and in_window(window, events, eta)
    ]
    return sorted(found, key=lambda eta: (max(eta), -min(eta), eta))


def is_homomorphism(rule: Rule, attributes: Attributes, chosen: Events) -> bool:
    """Whether there is an h with h(atom) = event for each atom and the event chosen for it."""
    values: dict[str, list[Any]] = {}
    for atom, event in zip(rule.body, chosen, strict=True):
        if event["type"] != atom.relation:
            return False
        for term, name in zip(atom.terms, attributes[atom.relation], strict=True):
            value = event.get(name)
            if isinstance(term, Const):
                if value != term.value:
                    return False
            elif term != ANY:
                values.setdefault(term.name, []).append(value)
    return all(len(found) == 1 or is_one_value(found) for found in values.values())


def is_one_value(values: list[Any]) -> bool:
    # NaN is not even equal to itself
    return all(value is not None and value == value and value == values[0] for value in values)


def in_window(window: Window | None, events: Events, eta: Positions) -> bool:
    if window is None:
        return True
    first, last = min(eta), max(eta)
    length = last - first if window.unit == "EVENTS" else events[last][window.unit] - events[first][window.unit]
    return bool(length <= window.size)


def by_atom(query: ceql.Query, matches: Iterable[Any]) -> list[Positions]:
    """Matches (the oracle's, or ours) as maps from atoms to positions; the selection has the atoms in order."""
    names = query.plan.selected
    result = []
    for match in matches:
        bindings = dict(match.bindings)
        assert all(len(bindings[name]) == 1 for name in names), "an atom is one event"
        eta = tuple(bindings[name][0] for name in names)
        assert (match.start, match.end) == (min(eta), max(eta))
        assert match.events == tuple(sorted(set(eta)))
        result.append(eta)
    return result


# --- random cases ---

NUMBERS, TEXTS = ["v", "k", "f"], ["s"]
RELATIONS = ["A", "B", "C", "A_1"]  # the last is also the name that the first of several atoms of A would have
NUMBER_VARIABLES, TEXT_VARIABLES = ["x", "y", "z"], ["t", "u"]
# Paths from the root down of a forest of variables. Atoms whose variables are such paths make a hierarchical rule.
PATHS = ["x", "xy", "xyz", "xt", "xtp", "q", "qu", ""]
# Atoms with these variables do not.
CROSSING = ["x", "xy", "y"]


@st.composite
def constants(draw: Draw, column: str) -> Const:
    return Const(draw(st.sampled_from(["a", "a", "a", "b", "it's"] if column in TEXTS else [1, 1, 1.0, 1, 2, -1, 0.5])))


@st.composite
def any_atoms(draw: Draw, relation: str, columns: list[str]) -> Atom:
    terms = []
    for column in columns:
        variables = [Var(name) for name in (TEXT_VARIABLES if column in TEXTS else NUMBER_VARIABLES)]
        terms.append(draw(st.sampled_from([*variables, *variables, draw(constants(column)), ANY])))
    return Atom(relation, tuple(terms))


@st.composite
def path_atoms(draw: Draw, relation: str, columns: list[str], paths: list[str]) -> Atom:
    """An atom with just the variables of one of these paths; where none fits the columns, with none."""

    def split(path: str) -> tuple[list[str], list[str]]:
        return [n for n in path if n not in TEXT_VARIABLES], [n for n in path if n in TEXT_VARIABLES]

    places = [c for c in columns if c not in TEXTS], [c for c in columns if c in TEXTS]
    fitting = [p for p in paths if all(len(n) <= len(c) for n, c in zip(split(p), places, strict=True))]
    path = draw(st.sampled_from(fitting or [""]))
    placed: dict[str, Term] = {}
    for names, own_columns in zip(split(path), places, strict=True):
        for i, column in enumerate(draw(st.permutations(own_columns))):
            spare = [ANY, draw(constants(column)), *map(Var, names)]
            placed[column] = Var(names[i]) if i < len(names) else draw(st.sampled_from(spare))
    return Atom(relation, tuple(placed[c] for c in columns))


@st.composite
def bodies(draw: Draw, kind: str) -> tuple[tuple[Atom, ...], Attributes]:
    """Atoms that are hierarchical, crossing (not hierarchical), or any; and their relations' attributes."""
    count = draw(st.sampled_from([3, 4] if kind == "crossing" else [3, 2, 4, 3, 2, 1]))
    pool = draw(st.permutations(RELATIONS))
    several = st.lists(st.sampled_from(pool[:2]), min_size=count, max_size=count)
    names = draw(st.one_of(st.just(pool[:count]), several))
    attributes = {}
    for name in sorted(set(names)):
        columns = draw(st.permutations(NUMBERS + TEXTS))[: draw(st.sampled_from([2, 3, 1, 2, 3, 0]))]
        if kind == "crossing":  # needs room for two variables
            columns = draw(st.permutations(sorted({"v", draw(st.sampled_from(["k", "f"])), *columns[:1]})))
        attributes[name] = columns
    match kind:
        case "hierarchical":
            atoms = [path_atoms(name, attributes[name], PATHS) for name in names]
        case "crossing":
            paths = [*draw(st.permutations(CROSSING)), draw(st.sampled_from(CROSSING))]
            atoms = [path_atoms(name, attributes[name], [path]) for name, path in zip(names, paths, strict=False)]
        case _:
            atoms = [any_atoms(name, attributes[name]) for name in names]
    return tuple(map(draw, atoms)), attributes


@st.composite
def events_of(draw: Draw, relation: str) -> dict[str, Any]:
    """One event; its time and w are steps, to be added up. Most of them fit each other, whatever is joined."""
    step = st.sampled_from([0, 1, 1, 2])
    plain = draw(st.sampled_from([True, True, False]))

    def one_of(usual: Any, *others: Any) -> Any:
        return usual if plain else draw(st.sampled_from([usual, usual, *others]))

    return {
        "type": relation,
        "time": draw(step),
        "v": one_of(1, 2, -1, None),
        "f": one_of(1.0, 2.0, 0.5, float("nan"), None),
        "s": one_of("a", "b", "it's", None),
        "k": one_of(1, 2, None),
        "w": draw(step),
    }


@st.composite
def streams(draw: Draw, body: tuple[Atom, ...], length: int) -> list[dict[str, Any]]:
    """An event for each atom, as far as there is room, and others."""
    relations = [atom.relation for atom in body]
    others = draw(st.lists(st.sampled_from([*relations * 3, "D"]), max_size=max(0, length - len(body))))
    types = draw(st.permutations([*relations, *others]))[:length]
    events = [draw(events_of(name)) for name in types]
    for column in ("time", "w"):
        for event, total in zip(events, accumulate(e[column] for e in events), strict=True):
            event[column] = total
    return events


@st.composite
def windows(draw: Draw) -> Window | None:
    unit = draw(st.sampled_from([None, None, "EVENTS", "EVENTS", "time", "w"]))
    return None if unit is None else Window(draw(st.sampled_from([5, 6, 4, 3, 2, 1, 0 if unit != "time" else 7])), unit)


@st.composite
def rule_cases(draw: Draw, hierarchical: bool | None = None, longest: int = 8) -> RuleCase:
    """Rules of one to four atoms over up to `longest` events; None: hierarchical or not, as it comes."""
    kinds = {None: ["hierarchical", "crossing", "any"], True: ["hierarchical"], False: ["crossing"]}
    body, attributes = draw(bodies(draw(st.sampled_from(kinds[hierarchical]))))
    variables = sorted({t.name for a in body for t in a.terms if isinstance(t, Var) and t != ANY})
    head = draw(st.lists(st.sampled_from(variables), max_size=3)) if variables else []
    # there are as many maps to try as events to the power of atoms
    length = draw(st.sampled_from([longest, longest, longest, longest // 2])) - (2 if len(body) == 4 else 0)
    return RuleCase(Rule(body, tuple(head)), attributes, draw(streams(body, length)), draw(windows()))
