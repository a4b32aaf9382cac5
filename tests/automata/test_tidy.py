"""Automata without useless states and with equal ones made one; and how large they may become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceql
from ceql.automata import compile as compiling
from ceql.automata.cea import CEA, Transition, tidy

LABELS = [frozenset[str](), frozenset({"a"})]


@st.composite
def automata(draw) -> CEA:
    size = draw(st.integers(1, 9))
    row = st.lists(
        st.builds(Transition, st.integers(0, 2), st.sampled_from(LABELS), st.integers(0, size - 1)), max_size=3
    ).map(tuple)
    final = draw(st.frozensets(st.integers(0, size - 1)))
    return CEA((), draw(row), tuple(draw(row) for _ in range(size)), final)


def step(cea: CEA, states: frozenset[int], guard: int, label: frozenset[str]) -> frozenset[int]:
    return frozenset(t.target for s in states for t in cea.states[s] if (t.guard, t.label) == (guard, label))


def words(cea: CEA, length: int) -> set[tuple[object, ...]]:
    """What the automaton accepts, up to a length."""
    found: set[tuple[object, ...]] = set()
    moves = [(guard, label) for guard in range(3) for label in LABELS]
    ways: list[tuple[tuple[object, ...], frozenset[int]]] = [
        ((move,), frozenset(t.target for t in cea.initial if (t.guard, t.label) == move)) for move in moves
    ]
    for _ in range(length):
        found |= {word for word, states in ways if states & cea.final}
        ways = [
            ((*word, move), after) for word, states in ways for move in moves if (after := step(cea, states, *move))
        ]
    return found


def alike(cea: CEA, one: int, other: int, pairs: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether two states have the same moves to states that are alike, by the definition: a bisimulation."""
    if (one, other) in pairs:
        return True
    if (one in cea.final) != (other in cea.final):
        return False
    known = pairs | {(one, other)}
    return all(
        any((u.guard, u.label) == (t.guard, t.label) and alike(cea, t.target, u.target, known) for u in cea.states[b])
        for a, b in ((one, other), (other, one))
        for t in cea.states[a]
    )


@given(automata())
def test_a_tidy_automaton_accepts_the_same(cea):
    assert words(tidy(cea), 3) == words(cea, 3)


@given(automata())
def test_no_two_states_of_a_tidy_automaton_are_alike(cea):
    made = tidy(cea)
    size = len(made.states)
    assert not any(alike(made, one, other) for one in range(size) for other in range(one))


def test_a_chain_of_equal_states_stays_a_chain():
    size = 300
    moves = [(Transition(1, LABELS[1], k),) for k in range(size + 1)]
    cea = CEA((), moves[0], (*moves[1:], ()), frozenset({size}))
    assert tidy(cea) == cea


def test_all_of_too_many_sides_is_refused_before_it_hurts(monkeypatch):
    monkeypatch.setattr(compiling, "MAX_MOVES", 10_000)
    assert ceql.compile("SELECT * WHERE A ALL B ALL C ALL D")
    with pytest.raises(ceql.ResourceError, match="ALL joins so many sides") as error:
        ceql.compile("SELECT * WHERE A ALL B ALL C ALL D ALL E ALL F ALL G ALL H")
    assert error.value.limit == "MAX_MOVES"
