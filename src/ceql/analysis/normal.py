"""LP-normal form: every predicate stands at the event it speaks of (foundations-cep-2018, 5.2 and Theorem 2).

In: a shape whose claims are about one event each. Out: a formula of `Atom` (an event type, the variables that it is
bound to, the predicates that the event must satisfy) under `Sequence`, `Repeat`, `Choice` and `Both`.

A claim `x[P]` adds P to every leaf that binds x in its scope. Where matches of the scope may do without the node
that the claim filters (OR), the claim is discharged by cases: the matches in which x satisfies P, and those that do not
use the node at all. Their union is exact, since a match either uses the node or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from ceql.analysis.conditions import of_one_event
from ceql.analysis.shape import Absence, Claim, Kind, Leaves, Shape, Test
from ceql.syntax import tree as t


@dataclass(frozen=True, slots=True)
class Atom:
    """One event of this type, bound to `variables`, that satisfies all `predicates`."""

    type: str
    stream: str | None
    variables: frozenset[str]
    predicates: tuple[t.Predicate, ...] = ()
    place: int = -1
    """Its leaf, or the absence that it is of, where these are told apart (`to_normal`)."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """The items one after the other; `absent` has what must not come before, between and after them, if anything.

    With `->`, `instead` has what could have begun each item, if all joints before it are `->`. Of no items, nothing: it
    may always be left out.
    """

    items: tuple[Normal, ...]
    joints: tuple[t.Joint, ...]
    absent: tuple[tuple[Atom, ...], ...] = ()
    instead: tuple[tuple[Atom, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Repeat:
    """From `least` to `most` rounds; None is any number. With `->`, `instead` has what could have begun a round."""

    body: Normal
    joint: t.Joint
    least: int = 1
    most: int | None = None
    instead: tuple[Atom, ...] = ()
    reluctant: bool = False
    place: int = -1
    """Its node, where nodes are told apart."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of the items; of none, never."""

    items: tuple[Normal, ...]


@dataclass(frozen=True, slots=True)
class Both:
    """All of the items, in any order, perhaps sharing events."""

    items: tuple[Normal, ...]


Normal = Atom | Sequence | Repeat | Choice | Both
NEVER = Choice(())
NOTHING = Sequence((), ())


def normalize(shape: Shape) -> Normal:
    """A shape whose claims are about one event each, in LP-normal form.

    >>> from ceql.analysis.resolve import resolve
    >>> from ceql.syntax.parser import parse_formula
    >>> normal = normalize(resolve(parse_formula("((A FILTER x[v > 1]) OR B) ; C AS x"), "", unary=True))
    >>> [case.items[1].predicates for case in normal.items]  # with A or B, and with B alone
    [(Comparison(op='>', left=Attribute(name='v'), right=Literal(value=1)),), ()]
    """
    return _Cases(shape).normal(shape.root, frozenset())


class Compared(Enum):
    """What becomes of absences that compare events with others."""

    PLAIN = "plain"  # they are as if all such events were forbidden
    LEFT_OUT = "left out"
    TOLD_APART = "told apart"  # and so is each leaf and each iteration: atoms and counts have places


def to_normal(shape: Shape, node: int | None = None, compared: Compared = Compared.PLAIN) -> Normal:
    """A node of a shape (the root, if none is given), its claims left out."""
    return _Cases(replace(shape, claims=()), compared).normal(shape.root if node is None else node, frozenset())


class _Cases:
    """A shape in normal form, given the claims that a case takes as true or does without."""

    def __init__(self, shape: Shape, compared: Compared = Compared.PLAIN) -> None:
        self.shape = shape
        self.places = compared is Compared.TOLD_APART
        self.leaves_out = compared is Compared.LEFT_OUT
        plain = compared is Compared.PLAIN
        self.compared = frozenset[int]() if plain else frozenset(claim.absence for claim in shape.denials)
        self.sure: set[int] = set()
        self.at_scope: dict[int, dict[object, list[Claim]]] = {}
        """The claims to be discharged at each node; those that ask the same are one case."""
        self.asked: dict[int, list[tuple[int, t.Predicate]]] = {leaf: [] for leaf in shape.leaf}
        for claim in shape.claims:
            test = claim.what
            assert isinstance(test, Test)
            assert test.is_unary
            scope, leaves = claim.node, shape.below(claim.node)
            for name, comparand in test.variables.items():
                scope, leaves = comparand.scope, comparand.leaves
                if scope != claim.node:
                    self.at_scope.setdefault(scope, {}).setdefault((name, test.predicate, leaves), []).append(claim)
            if scope == claim.node:
                self.sure.add(claim.number)
            for leaf in leaves:
                self.asked[leaf].append((claim.number, of_one_event(test.predicate)))

    def normal(self, node: int, assumed: frozenset[int], refused: Leaves = frozenset()) -> Normal:
        """A node, where claims `assumed` hold and nodes `refused` have no event."""
        if node in refused:
            return NOTHING if self.shape.nullable(node) else NEVER
        return self._discharged(node, list(self.at_scope.get(node, {}).values()), assumed, refused)

    def _discharged(self, node: int, left: list[list[Claim]], assumed: frozenset[int], refused: Leaves) -> Normal:
        if not left:
            return self._built(node, assumed, refused)
        alike, *rest = left
        holds = self._discharged(node, rest, assumed | {alike[0].number}, refused)
        nodes = frozenset(claim.node for claim in alike)
        if self.shape.surely(node, frozenset().union(*map(self.shape.below, nodes))):
            return holds
        return _choice([holds, self._discharged(node, rest, assumed, refused | nodes)])

    def _built(self, node: int, assumed: frozenset[int], refused: Leaves) -> Normal:
        here = self.shape.nodes[node]
        items = tuple(self.normal(item, assumed, refused) for item in here.items)
        match here.kind:
            case Kind.LEAF:
                leaf = self.shape.leaf[node]
                asked = [p for number, p in self.asked[node] if number in self.sure or number in assumed]
                place = node if self.places else -1
                return Atom(leaf.type, leaf.stream, leaf.variables, (*leaf.predicates, *asked), place)
            case Kind.CHOICE:
                return _choice(items)
            case Kind.REPEAT if here.most == 0 or items[0] == NOTHING or (here.least == 0 and items[0] == NEVER):
                return NOTHING
            case _ if NEVER in items:
                return NEVER
            case Kind.SEQUENCE:
                return Sequence(items, here.joints, self._atoms(here.absent), self._atoms(here.instead))
            case Kind.REPEAT:
                (instead,) = self._atoms(here.instead) or ((),)
                place = node if self.places else -1
                return Repeat(items[0], here.joints[0], here.least, here.most, instead, here.reluctant, place)
            case Kind.ALL:
                return Both(items)

    def _atoms(self, gaps: tuple[tuple[int, ...], ...]) -> tuple[tuple[Atom, ...], ...]:
        return tuple(
            tuple(
                replace(atom, place=number) if number in self.compared else atom
                for number in gap
                if not (self.leaves_out and number in self.compared)
                for atom in absent_atoms(self.shape.absences[number])
            )
            for gap in gaps
        )


def absent_atoms(absence: Absence) -> list[Atom]:
    """The events that an absence keeps away; their variables play no part."""
    return [Atom(type, stream, frozenset(), absence.predicates) for type, stream in absence.kinds]


def _choice(items: tuple[Normal, ...] | list[Normal]) -> Normal:
    flat: dict[Normal, None] = {}
    for item in items:
        flat.update(dict.fromkeys(item.items if isinstance(item, Choice) else [item]))
    return next(iter(flat)) if len(flat) == 1 else Choice(tuple(flat))
