"""The compact graph of the loop over states (core-vldb2022, 4.1), as nodes to draw, event by event.

In: a recognition that is fed one event at a time. Out: the nodes of its graph, each with the step that made it, and for
each step what the active states hold and where matches end. Nodes are never changed, so that one list serves all steps;
it is given up when the engine gives memory back, which no short stream makes it do.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ceql.engine.common.graph import BOTTOM, KIND, MAX, PAIR, A, B
from ceql.engine.common.layout import LEAST, NODES, ROOTS
from ceql.engine.states.layout import RECORD
from ceql.engine.states.machine import StateMachine
from ceql.recognition.unary import UnaryRecognition

MOST_NODES = 60  # of one step; more of them are no picture
_MOST_MADE = 4000  # of all steps
IN_GROUPS = "The engine keeps the partial matches of this query as groups in a look-up table, which is not drawn."
TOO_MANY = f"The graph has more nodes than can be told apart. It is drawn for up to {MOST_NODES} nodes."


class CompactView:
    """Looks at the graph after each event."""

    def __init__(self, recognition: UnaryRecognition, variables: list[str]) -> None:
        self._recognition = recognition
        self._variables = variables
        self._made = [0]  # how many nodes there are after each step
        self._steps: list[dict[str, Any]] = []

    def before(self) -> None:
        """Is called before each event; one that changes nothing never reaches the machine."""
        self._recognition.whole.regs[ROOTS] = 0

    def after(self) -> None:
        """Is called after each event."""
        machine = self._recognition.whole
        regs = machine.regs
        self._made.append(int(regs[NODES]))
        roots = machine.active.roots[: int(regs[ROOTS])].tolist()
        self._steps.append({"lists": _lists(machine), "roots": roots, "bound": int(regs[LEAST])})

    def to_json(self) -> dict[str, Any]:
        """The nodes, and what each step holds of them; `note` says why there are none."""
        counts = self._made
        if counts[-1] > _MOST_MADE or any(after < before for before, after in pairwise(counts)):
            return nothing(TOO_MANY)
        nodes = self._recognition.whole.nodes[: counts[-1]].copy()
        starts = np.unique(nodes[:, MAX])  # numbers that a page can hold: times in nanoseconds are too large for it
        nodes[:, MAX] = np.searchsorted(starts, nodes[:, MAX])
        steps = [step | {"bound": int(np.searchsorted(starts, step["bound"]))} for step in self._steps]
        made_at = np.searchsorted(counts, np.arange(counts[-1]), side="right") - 1
        found = [self._node(node, step) for node, step in zip(nodes.tolist(), made_at.tolist(), strict=True)]
        return {"nodes": found, "steps": steps, "most": MOST_NODES, "note": None}

    def _node(self, node: list[int], step: int) -> dict[str, Any]:
        made: dict[str, Any] = {"step": step, "latest": node[MAX], "children": []}
        if node[KIND] == BOTTOM:
            return made | {"kind": "bottom"}
        if node[KIND] == PAIR:
            return made | {"kind": "union", "children": [node[A], node[B]]}
        names = [
            name
            for name, bound in zip(
                self._recognition.plan.columns, self._recognition.label_masks[node[KIND]].tolist(), strict=True
            )
            if bound
        ]
        own = next((k for k, name in enumerate(self._variables) if name in names), -1)
        return made | {"kind": "output", "children": [node[B]], "binds": ", ".join(names), "variable": own}


def nothing(note: str) -> dict[str, Any]:
    """No graph, and why."""
    return {"nodes": [], "steps": [], "most": MOST_NODES, "note": note}


def _lists(machine: StateMachine) -> list[dict[str, Any]]:
    """The union-list of each active state, whose name is the set of the automaton's states that a run may be in."""
    found = []
    pool = machine.parts.pool
    records = machine.table[:, RECORD]
    for record in records[records >= 0].tolist():
        at = record + 1
        for _ in range(int(pool[record])):
            state, length = int(pool[at]), int(pool[at + 1])
            found.append(
                {"states": _own(machine.cache.states[state]), "nodes": pool[at + 2 : at + 2 + length].tolist()}
            )
            at += 2 + length
    return found


def _own(state: Any) -> list[int]:
    """The automaton's states of a determinised one; rivals stand beside them."""
    own = state if isinstance(state, frozenset) else state[0]
    return sorted(own or ())
