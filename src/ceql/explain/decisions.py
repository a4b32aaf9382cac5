"""At which events a condition is decided, how, and what is carried until then: read from the compiled automaton."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from ceql.analysis.between import hardest
from ceql.analysis.equalities import Equality
from ceql.analysis.shape import Claim
from ceql.automata.correlated import Correlated, Index, Transition
from ceql.automata.registers import CARRIED, Carrying, Evaluation
from ceql.explain.carried import equality_of, event_of, operand_register, print_register, sources, unread
from ceql.explain.names import listed


class How(Enum):
    """The ways to decide a claim, the best first."""

    NOTHING = "nothing to decide"
    SUBSTREAMS = "by substreams"
    AT_EVENT = "decided at one event"
    LOOKED_UP = "looked up"
    IN_ORDER = "found in order"
    TESTED = "tested"
    LISTED = "tested on whole lists"


_DECIDED = {
    How.LOOKED_UP: "looked up by hash at",
    How.IN_ORDER: "found in order at",
    How.TESTED: "tested group by group at",
    How.LISTED: "each different list is tested once at",
}


class Decision(NamedTuple):
    """How a claim is decided at an event, and by which carried values."""

    how: How
    carried: tuple[str, ...]
    event: str
    remark: str = ""


def worst(decisions: Iterable[Decision]) -> How:
    """The weakest of the ways in which a claim is decided."""
    order = list(How)
    return max((d.how for d in decisions), key=order.index, default=How.NOTHING)


def in_words(decisions: Iterable[Decision]) -> list[str]:
    """What is decided at each event.

    >>> in_words([Decision(How.LOOKED_UP, ("a.k",), "c"), Decision(How.AT_EVENT, (), "c")])
    ['a.k: carried until c; looked up by hash at c', 'decided at c alone']
    """
    events: dict[Decision, dict[str, None]] = {}
    for decision in decisions:
        events.setdefault(decision._replace(event=""), {})[decision.event] = None
    found = []
    for (how, carried, _, remark), names in events.items():
        where = " or ".join(names)
        if carried:
            found.append(f"{listed(carried)}: carried until {where}; {_DECIDED[how]} {where}{remark}")
        else:
            found.append(f"decided at {where} alone")
    return found


def decisions(auto: Correlated, claim: Claim, equality: Equality | None, indexes: tuple[Index, ...]) -> list[Decision]:
    """How an automaton decides a claim by carried values, if it runs with these indexes; `equality` is the one that the
    claim belongs to, if any."""
    if auto.carrying is None:
        return []
    asked = [(condition.claim.absence, condition.claim.number) for condition in auto.carrying.conditions]
    own = {k for k, (absence, number) in enumerate(asked) if absence < 0 and number == claim.number}
    return [d for transition in auto.transitions for d in _at(auto, transition, own, equality, indexes)]


def _at(
    auto: Correlated, transition: Transition, own: set[int], equality: Equality | None, indexes: tuple[Index, ...]
) -> Iterator[Decision]:
    carrying = auto.carrying
    assert carrying is not None
    event, ahead = event_of(auto, transition), unread(auto, sources(auto, transition))
    for register, term in transition.way.hashed:
        if _is_class(auto, register, equality) or any(_compares(carrying, k, register, term) for k in own):
            yield Decision(How.LOOKED_UP, (print_register(auto, register, ahead),), event)
    for test in transition.way.tests:
        carried = [source.number for source in test.sources if source.kind == CARRIED]
        if test.condition not in own and not (test.condition < 0 and _is_class(auto, carried[0], equality)):
            continue
        names = tuple(dict.fromkeys(print_register(auto, register, ahead) for register in carried))
        if not carried:
            yield Decision(How.AT_EVENT, (), event)
            continue
        in_order = any(indexes[link.where].order for link in transition.links)
        remark = "" if in_order else _remark(auto, carrying, transition, test)
        yield Decision(How.IN_ORDER if in_order else _tested(carrying, test), names, event, remark)
    for tests, remark in ((transition.way.after, ""), (transition.way.complete, ", where a match may end")):
        for test in tests:
            if test.condition in own:
                registers = dict.fromkeys(source.number for source in test.sources)
                names = tuple(dict.fromkeys(print_register(auto, register) for register in registers))
                after = ", if it cannot hold any more" if carrying.conditions[test.condition].early else remark
                yield Decision(_tested(carrying, test), names, event, after)


def _tested(carrying: Carrying, test: Evaluation) -> How:
    is_listed = test.condition >= 0 and carrying.conditions[test.condition].listed is not None
    return How.LISTED if is_listed else How.TESTED


def _is_class(auto: Correlated, register: int, equality: Equality | None) -> bool:
    found = equality_of(auto, register)
    return found is not None and equality is not None and found.claims == equality.claims


def _compares(carrying: Carrying, condition: int, register: int, term: int) -> bool:
    """Whether finding a register by the event's term decides a condition."""
    found = carrying.conditions[condition]
    if found.pair is None or found.pair[0] != "=" or found.case >= 0:
        return False
    _, one, two = found.pair
    return any(
        operand_register(carrying, condition, theirs) == register and carrying.operands[condition][mine] == term
        for theirs, mine in ((one, two), (two, one))
    )


def _remark(auto: Correlated, carrying: Carrying, transition: Transition, test: Evaluation) -> str:
    """What keeps a test from being found in order or by hash, where that is worth knowing."""
    if any(not carrying.sure[state].issuperset(test.bound) for state in sources(auto, transition)):
        return "; a run without that event passes"
    mine = [n for n, source in enumerate(test.sources) if source.kind == CARRIED]
    if test.condition >= 0 and carrying.conditions[test.condition].ends >= 0:
        return ""
    if test.condition < 0 or len(mine) != 1 or hardest(carrying.conditions[test.condition], mine[0]) is None:
        return ""
    others = [move.register for move in transition.way.moves if carrying.carries_on(move)]
    if others:
        goes_on = listed(print_register(auto, register) for register in others)
        return f", and not found in order, as {goes_on} must be carried on"
    if len(transition.way.tests) > 1:
        return ", and not found in order, as more than this is tested there"
    return ""
