"""Parallelised complex event automata (pcea-hcq-2024, section 3): a step may gather several runs at once.

`build` makes the states and steps of a shape. Where ALL stands at the beginning of a match, its sides run in parallel
and a step joins them, along a q-tree of what they have in common (Theorem 4.1, with sides for atoms and events that end
several sides at once for self-joins). Anywhere else the sides must begin after something, and ALL is the product of
chains (`automata.chain`). A chain is the case of one source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from ceql.analysis.equalities import Equality
from ceql.analysis.shape import Kind, Leaves, Shape
from ceql.automata.chain import Chain, following


class Source(NamedTuple):
    """Runs that wait in one of these states; `tight` if their last event must be the previous of the (sub)stream."""

    states: tuple[int, ...]
    tight: bool = False


class Step(NamedTuple):
    """Read an event at `leaves`, after going round the iterations `loops`, and join the runs of all sources."""

    sources: tuple[Source, ...]
    leaves: Leaves
    loops: Leaves
    target: int


class QTree(NamedTuple):
    """Sides of an ALL that have values in common: nodes of the shape, or trees of some of them with more in common."""

    shared: tuple[Equality, ...]
    parts: tuple[QTree | int, ...]


@dataclass(frozen=True, eq=False)
class Parallel:
    """`last[s]` has the leaves at which the last event of a run in state s was read."""

    last: tuple[Leaves, ...]
    steps: tuple[Step, ...]
    final: tuple[int, ...]
    conflicts: tuple[tuple[Equality, Equality], ...]
    """Equalities that could not be looked up, each with the one that it breaks the hierarchy with."""
    trees: tuple[QTree, ...]
    """Along which each ALL that runs in parallel is joined."""


class _Way(NamedTuple):
    """A way to finish with an event: what a step needs but for its target."""

    sources: tuple[Source, ...]
    leaves: Leaves
    loops: Leaves


@dataclass(slots=True)
class _Joint:
    """A node of the q-tree: sides with something in common. `sides` are indexes of ALL's items."""

    sides: frozenset[int]
    parts: list[_Joint | int] = field(default_factory=list)
    states: dict[Leaves, int] = field(default_factory=dict)
    ways: list[_Way] = field(default_factory=list)


def build(shape: Shape, equalities: Sequence[Equality], prev: Leaves, chain: bool = False) -> Parallel:
    """The automaton of a shape; `prev` are the leaves with a predicate on PREV, which only a chain knows.

    With `chain`, every ALL is a product: no step gathers several runs.
    """
    builder = _Builder(shape, equalities, frozenset(shape.leaf) if chain else prev)
    final = builder.grow(shape.root)
    return _trimmed(
        Parallel(tuple(builder.last), tuple(builder.steps), final, tuple(builder.conflicts), tuple(builder.trees))
    )


class _Builder:
    def __init__(self, shape: Shape, equalities: Sequence[Equality], prev: Leaves) -> None:
        self.shape = shape
        self.equalities = equalities
        self.prev = prev
        self.last: list[Leaves] = []
        self.steps: list[Step] = []
        self.conflicts: list[tuple[Equality, Equality]] = []
        self.trees: list[QTree] = []

    def grow(self, node: int) -> tuple[int, ...]:
        """Add a node that stands at the beginning of a match; the states in which it is complete."""
        here = self.shape.nodes[node]
        if not self._joins(node):
            return self._chain([node], [])
        match here.kind:
            case Kind.SEQUENCE:
                before = self.grow(here.items[0])
                if len(here.items) == 1:  # the others are absent
                    return before
                after = self._chain(here.items[1:], here.contiguous[1:], before, here.contiguous[0])
                return before + after if all(map(self.shape.nullable, here.items[1:])) else after
            case Kind.CHOICE:
                return tuple(state for item in here.items for state in self.grow(item))
            case _:
                return self._join(node)

    def _joins(self, node: int) -> bool:
        """Whether ALL stands at the beginning of a node and can run its sides in parallel."""
        here = self.shape.nodes[node]
        if any(map(self.shape.nullable, (node, *here.items[:1]))):
            return False
        match here.kind:
            case Kind.SEQUENCE:
                return self._joins(here.items[0])
            case Kind.CHOICE:
                return any(self._joins(item) for item in here.items)
            case Kind.ALL:
                return not (self.shape.below(node) & self.prev or any(map(self.shape.nullable, here.items)))
            case _:
                return False

    def _chain(
        self, items: Sequence[int], contiguous: Sequence[bool], before: tuple[int, ...] = (), tight: bool = False
    ) -> tuple[int, ...]:
        """Add items one after the other, at the beginning or after the states `before`."""
        chain = Chain()
        parts = [chain.build(self.shape, item) for item in items]
        whole = chain.sequence(parts, contiguous)
        base = len(self.last)
        self.last += chain.last
        for reads, close in following(parts, contiguous, -1):
            sources: list[tuple[Source, ...]] = [(Source((state,), tight and close),) for state in before] or [()]
            for read in dict.fromkeys(reads):
                self.steps += [Step(s, read.leaves, read.loops, base + read.target) for s in sources]
        for state, edges in enumerate(chain.edges):
            self.steps += [Step((Source((base + state,), e.tight),), e.leaves, e.loops, base + e.target) for e in edges]
        return tuple(dict.fromkeys(base + state for state in whole.final))

    # --- ALL ---

    def _join(self, node: int) -> tuple[int, ...]:
        items = self.shape.nodes[node].items
        done = [self.grow(item) for item in items]
        ends = [[step for step in self.steps if step.target in states] for states in done]
        root = self._q_tree(node, done)
        for joint in _inside_first(root):
            self._ways(joint, done, ends)
            for way in joint.ways:
                if way.leaves not in joint.states:
                    self.last.append(way.leaves)
                    joint.states[way.leaves] = len(self.last) - 1
                self.steps.append(Step(*way, joint.states[way.leaves]))
        return tuple(root.states.values())

    def _q_tree(self, node: int, done: Sequence[tuple[int, ...]]) -> _Joint:
        """Sides by what they share. Sets of sides that overlap without one holding the other are not hierarchical."""
        around = self.shape.above(node)
        every = frozenset(range(len(done)))
        shared: list[tuple[frozenset[int], Equality]] = []
        for equality in self.equalities:
            if equality.scope in around:
                known = frozenset(
                    k for k in every if all(self.last[state] & equality.terms.keys() for state in done[k])
                )
                if len(known) > 1:
                    shared.append((known, equality))
        kept: dict[frozenset[int], Equality] = {}
        for sides, equality in sorted(shared, key=lambda pair: -len(pair[0])):
            broken = [e for other, e in kept.items() if sides & other and not (sides <= other or other <= sides)]
            if broken:
                self.conflicts.append((equality, broken[0]))
            else:
                kept.setdefault(sides, equality)
        kept.pop(every, None)
        root = _Joint(every)
        joints = [root]
        for sides in sorted(kept, key=len, reverse=True):
            joint = _Joint(sides)
            inner = min((j for j in joints if sides < j.sides), key=lambda j: len(j.sides))
            inner.parts.append(joint)
            joints.append(joint)
        for joint in joints:
            inside = frozenset().union(*(part.sides for part in joint.parts if isinstance(part, _Joint)))
            joint.parts += sorted(joint.sides - inside)
        self.trees.append(_tree(root, self.shape.nodes[node].items, shared))
        return root

    def _ways(self, joint: _Joint, done: Sequence[tuple[int, ...]], ends: Sequence[list[Step]]) -> None:
        """How an event may complete a joint: it ends some parts, at least one, and the others were complete before."""
        choices: list[list[_Way]] = []
        for part in joint.parts:
            if isinstance(part, int):
                states = done[part]
                found = [_Way(step.sources, step.leaves, step.loops) for step in ends[part]]
            else:
                states, found = tuple(part.states.values()), part.ways
            choices.append([_Way((Source(states),), frozenset(), frozenset()), *found])
        ways: dict[_Way, None] = {}
        for way in self._combined(choices):
            if way.leaves:
                ways[way] = None
        joint.ways = list(ways)

    def _combined(self, choices: list[list[_Way]]) -> list[_Way]:
        """One way of each part together, where one event can be all that they read."""
        ways = [_Way((), frozenset(), frozenset())]
        for options in choices:
            ways = [
                _Way(a.sources + b.sources, a.leaves | b.leaves, a.loops | b.loops)
                for a, b in product(ways, options)
                if self.shape.may_be_one(a.leaves | b.leaves)
            ]
        return ways


def _tree(joint: _Joint, items: Sequence[int], shared: Sequence[tuple[frozenset[int], Equality]]) -> QTree:
    parts = [items[part] if isinstance(part, int) else _tree(part, items, shared) for part in joint.parts]
    return QTree(tuple(equality for sides, equality in shared if sides == joint.sides), tuple(parts))


def _inside_first(joint: _Joint) -> list[_Joint]:
    inner = [j for part in joint.parts if isinstance(part, _Joint) for j in _inside_first(part)]
    return [*inner, joint]


def _entered(steps: Sequence[Step]) -> set[int]:
    """The states that some run enters: each source of a step must have a state that is entered."""
    waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)  # the sources of steps by state
    missing = [set(range(len(step.sources))) for step in steps]  # the sources that no run has entered yet
    for k, step in enumerate(steps):
        for j, source in enumerate(step.sources):
            for state in source.states:
                waiting[state].append((k, j))
    reached: set[int] = set()
    queue = [step.target for step in steps if not step.sources]
    while queue:
        state = queue.pop()
        if state in reached:
            continue
        reached.add(state)
        for k, j in waiting[state]:
            if j in missing[k]:
                missing[k].remove(j)
                if not missing[k]:
                    queue.append(steps[k].target)
    return reached


def _trimmed(auto: Parallel) -> Parallel:
    """Without states that no run enters or that lead nowhere; equal steps are one."""
    reached = _entered(auto.steps)
    useful = reached.intersection(auto.final)
    entering: dict[int, list[Step]] = defaultdict(list)
    for step in auto.steps:
        entering[step.target].append(step)
    queue = list(useful)
    while queue:
        for step in entering[queue.pop()]:
            fresh = {s for source in step.sources for s in source.states if s in reached} - useful
            useful |= fresh
            queue += fresh
    number = {old: new for new, old in enumerate(sorted(useful))}
    steps: dict[Step, None] = {}
    for step in auto.steps:
        sources = [
            Source(tuple(number[s] for s in source.states if s in number), source.tight) for source in step.sources
        ]
        if step.target in number and all(source.states for source in sources):
            steps[Step(tuple(sources), step.leaves, step.loops, number[step.target])] = None
    return Parallel(
        tuple(auto.last[old] for old in number),
        tuple(steps),
        tuple(number[s] for s in dict.fromkeys(auto.final) if s in number),
        auto.conflicts,
        auto.trees,
    )
