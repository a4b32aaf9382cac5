"""AFTER MATCH SKIP as naive Python: docs/reference.md, section 6, by backtracking, on top of the oracle.

In: a query's tree with AFTER MATCH and a short list of events. Out: its matches, with the position at which each is
decided. A formula gives, for each event that it may begin at, its valuations as a list, the preferred ones first; the
first that all conditions, windows and NOTs leave is the match of that start.

"Reading from left to right" is this. A count chooses whether it goes round once more before the joint in front of that
round chooses an event: of `X ; B* ; C` over XCBC the match is (0, 2, 3). A joint takes an earlier event before a later
one, and only then OR takes its left side: of `X ; (A OR B)` over XBA the match is (0, 1). So a formula is a list of
alternatives in order, each of which is empty, or has its valuations for each first event. A FILTER chooses nothing: of
`f OR g` neither is preferred.

A match is *decided* when no derivation is left that is preferred to it and waits for an event. So a list may hold
valuations that wait for what comes after the events that were read. Conditions that they violate already end them, but
for aggregates and times of the match, which are not known yet. Windows end them when time has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import oracle
from ceql.syntax import tree
from oracle import EMPTY, Events, Gap, Instead, Match, Valuation

Alternative = Callable[[int], list[Valuation]] | None
"""The valuations that begin at an event, the preferred ones first; None for the empty one."""


class NoProgress(ValueError):
    """AFTER MATCH SKIP TO goes to a variable without events, or to the first event of the match itself."""


@dataclass(frozen=True)
class Preference(oracle.Evaluator):
    """The valuations of formulas over one (sub)stream so far, in order of preference."""

    def alternatives(self, formula: tree.Formula) -> list[Alternative]:
        match formula:
            case tree.Event():
                once = self.valuations(formula)
                return [lambda i: [v for v in once if v.start == i]]
            case tree.Or(items=items):
                return united([alternative for item in items for alternative in self.alternatives(item)])
            case tree.Then():
                return self.from_item(Chain(self, formula), 0, ())
            case tree.Plus(formula=inner, joint=joint, reluctant=reluctant):
                return self.rounds(inner, 1, None, joint, reluctant)
            case tree.Count(formula=inner, least=least, most=most, joint=joint, reluctant=reluctant):
                return self.rounds(inner, least, most, joint, reluctant)
            case tree.As() | tree.Within() | tree.Filter() | tree.PartitionBy():
                return self.left_by(formula, self.alternatives(formula.formula))
        raise ValueError("ALL and NOT by itself are not for AFTER MATCH")

    def left_by(
        self, formula: tree.As | tree.Within | tree.Filter | tree.PartitionBy, inner: list[Alternative]
    ) -> list[Alternative]:
        """The alternatives that are left by what stands around a formula."""

        def left(alternative: Callable[[int], list[Valuation]], i: int) -> list[Valuation]:
            if isinstance(formula, tree.Within) and isinstance(formula.window, tree.AttributeWindow):
                # an attribute may fall again: what waits may come to be inside
                return [u for v in alternative(i) for u in ([v] if v.waits else self.around(formula, {v}))]
            return [u for v in alternative(i) for u in self.around(unmeasured(formula) if v.waits else formula, {v})]

        kept: list[Alternative] = []
        for alternative in inner:
            if alternative is not None:
                kept.append(partial(left, alternative))
            elif self.around(formula, {EMPTY}):
                kept.append(None)
        return kept

    # --- sequences ---

    def from_item(self, chain: Chain, k: int, absent: Instead) -> list[Alternative]:
        """The alternatives of a chain whose items before the k-th are missing."""
        if k == len(chain.items):
            return [None]
        item = chain.items[k]
        if isinstance(item, tree.Not):
            return self.from_item(chain, k + 1, (*absent, oracle.gap_of(item)))
        found: list[Alternative] = []
        for alternative in chain.parts[k]:
            if alternative is None:
                found += self.from_item(chain, k + 1, absent)
            else:
                found.append(partial(self.begun, chain, k, absent, alternative))
        return found

    def begun(
        self, chain: Chain, k: int, absent: Instead, alternative: Callable[[int], list[Valuation]], i: int
    ) -> list[Valuation]:
        found: list[Valuation] = []
        for w in chain.marked(k, alternative(i)):
            leading = frozenset(replace(gap, high=w.start) for gap in absent)
            found += self.going_on(chain, k + 1, replace(w, gaps=w.gaps | leading), None, ())
        return [u for v in found for u in self.settled([v])]

    def going_on(
        self, chain: Chain, k: int, v: Valuation, joint: tree.Joint | None, absent: Instead
    ) -> Iterator[Valuation]:
        """The ways in which items from the k-th follow v."""
        if v.waits:
            yield from self.demanded(chain, k, v)
            return
        if k == len(chain.items):
            yield replace(v, gaps=v.gaps | {replace(gap, low=v.end) for gap in absent})
            return
        sign = chain.joints[k - 1]
        joint = sign if joint is None else joint.beside(sign)
        item = chain.items[k]
        if isinstance(item, tree.Not):
            yield from self.going_on(chain, k + 1, v, joint, (*absent, oracle.gap_of(item)))
            return
        for alternative in chain.parts[k]:
            if alternative is None:
                yield from self.going_on(chain, k + 1, v, joint, absent)
                continue
            names, instead = chain.names(k), chain.instead[k]
            for i in self.places(v, joint):
                for w in chain.marked(k, alternative(i)):
                    u = oracle.follows(v, w, joint, names, absent, instead)
                    yield from self.going_on(chain, k + 1, replace(u, waits=w.waits), None, ())
            for u in self.waiting(v, joint, names, absent, instead):
                yield from self.demanded(chain, k, u)

    def demanded(self, chain: Chain, k: int, v: Valuation) -> set[Valuation]:
        """A valuation that waits, if what the items from the k-th on ask of it holds."""
        left = {v}
        for condition in chain.demanded(k):
            left = self.filtered(left, condition, chain.names(len(chain.items)))
        return left

    def places(self, v: Valuation, joint: tree.Joint) -> range:
        """Where what follows v may begin."""
        last = v.end + 2 if joint is tree.Joint.TOUCH else len(self.events)
        return range(v.end + 1, min(last, len(self.events)))

    def waiting(
        self, v: Valuation, joint: tree.Joint, names: frozenset[str], absent: Instead, instead: Instead
    ) -> Iterator[Valuation]:
        """v as it waits for an event to come, unless what came after it forbids that."""
        if joint is tree.Joint.TOUCH and v.end + 1 < len(self.events):
            return
        kept = [*absent, *(instead if joint is tree.Joint.NEXT else ())]
        gaps = frozenset(replace(gap, low=v.end, high=len(self.events)).after(v, names) for gap in kept)
        yield replace(v, gaps=v.gaps | gaps, waits=True)

    # --- counts ---

    def rounds(
        self, inner: tree.Formula, least: int, most: int | None, joint: tree.Joint, reluctant: bool
    ) -> list[Alternative]:
        names = oracle.variables(inner)
        body = Round(self.alternatives(inner), least, most, joint, reluctant, names, self.instead(inner, joint))
        return self.first_round(body, 0)

    def instead(self, inner: tree.Formula, joint: tree.Joint) -> Instead:
        if joint is not tree.Joint.NEXT:
            return []
        return [oracle.marked_gap(gap, oracle.variables(inner)) for gap in self.begins(inner)]

    def first_round(self, body: Round, done: int) -> list[Alternative]:
        """The alternatives of a count whose rounds so far are missing."""
        again: list[Alternative] = []
        for alternative in body.alternatives if done != body.most else []:
            if alternative is not None:
                again.append(partial(self.after_first, body, done + 1, alternative))
            elif done + 1 < body.least:
                again += self.first_round(body, done + 1)
            else:
                again.append(None)
        enough: list[Alternative] = [None] if done >= body.least else []
        return [*enough, *again] if body.reluctant else [*again, *enough]

    def after_first(
        self, body: Round, done: int, alternative: Callable[[int], list[Valuation]], i: int
    ) -> list[Valuation]:
        found = [v for w in body.marked(alternative(i)) for v in self.further(body, done, w)]
        return [u for v in found for u in self.settled([v])]

    def further(self, body: Round, done: int, v: Valuation) -> Iterator[Valuation]:
        """v, and v with rounds after it."""
        if v.waits:
            yield v
            return
        if body.reluctant and done >= body.least:
            yield v
        for alternative in body.alternatives if done != body.most else []:
            if alternative is None:
                yield from self.further(body, done + 1, v) if done < body.least else [v]
                continue
            for i in self.places(v, body.joint):
                for w in body.marked(alternative(i)):
                    u = oracle.follows(v, w, body.joint, body.names, (), body.instead)
                    yield from self.further(body, done + 1, replace(u, waits=w.waits))
            yield from self.waiting(v, body.joint, body.names, (), body.instead)
        if not body.reluctant and done >= body.least:
            yield v


class Chain:
    """A sequence, with what each item may be."""

    def __init__(self, preference: Preference, formula: tree.Then) -> None:
        self.items, self.joints = formula.items, formula.joints
        there = [k for k, item in enumerate(self.items) if not isinstance(item, tree.Not)]
        self.parts = {k: preference.alternatives(self.items[k]) for k in there}
        beside = [oracle.bound_beside([self.items[k] for k in there], place) for place in range(len(there))]
        self.beside = dict(zip(there, beside, strict=True))
        needed = tree.Joint.NEXT in self.joints
        self.instead = {k: self._instead(preference, k) if needed else [] for k in there}

    def _instead(self, preference: Preference, k: int) -> list[Gap]:
        return [oracle.marked_gap(gap, self.beside[k]) for gap in preference.begins(self.items[k])]

    def demanded(self, k: int) -> list[tree.Condition]:
        """What the items from the k-th on that cannot be missing ask of events outside of them."""
        there = [j for j in range(k, len(self.items)) if None not in self.parts.get(j, [None])]
        return [condition for j in there for condition in demands(self.items[j])]

    def names(self, k: int) -> frozenset[str]:
        """What the items before the k-th bind."""
        return frozenset().union(*map(oracle.variables, self.items[:k]))

    def marked(self, k: int, vs: list[Valuation]) -> list[Valuation]:
        return [u for v in vs for u in oracle.marked_due({v}, self.beside[k])]


@dataclass(frozen=True)
class Round:
    """What a count repeats, and how."""

    alternatives: list[Alternative]
    least: int
    most: int | None
    joint: tree.Joint
    reluctant: bool
    names: frozenset[str]
    instead: Instead

    def marked(self, vs: list[Valuation]) -> list[Valuation]:
        return [u for v in vs for u in oracle.marked_due({v}, self.names)]


def demands(formula: Any) -> list[tree.Condition]:
    """The conditions inside a formula that speak of events outside of it alone, and do so whatever its matches are."""
    match formula:
        case tree.Filter(formula=inner, condition=condition):
            own = oracle.variables(inner) | oracle.absent_names(inner)
            parts = [part for part in oracle.conjuncts(condition) if oracle.named(part) and not is_measured(part)]
            outer = [part for part in parts if not oracle.named(part) & own and not has_prev(part)]
            return [*outer, *demands(inner)]
        case tree.Then(items=items):
            return [condition for item in items if not can_miss(item) for condition in demands(item)]
        case tree.As() | tree.Within() | tree.PartitionBy() | tree.Plus():
            return demands(formula.formula)
        case tree.Count(least=least) if least > 0:
            return demands(formula.formula)
    return []


def can_miss(formula: Any) -> bool:
    """Whether a formula may have the empty valuation, unless what stands around it refuses that."""
    match formula:
        case tree.Event():
            return False
        case tree.Not():
            return True
        case tree.Then(items=items):
            return all(map(can_miss, items))
        case tree.Or(items=items):
            return any(map(can_miss, items))
        case tree.Count(formula=inner, least=least):
            return least == 0 or can_miss(inner)
    return can_miss(formula.formula)


def has_prev(part: tree.Condition) -> bool:
    return any(isinstance(node, tree.Prev) for node in oracle.walk(part))


def is_measured(part: tree.Condition) -> bool:
    return any(isinstance(node, tree.Aggregate | tree.Lapse) for node in oracle.walk(part))


def united(alternatives: list[Alternative]) -> list[Alternative]:
    """Alternatives of which neighbours choose their event together."""
    found: list[Alternative] = []
    for alternative in alternatives:
        if found and found[-1] is not None and alternative is not None:
            found[-1] = partial(_either, found[-1], alternative)
        else:
            found.append(alternative)
    return found


def _either(one: Callable[[int], list[Valuation]], two: Callable[[int], list[Valuation]], i: int) -> list[Valuation]:
    return [*one(i), *two(i)]


def unmeasured(formula: Any) -> Any:
    """What stands around a formula, without conditions on aggregates and times of the match."""
    if not isinstance(formula, tree.Filter):
        return formula

    kept = tuple(part for part in oracle.conjuncts(formula.condition) if not is_measured(part))
    return replace(formula, condition=tree.Conj(kept))


# --- matches ---


@dataclass(frozen=True)
class Decided:
    """A match, and the position at which no event to come can change it: the number of events, if their end decides."""

    at: int
    match: Match


def decided(
    query: tree.Query,
    events: Events,
    *,
    type: str = "type",
    time: str = "time",
    time_unit: str = "ms",
    stream: str = "stream",
) -> list[Decided]:
    """All matches, in the order in which they are decided; those decided at one event by start."""
    assert query.after_match is not None
    formula, names, kinds, streams, substreams = oracle.divided(query, events, type, stream)
    result: list[Decided] = []
    for members in substreams.values():
        after, start = 0, 0
        read = cache(partial(Read.of, formula, events, members, kinds, streams, time, time_unit))
        while start < len(members):
            at, v = _preferred(query, read, events, members, start, time, time_unit)
            if query.after_match.skip is not tree.Skip.TO_NEXT:
                after = at = max(after, at)
            if v is None:
                start += 1
                continue
            result.append(Decided(at, oracle.shown(query, v, names, members)))
            start = _next_start(query.after_match, v)
    return sorted(result, key=lambda found: (found.at, found.match.start))


def _next_start(after: tree.AfterMatch, v: Valuation) -> int:
    match after.skip:
        case tree.Skip.PAST_LAST:
            return v.end + 1
        case tree.Skip.TO_NEXT:
            return v.start + 1
    bound = v.positions(after.variable or "")
    if not bound:
        raise NoProgress(f"binds no event to '{after.variable}'")
    place = min(bound) if after.skip is tree.Skip.TO_FIRST else max(bound)
    if place == v.start:
        raise NoProgress(f"{after.variable}: has its own first event there")
    return place


class Read(NamedTuple):
    """The events of a substream up to one of them, and what a formula gives there."""

    here: Sequence[int]
    view: Events
    preference: Preference
    alternatives: list[Alternative]

    @classmethod
    def of(
        cls,
        formula: tree.Formula,
        events: Events,
        members: Sequence[int],
        kinds: Sequence[str | None],
        streams: Sequence[str],
        time: str,
        time_unit: str,
        count: int,
    ) -> Read:
        """The first `count` of them."""
        here = members[:count]
        view = [events[i] for i in here]
        preference = Preference(view, [kinds[i] for i in here], [streams[i] for i in here], time, time_unit)
        return cls(here, view, preference, preference.alternatives(formula))


def _preferred(
    query: tree.Query,
    read: Callable[[int], Read],
    events: Events,
    members: Sequence[int],
    start: int,
    time: str,
    time_unit: str,
) -> tuple[int, Valuation | None]:
    """When the match of a start is decided, and that match, if there is one. A start is an index into `members`."""
    known = start
    for place in range(members[start], len(events) + 1):
        comes = known < len(members) and place == members[known]
        known += comes
        ends = place == len(events) or not _goes_on(query, events, members, start, place, time, time_unit)
        if not comes and not ends:
            continue  # nothing has changed
        so_far = read(known)
        reaches = partial(oracle.in_window, query.window, so_far.view, time=time, time_unit=time_unit)
        # an attribute may fall again, so that what waits may come to be inside
        falls = isinstance(query.window, tree.AttributeWindow)
        found = _first(so_far, start, partial(_inside, partial(reaches, start), falls), reaches)
        if ends:
            return place, next((v for v in found if not v.waits), None)
        first = next(found, None)
        if first is None or not (first.waits or _trails(first)):
            return place, first
    raise AssertionError("the end of the stream decides")


def _goes_on(
    query: tree.Query, events: Events, members: Sequence[int], start: int, read: int, time: str, time_unit: str
) -> bool:
    """Whether the window may hold events to come."""
    if isinstance(query.window, tree.EventsWindow):
        return sum(1 for i in members if members[start] < i <= read) < query.window.count
    if isinstance(query.window, tree.TimeWindow):
        return oracle.in_window(query.window, events, members[start], read, time, time_unit)
    return True


def _trails(v: Valuation) -> bool:
    return any(gap.high is None for gap in v.gaps)


def _inside(reaches: Callable[[int], bool], falls: bool, v: Valuation) -> bool:
    """Whether a valuation is inside the window of its start, or may come to be."""
    return (falls and v.waits) or reaches(v.end)


def _first(
    so_far: Read, start: int, in_window: Callable[[Valuation], bool], reaches: Callable[[int, int], bool]
) -> Iterator[Valuation]:
    """The valuations of a start that are matches, or may become matches, the preferred ones first."""
    preference = so_far.preference
    for alternative in so_far.alternatives:
        for v in alternative(start) if alternative is not None else []:
            for whole in preference.settled(oracle.marked_due({v}, frozenset({oracle.PREV}))):
                if in_window(whole) and _is_free(preference, whole, reaches, so_far.here):
                    yield whole


def _is_free(preference: Preference, v: Valuation, reaches: Callable[[int, int], bool], members: Sequence[int]) -> bool:
    if not v.waits:
        return preference.is_free(v, reaches, members, -1)
    known = frozenset(gap for gap in v.gaps if gap.is_next or (gap.low is not None and _is_known(gap, v)))
    return preference.is_free(replace(v, gaps=known), reaches, members, -1)


def _is_known(gap: Gap, v: Valuation) -> bool:
    """Whether all that a NOT compares its event with is there already."""
    bound = dict(v.binding)
    asked = ((d.condition, d.own) for d in gap.demands)
    others = [oracle.named(condition) - own for condition, own in asked if not isinstance(condition, tree.Part)]
    return all(name in bound for names in others for name in names)


def matches(query: tree.Query, events: Events, **options: Any) -> list[Match]:
    """All matches, in the order in which they are decided."""
    return [found.match for found in decided(query, events, **options)]


def check(query: tree.Query, events: Events, got: Sequence[Match], **options: Any) -> None:
    """Assert that `got` are the matches, in an order that the contract admits: that of one decision is open."""
    expected = decided(query, events, **options)
    missing = [found.match for found in expected if found.match not in got]
    surplus = [match for match in got if match not in [found.match for found in expected]]
    assert not missing, f"missing: {missing}\nexpected: {expected}"
    assert not surplus, f"surplus: {surplus}\nexpected: {expected}"
    assert len(got) == len(expected), f"given more than once: {got}"
    at: dict[Hashable, int] = {found.match: found.at for found in expected}
    order = [at[match] for match in got]
    assert order == sorted(order), f"decided at {order}: {got}"
