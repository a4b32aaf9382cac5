"""The value that all events of a match have in common, where the automaton looks up by it at every step.

Then runs of events with different values never meet, and the events can be divided by that value.
"""

from __future__ import annotations

from typing import NamedTuple

from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.substreams import part_of
from ceql.automata.correlated import Correlated, Transition
from ceql.syntax import tree as t


class SharedValue(NamedTuple):
    """Where the shared value is: of each transition, the column of its event; of each index, the word of its keys."""

    columns: tuple[int, ...]
    words: tuple[int, ...]


def shared_value(auto: Correlated) -> SharedValue | None:
    """The first value that all events of a match share, if any."""
    for equality in equalities(auto.shape):
        if part_of(auto.shape, equality) is not None:
            columns = [_column(auto, equality, transition) for transition in auto.transitions]
            words = [_word(auto, columns, index) for index in range(len(auto.indexes))]
            if None not in columns and None not in words:
                return SharedValue(tuple(columns), tuple(words))  # type: ignore[arg-type]
    return None


def _column(auto: Correlated, equality: Equality, transition: Transition) -> int | None:
    """Where an event that a transition reads has the value: in the same column at all leaves that it may be read at."""
    terms: set[t.Expression] = {equality.terms[leaf][0] for leaf in auto.marks[transition.mark].leaves}
    known = [term for term in terms if term in auto.terms]
    return len(auto.reads) + auto.terms.index(known[0]) if len(terms) == len(known) == 1 else None


def _word(auto: Correlated, columns: list[int | None], index: int) -> int | None:
    """Which word of an index's keys is the value, whoever files runs there or looks them up."""
    feeders = auto.indexes[index].feeders
    keys = [
        (key, column)
        for transition, column in zip(auto.transitions, columns, strict=True)
        for key in (
            *(link.key for link in transition.links if link.where == index),
            *(feeders[state][0] for state in (transition.target,) if state in feeders),
        )
    ]
    width = min(len(key) for key, _ in feeders.values())
    return next((word for word in range(width) if all(key[word] == column for key, column in keys)), None)
