"""A correlated automaton as the arrays of the loop over groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ceql.automata.correlated import Correlated
from ceql.engine.groups.layout import Steps
from ceql.jit import Array


def to_steps(auto: Correlated, symbols: Sequence[int]) -> Steps:
    """The arrays for these symbols, each the set of guards that hold, as a bit mask."""
    transitions = auto.transitions
    allowed = [[k for k, e in enumerate(transitions) if e.allows(bits)] for bits in symbols]
    links = [e.links for e in transitions]
    every = [link for row in links for link in row]
    feeds = [
        [(k, *index.feeders[state]) for k, index in enumerate(auto.indexes) if state in index.feeders]
        for state in range(auto.states)
    ]
    fed = [feed for row in feeds for feed in row]
    final = np.zeros(auto.states, np.uint8)
    final[list(auto.final)] = 1
    return Steps(
        by_symbol=_offsets(allowed),
        order=_flat(allowed),
        target=_ints(e.target for e in transitions),
        mark=_ints(e.mark for e in transitions),
        links=_offsets(links),
        link_index=_ints(link.where for link in every),
        link_keys=_offsets([link.key for link in every]),
        link_terms=_flat(link.key for link in every),
        link_unlike=_ints(_only(link.unlike) for link in every),
        needs=_offsets([e.needs for e in transitions]),
        need_terms=_flat(e.needs for e in transitions),
        feeds=_offsets(feeds),
        feed_index=_ints(index for index, _, _ in fed),
        feed_keys=_offsets([key for _, key, _ in fed]),
        feed_terms=_flat(key for _, key, _ in fed),
        feed_unlike=_ints(_only(unlike) for _, _, unlike in fed),
        tight=np.array([index.tight for index in auto.indexes], np.uint8),
        final=final,
    )


def _only(unlike: tuple[int, ...]) -> int:
    """The term of a disequality, of which there is one at most."""
    return unlike[0] if unlike else -1


def _ints(values: Iterable[int]) -> Array:
    return np.array(list(values), np.int32)


def _flat(rows: Iterable[Iterable[int]]) -> Array:
    return _ints(value for row in rows for value in row)


def _offsets(rows: Sequence[Sequence[Any]]) -> Array:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
