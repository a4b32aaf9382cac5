"""Events between two others that no condition asks for, read without carrying anything on.

In `A AS a ; B ; C AS c FILTER a.k = c.k`, a B would carry on every run that waits for one. Here it does not: runs that
end with an A wait for their C at once, and B's wait in an index of their own (`Index.between`). A C takes the runs that
it finds together with the B's that came after each: pairs that are made when they are enumerated or counted.

This is how the loop runs an automaton; what explains it looks at the one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ceql.automata.correlated import Correlated, Index, Transition
from ceql.automata.in_order import order_of
from ceql.automata.registers import Way

_NO_KEY: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


def with_free_events(auto: Correlated) -> Correlated:
    """The same automaton, with free events read so wherever it can be."""
    if auto.carrying is None or auto.ends_runs:
        return auto
    for state in range(auto.states):
        if (places := _around(auto, state)) is not None:
            auto = _freed(auto, state, *places)
    return auto


def _around(auto: Correlated, state: int) -> tuple[int, int, int] | None:
    """The index before the events that lead to a state, the one after them, and the order in which runs are found in
    that; None unless these events are free."""
    after = [k for k, index in enumerate(auto.indexes) if state in index.feeders]
    into = [e for e in auto.transitions if e.target == state]
    if state in auto.final or len(after) != 1 or not into or not all(map(_is_free, into)):
        return None
    before = {link.where for e in into for link in e.links}
    looking = {e.target for e in auto.transitions if any(link.where in before for link in e.links)}
    if len(before) != 1 or looking != {state}:
        return None
    one, two = before.pop(), after[0]
    waiting, found = auto.indexes[one], auto.indexes[two]
    plain = all(set(index.feeders.values()) == {_NO_KEY} and _is_loose(index) for index in (waiting, found))
    apart = one != two and not waiting.hashed and not waiting.order and set(found.feeders) == {state}
    order = _order(auto, two, waiting.feeders) if plain and apart else 0
    return (one, two, order) if order else None


def _is_free(transition: Transition) -> bool:
    """Whether an event is read without looking at it or at the runs before it."""
    way = transition.way
    asks = transition.needs or way.hashed or way.every_test or way.cases
    moves = all(move.kept and not move.sources for move in way.moves)
    return not asks and moves and [(link.key, link.unlike) for link in transition.links] == [_NO_KEY]


def _is_loose(index: Index) -> bool:
    return not index.tight and not index.ends and index.between < 0


def _order(auto: Correlated, where: int, sources: Iterable[int]) -> int:
    """The order in which runs that wait in an index are found by what these states carry; 0 if they are found group by
    group."""
    carrying, index = auto.carrying, auto.indexes[where]
    assert carrying is not None
    if not all(carrying.is_own(state, index.registers) for state in sources):
        return 0
    finding = [e for e in auto.transitions if any(link.where == where for link in e.links)]
    if not finding or any(len(e.links) != 1 or e.links[0].unlike for e in finding):
        return 0
    rest = index.registers[index.hashed :]
    if not rest:
        return int(index.hashed > 0 and not any(e.way.tests for e in finding))
    sure = all(carrying.sure[state].issuperset(rest) for state in sources)
    orders = {order_of(carrying, e.way, rest) for e in finding}
    return orders.pop() if sure and len(orders) == 1 else 0


def _freed(auto: Correlated, state: int, one: int, two: int, order: int) -> Correlated:
    assert auto.carrying is not None
    indexes = list(auto.indexes)
    indexes[two] = indexes[two]._replace(feeders=auto.indexes[one].feeders, order=order, between=one)
    indexes[one] = Index({state: _NO_KEY}, tight=False, order=1)
    live = [() if k == state else registers for k, registers in enumerate(auto.carrying.live)]
    transitions = [e._replace(links=(), way=Way()) if e.target == state else e for e in auto.transitions]
    carrying = replace(auto.carrying, live=tuple(live))
    return replace(auto, transitions=tuple(transitions), indexes=tuple(indexes), carrying=carrying)
