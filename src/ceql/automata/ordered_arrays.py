"""An ordered automaton and the symbols of its events, as arrays for the loop (`engine.preferred.layout.Automaton`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ceql.automata.cea import Label
from ceql.automata.correlated import NOTHING_COMPARED, Correlated
from ceql.automata.ordered import Ordered
from ceql.engine.preferred.layout import Automaton
from ceql.engine.preferred.runs import LAST_BIT
from ceql.jit import Array


class OrderedArrays:
    """The arrays of an automaton; `over` adds those that depend on the symbols."""

    def __init__(
        self, auto: Ordered, selected: Collection[str], target: str | None, comparing: Correlated = NOTHING_COMPARED
    ) -> None:
        self._auto = auto
        endings, begun = comparing.endings, len(comparing.transitions)
        self.labels: list[Label] = auto.labels()
        number = {label: k for k, label in enumerate(self.labels)}
        met = list(dict.fromkeys(unless for unless in auto.before if unless))
        masks = list(dict.fromkeys([0, *met, *(wait.unless for wait in auto.waits)]))
        self._columns = [1 << k for k in range(len(auto.guards))]
        """For each column of `holds` the guards of which one must be satisfied."""
        read = [leaf for wait in auto.waits for leaf in wait.leaves]
        counts = Counter(ending.links[0].where for ending in endings)
        first = len(self._columns)
        self._columns += masks
        column = {mask: first + k for k, mask in enumerate(masks)}
        self._fixed: dict[str, Any] = {
            "waits": _offsets(len(wait.leaves) for wait in auto.waits),
            "leaves": _int32s(leaf for wait in auto.waits for leaf in wait.leaves),
            "stays": _int32s(-1 if wait.tight else column[wait.unless] for wait in auto.waits),
            "guards": _int32s(leaf.guard for leaf in auto.leaves),
            "labels": _int32s(number[leaf.label] for leaf in auto.leaves),
            "after": _offsets(len(leaf.after) for leaf in auto.leaves),
            "following": _int32s(wait for leaf in auto.leaves for wait in leaf.after),
            "initial": _int32s(auto.initial),
            "unmet": np.array([1 << met.index(unless) if unless else 0 for unless in auto.before], np.int64),
            "forbids": _int32s(column[mask] for mask in met),
            "first": _int32s(_offsets(len(auto.leaves[leaf].after) for leaf in (*read, *auto.initial))[:-1]),
            "carried": _int32s(len(comparing.carried(wait)) for wait in range(len(auto.waits))),
            "ends": _int32s(_offsets(counts[wait] for wait in range(len(auto.waits)))),
            "end_columns": _int32s(ending.guard.bit_length() - 1 for ending in endings),
            "end_transitions": _int32s(begun + k for k in range(len(endings))),
            "once_of": np.zeros(1, np.int32),
            "once": np.zeros((0, 3), np.int32),
            "empty": len(self.labels) if auto.empty else -1,
            "targets": np.array([*(target in label for label in self.labels), False], np.uint8),
            "shown": np.array([*(bool(label & frozenset(selected)) for label in self.labels), False], np.uint8),
        }

    def over(self, symbols: Sequence[int], **further: Array) -> Automaton:
        """The arrays for these symbols, each a set of guards as bits; `further` ones take the place of those that say
        nothing."""
        holds: Array = np.array([[bool(bits & mask) for mask in self._columns] for bits in symbols], np.uint8)
        holds = holds.reshape(len(symbols), len(self._columns))
        fixed = self._fixed
        moves: Array = np.zeros(len(symbols), np.int64)
        reads = holds[:, fixed["guards"]].astype(np.bool_)  # of each symbol and leaf
        for wait in range(len(self._auto.waits)):
            leaves = fixed["leaves"][fixed["waits"][wait] : fixed["waits"][wait + 1]]
            stays = fixed["stays"][wait]
            ends = fixed["end_columns"][fixed["ends"][wait] : fixed["ends"][wait + 1]]
            moved = reads[:, leaves].any(axis=1) | (stays < 0 or holds[:, stays].astype(np.bool_))
            moved |= holds[:, ends].astype(np.bool_).any(axis=1)
            moves[moved] |= 1 << min(wait, LAST_BIT - 1)
        others = reads[:, fixed["initial"]].any(axis=1) | holds[:, fixed["forbids"]].astype(np.bool_).any(axis=1)
        moves[others | self._auto.empty] |= 1 << LAST_BIT
        return Automaton(**(fixed | further), holds=holds, moves=moves)


def _int32s(numbers: Iterable[int]) -> Array:
    return np.array(list(numbers), np.int32)


def _offsets(lengths: Iterable[int]) -> Array:
    return np.array([0, *accumulate(lengths)], np.int64)
