"""Decides conditions with aggregates at the step after which no more of their events can come.

Such a condition asks for all events that some variables have in an instance of a node. It is decided
by the first step after which no more of them can come, by a step that leaves the instance, or where a match ends. A
step that reads one of several such events decides of what the new run carries, with this event. Any other step decides
of what it finds, so that runs that agree on all else go on as one group. A condition that gets no easier as more events
come is also asked of each new run before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ceql.analysis.cutting import Condition
from ceql.analysis.shape import Leaves, Shape
from ceql.automata.parallel import Parallel, Step
from ceql.automata.registers import CARRIED, EVENT, NEW, NOTHING, Evaluation, Fold, Register, Source, resets


class Told(NamedTuple):
    """What a step decides: of the runs that it finds, of the new run, of the new run where it is a match."""

    before: tuple[Evaluation, ...]
    after: tuple[Evaluation, ...]
    complete: tuple[Evaluation, ...]


class Wholes:
    """The conditions of an automaton on parts as a whole; see `carrying` for what else is given."""

    def __init__(
        self,
        shape: Shape,
        auto: Parallel,
        conditions: Sequence[Condition],
        operands: Sequence[tuple[int, ...]],
        folded: Mapping[tuple[int, int], tuple[int, int]],
        registers: Sequence[Register],
        may: Sequence[set[int]],
    ) -> None:
        self.shape = shape
        self.auto = auto
        self.conditions = conditions
        self.operands = operands
        self.folded = folded
        self.registers = registers
        self.may = may
        self.open = {k: self._open(condition) for k, condition in enumerate(conditions) if condition.ends >= 0}
        """Of each condition: the states inside of its part in which more of its events may come."""

    def _open(self, condition: Condition) -> set[int]:
        own, around = self.shape.below(condition.ends), self.shape.above(condition.ends)[1:]
        asked = self._asked(condition)
        inside = [
            (state, step)
            for step in self.auto.steps
            if step.leaves & own and step.loops.isdisjoint(around)
            for source in step.sources
            for state in source.states
            if self.auto.last[state] & own
        ]
        found: set[int] = set()
        grows = True
        while grows:
            more = {state for state, step in inside if step.leaves & asked or step.target in found}
            grows = not more <= found
            found |= more
        return found

    def _asked(self, condition: Condition) -> Leaves:
        return frozenset[int]().union(*(role.leaves for role in condition.roles))

    def tell(self, step: Step, state: int) -> Told:
        """What a step decides, for runs in this state (-1: it begins a run)."""
        before: list[Evaluation | None] = []
        after: list[Evaluation | None] = []
        complete: list[Evaluation | None] = []
        for k, still in self.open.items():
            condition = self.conditions[k]
            own, around = self.shape.below(condition.ends), self.shape.above(condition.ends)[1:]
            inside = state >= 0 and not self.auto.last[state].isdisjoint(own)
            here = not step.leaves.isdisjoint(own)
            stays = inside and here and step.loops.isdisjoint(around)
            if condition.early:
                if here and step.target in still and self._reads_one_of_several(condition, step):
                    after.append(self._of_new(k, step, state))
                continue
            if inside and not stays and state in still:
                before.append(self._of_found(k, None, state))
            if not here or (stays and state not in still):
                continue
            if step.target in still:
                if step.target in self.auto.final:
                    complete.append(self._of_new(k, step, state))
            elif self._reads_one_of_several(condition, step):
                after.append(self._of_new(k, step, state))
            else:
                before.append(self._of_found(k, step, state))
        return Told(*(tuple(test for test in tests if test is not None) for tests in (before, after, complete)))

    def _reads_one_of_several(self, condition: Condition, step: Step) -> bool:
        folded = {operand.role for operand in condition.operands if operand.fold}
        return any(
            step.leaves & role.leaves and (n in folded or not role.single) for n, role in enumerate(condition.roles)
        )

    def _carried(self, register: int, step: Step | None, state: int) -> bool:
        if state < 0 or register not in self.may[state]:
            return False
        return step is None or not resets(self.shape, self.registers[register], step)

    def _of_found(self, k: int, step: Step | None, state: int) -> Evaluation | None:
        """The condition on what runs in a state carry, and on the event of a step; None if some event is missing."""
        sources: list[Source] = []
        bound: dict[int, None] = {}
        for n, operand in enumerate(self.conditions[k].operands):
            register, member = self.folded[k, n]
            if step is not None and step.leaves & self.conditions[k].roles[operand.role].leaves:
                sources.append(self._of_event(self.operands[k][n], operand.previous, state))
            elif self._carried(register, step, state):
                sources.append(Source(CARRIED, register, member))
                if not operand.fold:
                    bound[register] = None
            elif operand.fold:
                sources.append(Source(NOTHING))
            else:
                return None
        return Evaluation(k, tuple(sources), tuple(bound))

    def _of_event(self, term: int, previous: bool, state: int) -> Source:
        """Where the value of a term of the event comes from, or of the event before it."""
        if not previous:
            return Source(EVENT, term)
        last = Register(term, Fold.LATEST, frozenset(self.shape.leaf), -1)
        return Source(CARRIED, self.registers.index(last)) if state >= 0 else Source(NOTHING, term)

    def _of_new(self, k: int, step: Step, state: int) -> Evaluation | None:
        """The condition on what the run carries that a step makes; None if some event is missing."""
        sources: list[Source] = []
        bound: dict[int, None] = {}
        for n, operand in enumerate(self.conditions[k].operands):
            register, member = self.folded[k, n]
            reads = bool(step.leaves & self.registers[register].leaves)
            if not operand.fold:
                if not (reads or self._carried(register, step, state)):
                    return None
                bound[register] = None
            sources.append(Source(NEW, register, member))
        return Evaluation(k, tuple(sources), tuple(bound))
