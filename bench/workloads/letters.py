"""Random streams of types A to E and the queries Q1 to Q6 of foundations-cep-2018, section 8.

`uniform` with the `last` type is the stress test's stream; without, S1; `skewed` is S2. The queries have no window.
They have the paper's policy of consumption and, not in the paper, a limit of a thousand matches for each event; `query`
changes that. Without a limit Q5 and Q6 have events with millions of matches, and MAX more than can be listed on Q6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from bench.pattern import Group, Pattern, Step

TYPES = ("A", "B", "C", "D", "E")
TENTHS = (4, 3, 2, 1, 2)  # the paper's, for S2: they add up to twelve

_A, _B, _C, _D = (Step((type,)) for type in TYPES[:4])
_MANY_A, _MANY_B = Step(("A",), plus=True), Step(("B",), plus=True)

QUERIES = {
    "Q1": Pattern((_A, _B, _C)),
    "Q2": Pattern((_A, _B, _C, _D)),
    "Q3": Pattern((Step(("A", "B", "C")), _D)),
    "Q4": Pattern((_MANY_A, _B)),
    "Q5": Pattern((_MANY_A, _MANY_B, _C)),
    "Q6": Pattern((Group((_MANY_A, _B)), _C)),
}
STRESS = {"Q1": "C", "Q2": "D"}  # the queries of the stress test, and the type of its last event


def query(name: str, **changes: Any) -> Pattern:
    """A query with other clauses: query("Q1", strategy="MAX", consume=False, limit=None)."""
    return replace(QUERIES[name], **changes)


def uniform(count: int, last: str | None = None, seed: int = 0) -> pa.Table:
    """`count` events: type, all equally likely, and time (milliseconds).

    With `last`, the last event has that type and no other one has: matches that need it can only be complete there.
    """
    random = np.random.default_rng(seed)
    if last is None:
        return _table(random.choice(TYPES, count))
    if last not in TYPES:
        raise ValueError(f"no type {last!r}; there are {', '.join(TYPES)}")
    types = random.choice([type for type in TYPES if type != last], count)
    types[-1:] = last
    return _table(types)


def stress(name: str, count: int, whole: bool) -> pa.Table:
    """The stress test's stream for Q1 or Q2; not `whole`: without the event that completes the matches."""
    return uniform(count, STRESS[name]).slice(0, count if whole else count - 1)


def skewed(count: int, seed: int = 0) -> pa.Table:
    """`count` events of S2. The paper's probabilities are divided by their sum, 12/10."""
    random = np.random.default_rng(seed)
    return _table(random.choice(TYPES, count, p=np.array(TENTHS) / sum(TENTHS)))


def _table(types: np.ndarray) -> pa.Table:
    return pa.table({"type": pa.array(types), "time": pa.array(np.arange(len(types)), pa.timestamp("ms"))})
