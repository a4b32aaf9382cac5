"""Formula to ordered automaton: what a run may read next, the most preferred first (AFTER MATCH SKIP).

A *leaf* is a place in the formula that reads one event. After a leaf comes an ordered list of *waits*: each says which
leaves may read the next event, in order, and which events a run may skip before that. The list may end with "accept":
what would come after it is less preferred than the match that is there, so it is left out, unless conditions may
refuse that match. Lists are built as
Glushkov builds follow sets, and keep their order: OR adds its left side first, a count adds another round before it
goes on, a reluctant one after. A wait reads an event before it skips it.

A list of waits per leaf, and not Thompson's ε-transitions: rounds without events (`(A*)*`) leave no loop behind, and
a run is a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ceql.analysis import normal
from ceql.analysis.neighbours import before_any, lags_in
from ceql.analysis.normal import Atom, Normal
from ceql.analysis.shape import Leaves
from ceql.automata.cea import Label
from ceql.errors import ResourceError
from ceql.syntax.tree import Joint

MAX_FOLLOWING = 100_000
"""The most waits that all leaves may have together: some seconds."""
_MOST_LISTS = 1_000
ACCEPT = -1


class Leaf(NamedTuple):
    """Reads an event that satisfies a guard, and binds it."""

    guard: int
    label: Label
    after: tuple[int, ...]
    """The waits that follow, or ACCEPT, in order of preference."""
    place: int = -1
    """The leaf of the shape."""


class Wait(NamedTuple):
    """Reads the next event at the first of these leaves that takes it, and at the others as less preferred runs.

    One without leaves is that of a match, until its window has passed: NOT at the end.
    """

    leaves: tuple[int, ...]
    tight: bool
    """Whether the very next event must be read."""
    unless: int
    """The guards (as bits) of the events that may not be skipped."""
    last: int = -1
    """Where conditions compare events: the leaf of the shape that read the last event."""
    loops: Leaves = frozenset()
    """And the iterations that reading goes round."""
    asked: int = 0
    """The guards of the events that may not be skipped if conditions on them and on the run hold."""


@dataclass(frozen=True, eq=False)
class Ordered:
    """The automaton. Runs begin at `initial` leaves, in this order, if no event before satisfied one of `before`."""

    guards: tuple[Atom, ...]
    leaves: tuple[Leaf, ...]
    waits: tuple[Wait, ...]
    initial: tuple[int, ...]
    before: tuple[int, ...]
    empty: bool = False
    """Whether a match may be empty; that is less preferred than those at `initial`."""

    @property
    def skips_safely(self) -> bool:
        """Whether an event that satisfies no guard changes nothing."""
        return not any(wait.tight for wait in self.waits)

    @cached_property
    def is_patient(self) -> bool:
        """Whether a run may wait for a further event without end, and be preferred to a match that is there.

        Follows the lists of runs of a start over events that satisfy one guard each: is there one in which a run that
        may skip stands before one that accepts? Of very many lists, some are looked at.
        """
        every = range(len(self.guards))
        start = Wait(self.initial, True, 0)
        todo: list[tuple[int, ...]] = []
        known: set[tuple[int, ...]] = set()
        found = [self._after([start], guard) for guard in every]
        while found:
            for runs, patient in found:
                if patient:
                    return True
                if runs not in known and len(known) < _MOST_LISTS:
                    known.add(runs)
                    todo.append(runs)
            found = []
            if todo:
                runs = todo.pop()
                found = [self._after([self.waits[wait] for wait in runs], guard, runs) for guard in (*every, -1)]
        return False

    def _after(self, waits: Sequence[Wait], guard: int, own: Sequence[int] = (-1,)) -> tuple[tuple[int, ...], bool]:
        """The runs after an event, of which these were before; and whether one that skips stands before an end."""
        runs: dict[int, None] = {}
        for wait, number in zip(waits, own, strict=True):
            for leaf in wait.leaves:
                for following in self.leaves[leaf].after if self.leaves[leaf].guard == guard else ():
                    if following == ACCEPT:
                        return tuple(runs), any(not self.waits[run].tight for run in runs)
                    runs.setdefault(following)
            if not wait.tight and (guard < 0 or not wait.unless >> guard & 1):
                runs.setdefault(number)
        return tuple(runs), False

    def labels(self) -> list[Label]:
        """Every label, in a fixed order."""
        return sorted({leaf.label for leaf in self.leaves}, key=sorted)


class _Ahead(NamedTuple):
    """A wait under construction. `joint` is None as long as only the formula around says what joins it."""

    leaves: tuple[int, ...]
    joint: Joint | None = None
    unless: int = 0
    rivals: int = 0
    """The guards of the events that could begin what `->` joins."""
    loops: Leaves = frozenset()


class _Out(NamedTuple):
    """Stands in a list where the part is left, with what joins the neighbours of parts that are missing there."""

    joint: Joint | None = None
    unless: int = 0


_List = list[_Ahead | _Out]


class _Part(NamedTuple):
    """A part of the formula: how it may begin, and the leaves at which it may end.

    An `_Out` stands among the beginnings of a part that may be missing, and in the list of each leaf that may be last.
    """

    begin: _List
    last: list[int]

    @property
    def nullable(self) -> bool:
        return any(isinstance(ahead, _Out) for ahead in self.begin)


def compile_ordered(
    formula: Normal, guards: Sequence[Atom] = (), empty: bool = False, refusing: bool = False
) -> Ordered:
    """The ordered automaton of `formula`; its guards are numbered after those given. With `empty`, a match may have no
    event, if the formula may. With `refusing`, something else than its conditions may refuse a match."""
    builder = _Builder(guards, refusing)
    return builder.finished(builder.build(formula), empty)


class _Builder:
    def __init__(self, guards: Sequence[Atom], refusing: bool) -> None:
        self.refusing = refusing
        self.guards = {guard: k for k, guard in enumerate(guards)}
        self.atoms: list[tuple[int, Label, int]] = []
        self.after: list[_List] = []
        self.put = 0

    def build(self, formula: Normal) -> _Part:
        match formula:
            case Atom(type, stream, variables, predicates):
                guard = Atom(type, stream, frozenset(), predicates)
                self.atoms.append((self.guards.setdefault(guard, len(self.guards)), variables, formula.place))
                self.after.append([_Out()])
                leaf = len(self.atoms) - 1
                return _Part([_Ahead((leaf,))], [leaf])
            case normal.Sequence(items, joints, absent, instead):
                unless = [self._mask(atoms) for atoms in absent] or [0] * (len(items) + 1)
                rivals = [self._mask(atoms) for atoms in instead] or [0] * len(items)
                return self._sequence([self.build(item) for item in items], [None, *joints], unless, rivals)
            case normal.Repeat():
                return self._repeat(formula)
            case normal.Choice(items):
                return self._choice([self.build(item) for item in items])
            case _:
                raise AssertionError(f"no ordered automaton has {formula}")

    def _mask(self, atoms: Iterable[Atom]) -> int:
        """The guards that these events satisfy."""
        mask = 0
        for atom in atoms:
            mask |= 1 << self.guards.setdefault(atom, len(self.guards))
        return mask

    def _choice(self, parts: list[_Part]) -> _Part:
        """What is skipped is chosen before the side: the earliest event at which any side begins comes first."""
        begin: _List = []
        for ahead in (ahead for part in parts for ahead in part.begin):
            last = begin[-1] if begin else _Out()
            if isinstance(ahead, _Ahead) and isinstance(last, _Ahead) and ahead.unless == last.unless:
                begin[-1] = last._replace(leaves=last.leaves + ahead.leaves)
            else:
                begin.append(ahead)
        return _Part(_with_one_out(begin), [leaf for part in parts for leaf in part.last])

    def _sequence(
        self, parts: list[_Part], joints: Sequence[Joint | None], unless: list[int], rivals: list[int]
    ) -> _Part:
        """One part after the other: what the next may begin with takes the place of `_Out` in all that comes before."""
        begin: _List = [_Out()]
        open_ends: list[int] = []
        for part, joint, forbidden, others in zip(parts, joints, unless, rivals, strict=False):
            begin = self._put(begin, [_combined(ahead, None, forbidden) for ahead in part.begin])
            begins = [_combined(ahead, joint, forbidden, others) for ahead in part.begin]
            for leaf in open_ends:
                self.after[leaf] = self._put(self.after[leaf], begins)
            open_ends = [*(open_ends if part.nullable else []), *part.last]
        trailing = _Out(unless=unless[len(parts)])
        for leaf in open_ends:
            self.after[leaf] = [trailing if isinstance(ahead, _Out) else ahead for ahead in self.after[leaf]]
        return _Part(begin, open_ends)

    def _put(self, before: _List, begins: _List) -> _List:
        """`before`, with these beginnings in place of `_Out`."""
        found: _List = []
        for ahead in before:
            if isinstance(ahead, _Out):
                found += [_combined(next, ahead.joint, ahead.unless) for next in begins]
            else:
                found.append(ahead)
        self.put += len(found)
        if self.put > MAX_FOLLOWING:
            raise ResourceError(
                f"the automaton has more than {MAX_FOLLOWING:,} transitions: where many parts stand side by side that "
                "may be missing, or that are alternatives, each can be followed by all; write fewer of them in a row",
                limit="MAX_FOLLOWING",
            )
        return _with_one_out(found)

    def _repeat(self, formula: normal.Repeat) -> _Part:
        """A copy of the body for each round that is counted; the last one of no upper end goes round."""
        joint, reluctant, least, most = formula.joint, formula.reluctant, formula.least, formula.most
        rivals = self._mask(formula.instead)
        rounds = [self.build(formula.body)]
        if rounds[0].begin and isinstance(rounds[0].begin[-1], _Out) and not reluctant:
            least = 0  # a body that is rather there may be missing as well as any round
        count = max(least, 1) if most is None else most
        rounds += [self.build(formula.body) for _ in range(1, count)]
        further: list[_List] = [[]] * len(rounds)
        for k in range(len(rounds) - 1, -1, -1):
            further[k] = self._round(rounds[k], k, least, reluctant, further[k + 1] if k + 1 < len(rounds) else [])
        for k, part in enumerate(rounds):
            again = further[k + 1] if k + 1 < len(rounds) else self._round(part, k, 0, reluctant, [])
            if k + 1 == len(rounds) and most is not None:
                continue
            begins = [_going_round(_combined(ahead, joint, 0, rivals), formula.place) for ahead in again]
            for leaf in part.last:
                self.after[leaf] = self._put(self.after[leaf], begins)
                self.after[leaf] = [_Out() if isinstance(ahead, _Out) else ahead for ahead in self.after[leaf]]
        last = [leaf for part in rounds for leaf in part.last if any(isinstance(a, _Out) for a in self.after[leaf])]
        return _Part(further[0], last)

    def _round(self, part: _Part, done: int, least: int, reluctant: bool, following: _List) -> _List:
        """What a count may go on with after so many rounds; `following` is that after one more, which is empty."""
        again = self._put(part.begin, following) if done + 1 < least else part.begin
        if done < least:
            return again
        return _with_one_out([_Out(), *again] if reluctant else [*again, _Out()])

    def finished(self, whole: _Part, empty: bool) -> Ordered:
        """The automaton of the whole formula."""
        waits: dict[Wait, int] = {}
        leaves = []
        asked = self._mask_of(guard for guard in self.guards if guard.place >= 0)
        for (guard, label, place), after in zip(self.atoms, self.after, strict=True):
            following: dict[int, None] = {}
            for ahead in after:
                if isinstance(ahead, _Out) and ahead.unless:
                    waits.setdefault(last := Wait((), False, ahead.unless, place), len(waits))
                    following[waits[last]] = None
                    continue  # a forbidden event may end it
                if isinstance(ahead, _Out):
                    following[ACCEPT] = None
                    if place < 0 and not self.refusing:
                        break
                    continue  # conditions may refuse the match
                tight = ahead.joint is Joint.TOUCH
                forbidden = ahead.unless | (ahead.rivals if ahead.joint is Joint.NEXT else 0)
                forbidden = 0 if tight else forbidden
                wait = Wait(ahead.leaves, tight, forbidden & ~asked, place, ahead.loops, forbidden & asked)
                following[waits.setdefault(wait, len(waits))] = None
            leaves.append(Leaf(guard, label, tuple(following), place))
        begin: list[tuple[int, int]] = []
        for ahead in whole.begin:
            if isinstance(ahead, _Ahead):
                begin += [(self._first(leaves, leaf), ahead.unless) for leaf in ahead.leaves]
            elif empty:
                break  # what is less preferred than the empty match
        return Ordered(
            tuple(replace(guard, place=-1) for guard in self.guards),
            tuple(leaves),
            tuple(waits),
            tuple(leaf for leaf, _ in begin),
            tuple(unless for _, unless in begin),
            empty and whole.nullable,
        )

    def _mask_of(self, guards: Iterable[Atom]) -> int:
        """These guards as bits."""
        return sum(1 << self.guards[guard] for guard in guards)

    def _first(self, leaves: list[Leaf], leaf: int) -> int:
        """The leaf that reads the first event of a match as this one does, if there is no event before it."""
        guard = list(self.guards)[leaves[leaf].guard]
        if not any(steps for _, steps in lags_in(guard.predicates)):
            return leaf
        alone = replace(guard, predicates=tuple(map(before_any, guard.predicates)))
        leaves.append(leaves[leaf]._replace(guard=self.guards.setdefault(alone, len(self.guards))))
        return len(leaves) - 1


def _combined(ahead: _Ahead | _Out, joint: Joint | None, unless: int = 0, rivals: int = 0) -> _Ahead | _Out:
    """What may follow, if it is joined by this as well: parts that are missing leave their neighbours joined by `:` or
    `->` if both operators are, else by `;`."""
    both = ahead.joint or joint
    if ahead.joint is not None and joint is not None:
        both = ahead.joint.beside(joint)
    ahead = ahead._replace(joint=both, unless=ahead.unless | unless)
    return ahead._replace(rivals=ahead.rivals | rivals) if isinstance(ahead, _Ahead) else ahead


def _going_round(ahead: _Ahead | _Out, loop: int) -> _Ahead | _Out:
    """What may follow, after going round an iteration that is told apart."""
    return ahead._replace(loops=ahead.loops | {loop}) if isinstance(ahead, _Ahead) and loop >= 0 else ahead


def _with_one_out(aheads: _List) -> _List:
    """Only the first way out counts, since the others are less preferred and lead to the same."""
    found: _List = []
    for ahead in aheads:
        if ahead not in found:
            found.append(ahead)
    return found
