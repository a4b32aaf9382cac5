"""Numbers the terms and registers that conditions ask for, each once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ceql.analysis.between import worst
from ceql.analysis.cutting import Condition, Role
from ceql.analysis.equalities import Equality
from ceql.analysis.later import easiest
from ceql.analysis.lengths import TIME
from ceql.analysis.shape import Leaves, Shape
from ceql.automata.distinct import enough
from ceql.automata.registers import Fold, Register
from ceql.automata.uses import Term, Use, uses
from ceql.syntax import tree as t

NO_LEAVES: Leaves = frozenset()


class Registering:
    """What `carrying` knows of terms and registers, which it fills in."""

    shape: Shape
    known: Sequence[Equality]
    conditions: Sequence[Condition]
    asked: int
    """How many conditions there are before those on absent events."""
    every: Leaves
    classes: list[int]
    terms: dict[Term, int]
    compares: dict[tuple[int, int], None]
    registers: dict[Register, int]
    own_terms: dict[Register, tuple[tuple[int, bool], ...]]
    """Of the registers of equalities: the term at each leaf."""
    operands: Sequence[tuple[int, ...]]
    """Of each condition, the terms of its operands."""

    def _is_denial(self, k: int) -> bool:
        """Whether a condition is decided when a forbidden event comes."""
        return k >= self.asked and self.conditions[k].denies < 0

    def _term(self, term: Term) -> int:
        return self.terms.setdefault(term, len(self.terms))

    def _register(self, register: Register) -> int:
        return self.registers.setdefault(register, len(self.registers))

    def _terms_of(self, condition: Condition) -> tuple[int, ...]:
        if condition.listed is not None:
            return (-1,)
        used = uses(condition)
        found = []
        for operand, (use, other) in zip(condition.operands, used, strict=True):
            partner = condition.operands[other].what if other is not None else None
            if use is Use.NUMBER and partner is not None:
                self.compares[self._term(Term(operand.what, use)), self._term(Term(partner, use))] = None
                partner = None
            found.append(self._term(Term(operand.what, use, partner)))
        return tuple(found)

    def _fold(self, condition: Condition, role: Role, k: int, n: int) -> tuple[int, int]:
        operand, term = condition.operands[n], self.operands[k][n]
        if condition.denies >= 0 and operand.role == 0:
            return self._of_forbidden(condition, k, n)
        fold = Fold(operand.fold) if operand.fold else Fold.LATEST
        if condition.listed is not None:
            terms = tuple((self._term(Term(what, Use.LISTED)), False) for what in condition.listed)
            list_of = Register(-1, fold, role.leaves, role.scope, claim=condition.claim.number, terms=terms)
            return self._register(list_of), -1
        if fold is Fold.DISTINCT:
            full = enough(condition, n)
            return self._register(Register(-1, fold, role.leaves, role.scope, terms=((term, False),), enough=full)), -1
        if operand.fold == "LAST" and operand.what == t.Attribute(TIME):
            fold = Fold.LATEST  # which is never NULL
        if not (operand.fold or role.single):
            found = worst(condition, operand.role)
            if found is None:
                mine = [m for m, other in enumerate(condition.operands) if other.role == operand.role]
                terms = tuple((self.operands[k][m], condition.operands[m].previous) for m in mine)
                return self._register(Register(-1, Fold.SET, role.leaves, role.scope, terms=terms)), mine.index(n)
            fold = Fold(found.value)
        return self._register(Register(term, fold, role.leaves, role.scope, operand.previous)), -1

    def _of_forbidden(self, condition: Condition, k: int, n: int) -> tuple[int, int]:
        """The register of what forbidden events are like; an event before the gap begins it anew."""
        absence, left = condition.denies, self.shape.sides(condition.denies)[0]
        fold = easiest(condition)
        if fold is not None:
            return self._register(
                Register(self.operands[k][n], Fold(fold), NO_LEAVES, condition.ends, absence=absence, emptied=left)
            ), -1
        mine = [m for m, operand in enumerate(condition.operands) if operand.role == 0]
        terms = tuple((self.operands[k][m], False) for m in mine)
        register = Register(-1, Fold.SET, NO_LEAVES, condition.ends, terms=terms, absence=absence, emptied=left)
        return self._register(register), mine.index(n)

    def _denied(self, k: int) -> list[tuple[int, int] | None]:
        condition = self.conditions[k]
        found: list[tuple[int, int] | None] = []
        for n, operand in enumerate(condition.operands):
            role = condition.roles[operand.role]
            if operand.previous and not operand.role:
                found.append((self._previous(self.operands[k][n]), -1))
                continue
            shared = self._shared(operand.what, role) if condition.pair is not None and condition.pair[0] == "=" else []
            if not operand.role:
                found.append(None)
            elif shared:
                equality = self.known[self.classes.index(shared[0])]
                own = self._term(Term(operand.what, Use.NUMBER))
                for value in chain.from_iterable(equality.terms.values()):
                    self.compares[own, self._term(Term(value, Use.NUMBER))] = None
                found.append((shared[0], -1))
            else:
                found.append(self._fold(condition, role, k, n))
        return found

    def _shared(self, what: t.Expression | t.Predicate, role: Role) -> list[int]:
        """The register of an equality that a role's value is part of."""
        return [
            register
            for equality, register in zip(self.known, self.classes, strict=True)
            if role.leaves <= equality.terms.keys()
            and equality.scope in self.shape.above(role.scope)
            and any(what in equality.terms[leaf] for leaf in role.leaves)
        ]

    def _previous(self, term: int) -> int:
        """The register of the last event."""
        return self._register(Register(term, Fold.LATEST, self.every, -1))

    def _class(self, equality: Equality) -> int:
        """The register of a value that is the same at all its leaves; its term is that of the leaf.

        Two equalities may begin with the same term and go on with others: then each has a register of its own, which
        its terms tell apart.
        """
        terms = [[self._term(Term(value, Use.NUMBER)) for value in values] for values in equality.terms.values()]
        own = tuple((values[0], False) for values in terms)
        register = Register(own[0][0], Fold.LATEST, frozenset(equality.terms), equality.scope)
        if register in self.registers and self.own_terms.get(register, own[:1] * len(own)) != own:
            register = register._replace(terms=own)
        self.own_terms[register] = own
        return self._register(register)
