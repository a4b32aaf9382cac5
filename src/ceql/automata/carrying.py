"""Works out the registers that partial matches carry, as liveness on the automaton.

A register has a value of the events that a run has read: an operand of its only or latest event at some leaves, the
greatest, least or only value of several, or the set of all of them. It enters when its event is read, and leaves when
the last condition that asks for it is decided. Going round an iteration empties those that belong to the round. Runs
that agree on their state and on all registers that are live there are one group.

In: steps and conditions. Out: for each state the registers that are live, for each step what it tests, what it finds by
hash, and where the registers of its target come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

from ceql.analysis.cutting import Condition
from ceql.analysis.equalities import Equality
from ceql.analysis.listed import listed
from ceql.analysis.shape import Leaves, Shape
from ceql.automata.endings import Gaps, crossed
from ceql.automata.lookups import compared
from ceql.automata.parallel import Parallel, Step
from ceql.automata.registering import Registering
from ceql.automata.registers import (
    CARRIED,
    EVENT,
    MARK,
    NOTHING,
    Carrying,
    Ending,
    Evaluation,
    Fold,
    Move,
    Register,
    Source,
    Way,
    resets,
)
from ceql.automata.uses import Term, Use
from ceql.automata.wholes import Wholes

MOST_SETS = 2  # whose members are combined for one condition
MOST_WORDS = 60  # of these members


def carry(
    shape: Shape,
    auto: Parallel,
    conditions: Sequence[Condition],
    known: Sequence[Equality],
    gaps: Gaps,
    keyed: bool = True,
) -> tuple[Carrying | None, Gaps]:
    """The registers for these conditions and equalities, and for what ends runs.

    None if a step that joins several runs would have to carry something: only a chain can. Conditions that combine too
    many sets are decided on lists. Of the gaps, those are left whose conditions speak of events that every run has read
    by then. With `keyed`, runs are looked up by what their last event has in common with the next.
    """
    while True:
        work = _Work(shape, auto, conditions, known, gaps, keyed)
        work.run()
        wide = {conditions[k].claim.number for k in work.not_folded() if k < len(conditions)}
        if not wide and not work.not_known:
            return (work.result() if work.leaves_joins_alone() else None), gaps
        kept = [condition for condition in conditions if condition.claim.number not in wide]
        conditions = [*kept, *(listed(shape, shape.claim(number)) for number in sorted(wide))]
        gaps = gaps.put_off(shape, work.not_known)


class _Work(Registering):
    def __init__(
        self,
        shape: Shape,
        auto: Parallel,
        conditions: Sequence[Condition],
        known: Sequence[Equality],
        gaps: Gaps,
        keyed: bool,
    ) -> None:
        self.keyed = keyed
        self.shape = shape
        self.auto = auto
        self.known = known
        self.gaps = gaps
        self.asked = len(conditions)  # those after these are on absent events, the last ones on later events, too
        denials = list(chain.from_iterable(gaps.compared.values()))
        self.conditions = [*conditions, *denials, *gaps.later.values()]
        self.not_known: dict[int, list[Condition]] = {}
        """Of absences: the conditions that ask for values that are not known when a forbidden event comes."""
        self.every: Leaves = frozenset(shape.leaf)
        self.terms: dict[Term, int] = {}
        self.compares: dict[tuple[int, int], None] = {}
        self.registers: dict[Register, int] = {}
        self.own_terms: dict[Register, tuple[tuple[int, bool], ...]] = {}
        """Of the registers of equalities: the term at each leaf."""
        self.operands = [self._terms_of(c) for c in self.conditions]
        self.folded: dict[tuple[int, int], tuple[int, int]] = {}
        """Of a condition and an operand: the register that carries it; if that is a set, as which value of a member."""
        for k, condition in enumerate(self.conditions):
            for n, operand in enumerate(condition.operands) if not self._is_denial(k) else ():
                self.folded[k, n] = self._fold(condition, condition.roles[operand.role], k, n)
        self.classes = [self._class(equality) for equality in known]
        self.denied = {k: self._denied(k) for k in range(len(self.conditions)) if self._is_denial(k)}
        """Of a condition on an absent event: the registers of its operands, as in `folded`; None for its own."""
        self.alive = {
            c.claim.number: self._register(Register(-1, Fold.ALIVE, frozenset(), c.claim.node, claim=c.claim.number))
            for c in conditions
            if c.case >= 0
        }
        self.live: list[set[int]] = [set() for _ in auto.last]
        self.asking: dict[int, set[int]] = {leaf: set() for leaf in self.every}
        """The conditions in which an event at a leaf plays a role."""
        self.valued = {c.claim.number: c.roles[1].leaves for c in conditions if c.listed is not None}
        """Of each claim with a list: the leaves whose events' values it has."""
        for k, condition in enumerate(conditions):  # those on absent events are asked of none
            for role in condition.roles if condition.ends < 0 else ():
                for leaf in role.leaves:
                    self.asking[leaf].add(k)

    def resets(self, register: Register, step: Step) -> bool:
        return resets(self.shape, register, step)

    # --- which registers are set ---

    def run(self) -> None:
        for k, condition in enumerate(self.conditions):  # PREV is a register of the last event wherever it is read
            for n, operand in enumerate(condition.operands):
                if operand.previous:
                    self._previous(self.operands[k][n])
        self.numbered = list(self.registers)
        self.set_at = self._set_at()
        self.waits = self._waits()
        self.may = self._forward(any_way=True)
        self.must = self._forward(any_way=False)
        self.endings = {
            (step, state): tuple(self._endings(step, state))
            for step in self.auto.steps
            for state in self._states(step)
            if state >= 0 and len(step.sources) == 1
        }
        self.decided = {
            (step, state): self._decide(step, state) for step in self.auto.steps for state in self._states(step)
        }
        wholes = Wholes(self.shape, self.auto, self.conditions, self.operands, self.folded, self.numbered, self.may)
        self.told = {(step, state): wholes.tell(step, state) for step, state in self.decided}
        self.asks_for_wholes = bool(wholes.open)
        for at, told in self.told.items():
            self.decided[at][1].extend(told.before)
        self._liveness()

    def _states(self, step: Step) -> tuple[int, ...]:
        if not step.sources:
            return (-1,)
        return tuple(state for source in step.sources for state in source.states)

    def _forward(self, any_way: bool) -> list[set[int]]:
        """Of each state, the registers that are set by some run there, or by every run."""
        found: list[set[int] | None] = [None for _ in self.auto.last]
        grows = True
        while grows:
            grows = False
            for step in self.auto.steps:
                before: set[int] = set()
                known = True
                for source in step.sources:
                    sets = [s for s in (found[state] for state in source.states) if s is not None]
                    known &= bool(sets)
                    if sets:
                        before |= set.union(*sets) if any_way else set.intersection(*sets)
                if not known:
                    continue
                if step.loops:
                    before = {r for r in before if not self.resets(self.numbered[r], step)}
                after = before.union(*(self.set_at[leaf] for leaf in step.leaves))
                old = found[step.target]
                if any_way:
                    after = after | self.waits[step.target]
                new = after if old is None else (old | after if any_way else old & after)
                if new != old:
                    found[step.target] = new
                    grows = True
        return [s if s is not None else set() for s in found]

    def _waits(self) -> list[set[int]]:
        """Of each state, the registers of forbidden events that may come while runs wait there."""
        found: list[set[int]] = [set() for _ in self.auto.last]
        of_absence = {register.absence: n for n, register in enumerate(self.numbered) if register.absence >= 0}
        for step in self.auto.steps:
            for state in self._states(step):
                if state >= 0:
                    over = crossed(self.shape, frozenset(of_absence), self.auto.last[state], step)
                    found[state].update(of_absence[absence] for absence in over)
        return found

    def _set_at(self) -> dict[int, set[int]]:
        """The registers that an event at a leaf sets."""
        found: dict[int, set[int]] = {leaf: set() for leaf in self.every}
        for number, register in enumerate(self.numbered):
            for leaf in register.leaves:
                found[leaf].add(number)
        for leaf, asking in self.asking.items():
            for k in asking:
                if self.conditions[k].case >= 0:
                    found[leaf].add(self.alive[self.conditions[k].claim.number])
        return found

    # --- what rules out runs ---

    def _endings(self, step: Step, state: int) -> Iterator[Ending]:
        """What rules out the runs in a state that wait for a step."""
        for absence in crossed(self.shape, frozenset(self.gaps.compared), self.auto.last[state], step):
            hashed: list[tuple[int, int]] = []
            tests: list[Evaluation] = []
            for k, registers in self.denied.items():
                condition = self.conditions[k]
                if condition.claim.absence != absence:
                    continue
                terms = self.operands[k]
                asked = {found[0] for found in registers if found is not None}
                if self.shape.absences[absence].is_next:
                    if not asked <= self.may[state]:
                        continue  # nothing that it speaks of has come
                elif not self.must[state].issuperset(asked):
                    unknown = self.not_known.setdefault(absence, [])
                    unknown += [condition] if condition not in unknown else []
                sources = [
                    Source(EVENT, term) if found is None else Source(CARRIED, *found)
                    for term, found in zip(terms, registers, strict=True)
                ]
                evaluation = Evaluation(k, tuple(sources), tuple(sorted(asked - self.must[state])))
                pair = self._hash(condition, evaluation, self.must[state])
                if pair is not None:
                    self.compares[self.numbered[pair[0]].term, pair[1]] = None
                    hashed.append(pair)
                else:
                    tests.append(evaluation)
            yield Ending(absence, tuple(hashed), tuple(tests), self._told_later(absence))

    def _told_later(self, absence: int) -> Move | None:
        """How runs get to know what a forbidden event is like."""
        for number, register in enumerate(self.numbered):
            if register.absence == absence:
                if register.fold is Fold.SET:
                    return Move(number, True, None, tuple(Source(EVENT, term) for term, _ in register.terms))
                return Move(number, True, Source(EVENT, register.term))
        return None

    # --- what a step decides ---

    def _decide(self, step: Step, state: int) -> tuple[list[tuple[int, int]], list[Evaluation]]:
        """What a step finds by hash and what it tests, of runs in this state."""
        may = self.may[state] if state >= 0 else set()
        must = self.must[state] if state >= 0 else set()
        hashed: dict[tuple[int, int], None] = {}
        tests: list[Evaluation] = []
        for equality, register in zip(self.known, self.classes, strict=True):
            here = sorted(step.leaves & equality.terms.keys())
            if not here or register not in may or self.resets(self.numbered[register], step):
                continue
            at_hand = compared(self.shape, equality, self.auto.last[state], step) is not None
            if self.keyed and at_hand and not self.endings.get((step, state)):
                continue  # the value of the event before
            own = self._term(Term(equality.terms[here[0]][0], Use.NUMBER))
            self.compares[self.numbered[register].term, own] = None
            if register in must:
                hashed[register, own] = None
            else:
                tests.append(Evaluation(-1, (Source(CARRIED, register), Source(EVENT, own)), (register,)))
        for k in sorted(set[int]().union(*(self.asking[leaf] for leaf in step.leaves))):
            condition = self.conditions[k]
            roles = [n for n, role in enumerate(condition.roles) if step.leaves & role.leaves]
            for chosen in _subsets(roles):
                if condition.forward and chosen != (1,):
                    continue
                evaluation = self._evaluation(k, condition, frozenset(chosen), step, state, may)
                if evaluation is None:
                    continue
                pair = self._hash(condition, evaluation, must)
                if pair is not None:
                    hashed[pair] = None
                else:
                    tests.append(evaluation)
        return list(hashed), tests

    def _evaluation(
        self, k: int, condition: Condition, chosen: frozenset[int], step: Step, state: int, may: set[int]
    ) -> Evaluation | None:
        """The condition for the combinations in which the event plays these roles and carried ones play the others."""
        sources: list[Source] = []
        bound: dict[int, None] = {}
        for n, operand in enumerate(condition.operands):
            term = self.operands[k][n]
            if operand.role in chosen:
                if not operand.previous:
                    sources.append(Source(EVENT, term))
                else:
                    sources.append(Source(CARRIED, self._previous(term)) if state >= 0 else Source(NOTHING, term))
                continue
            register, member = self.folded[k, n]
            if register not in may or self.resets(self.numbered[register], step):
                return None
            sources.append(Source(CARRIED, register, member))
            bound[register] = None
        return Evaluation(k, tuple(sources), tuple(bound))

    def _asked_after(self, step: Step, state: int) -> list[int]:
        """The registers of the new run that the step asks for."""
        told = self.told[step, state]
        return sorted({source.number for test in (*told.after, *told.complete) for source in test.sources})

    def _hash(self, condition: Condition, evaluation: Evaluation, must: set[int]) -> tuple[int, int] | None:
        """The register and the term of an equality that a look-up decides."""
        if condition.pair is None or condition.pair[0] != "=" or condition.case >= 0:
            return None
        if not must.issuperset(evaluation.bound):
            return None  # of some runs nothing is asked: the part that the condition stands in is missing
        one, two = (evaluation.sources[k] for k in condition.pair[1:])
        if one.kind == EVENT:
            one, two = two, one
        if one.kind != CARRIED or one.member >= 0 or two.kind != EVENT:
            return None
        return one.number, two.number

    def not_folded(self) -> set[int]:
        """The conditions that ask for the members of more sets at once than the engine combines."""
        found = set()
        for at, (_, tests) in self.decided.items():
            for evaluation in (*tests, *self.told[at].after, *self.told[at].complete):
                sets = {s.number: len(self.numbered[s.number].terms) for s in evaluation.sources if s.member >= 0}
                if len(sets) > MOST_SETS or sum(sets.values()) > MOST_WORDS:
                    found.add(evaluation.condition)
        return found

    def leaves_joins_alone(self) -> bool:
        """Whether steps that join runs neither carry anything nor bring together what conditions compare."""
        for step in self.auto.steps:
            if len(step.sources) < 2:
                continue
            if self.asks_for_wholes or any(self.live[state] for state in self._states(step)):
                return False
            sides = [set().union(*(self.may[state] for state in source.states)) for source in step.sources]
            kept = [{r for r in side if not self.resets(self.numbered[r], step)} for side in sides]
            for equality, register in zip(self.known, self.classes, strict=True):
                if sum(register in side for side in kept) > 1 and not step.leaves & equality.terms.keys():
                    return False
            for k, condition in enumerate(self.conditions[: self.asked]):
                found = [
                    {operand.role for n, operand in enumerate(condition.operands) if self.folded[k, n][0] in side}
                    for side in kept
                ]
                if any(one - two and two for one in found for two in found if one is not two):
                    return False
        return True

    # --- liveness ---

    def _liveness(self) -> None:
        grows = True
        while grows:
            grows = False
            for (step, state), (hashed, tests) in reversed(self.decided.items()):  # what is live is known from the end
                if state < 0:
                    continue
                needed = {register for register, _ in hashed}
                for evaluation in tests:
                    needed |= {s.number for s in evaluation.sources if s.kind == CARRIED}
                    needed |= self._alive_of(evaluation)
                for r in self.live[step.target].union(self._asked_after(step, state)):
                    move = self._move(r, step, state)
                    if move.kept:
                        needed.add(r)
                    needed |= {source.number for source in move.sources if source.kind == CARRIED}
                for ending in self.endings.get((step, state), ()):
                    needed |= ending.asked
                needed &= self.may[state]
                if not needed <= self.live[state]:
                    self.live[state] |= needed
                    grows = True

    def _alive_of(self, evaluation: Evaluation) -> set[int]:
        if evaluation.condition < 0:
            return set()
        condition = self.conditions[evaluation.condition]
        return {self.alive[condition.claim.number]} if condition.case >= 0 else set()

    def _move(self, r: int, step: Step, state: int) -> Move:
        register = self.numbered[r]
        carried = state >= 0 and r in self.may[state] and not self.resets(register, step)
        if register.fold is Fold.ALIVE:
            return Move(r, carried)
        if not step.leaves & register.leaves:
            return Move(r, carried)
        if register.fold is Fold.LIST:
            terms = register.terms if step.leaves & self.valued[register.claim] else ()
            return Move(r, carried, None, (Source(MARK), *(Source(EVENT, term) for term, _ in terms)))
        if register.is_set:
            return Move(r, carried, None, tuple(self._word(term, before, state) for term, before in register.terms))
        folds = register.fold is not Fold.LATEST and carried
        term = register.term if register.previous else self._own_term(r, step)
        return Move(r, folds, self._word(term, register.previous, state))

    def _word(self, term: int, previous: bool, state: int) -> Source:
        """Where the value of a term of the event comes from, or of the event before it."""
        if not previous:
            return Source(EVENT, term)
        return Source(CARRIED, self._previous(term)) if state >= 0 else Source(NOTHING, term)

    def _own_term(self, r: int, step: Step) -> int:
        """The term of a register at this step; that of an equality differs from leaf to leaf."""
        for equality, register in zip(self.known, self.classes, strict=True):
            if register == r:
                leaf = min(step.leaves & equality.terms.keys())
                return self._term(Term(equality.terms[leaf][0], Use.NUMBER))
        return self.numbered[r].term

    # --- the result ---

    def result(self) -> Carrying:
        live = [tuple(sorted(registers)) for registers in self.live]
        ways = {}
        for (step, state), (hashed, tests) in self.decided.items():
            further = [r for r in self._asked_after(step, state) if r not in live[step.target]]
            moves = tuple(self._move(r, step, state) for r in (*live[step.target], *further))
            told = self.told[step, state]
            alive = sorted(set().union(*map(self._alive_of, tests)))
            cases = tuple(r for r in alive if state >= 0 and self._move(r, step, state).kept)
            ways[step, state] = Way(tuple(hashed), tuple(tests), moves, cases, tuple(told.after), tuple(told.complete))
        return Carrying(
            tuple(self.terms),
            tuple(self.compares),
            tuple(self.numbered),
            tuple(live),
            tuple(map(frozenset, self.must)),
            ways,
            tuple(self.conditions),
            tuple(self.operands),
            self.alive,
            {at: endings for at, endings in self.endings.items() if endings},
        )


def _subsets(roles: list[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(roles, size) for size in range(1, len(roles) + 1))
