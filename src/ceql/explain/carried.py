"""Says in words what runs carry, and what steps test of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from ceql.analysis.cutting import Condition, Role
from ceql.analysis.equalities import Equality, equalities
from ceql.analysis.lengths import TIME, is_hidden, key_name
from ceql.analysis.normal import to_normal
from ceql.analysis.shape import Shape
from ceql.automata.correlated import Correlated, Transition
from ceql.automata.distinct import MANY
from ceql.automata.registers import Carrying, Evaluation, Fold, Register
from ceql.automata.uses import Use
from ceql.explain.formula import print_normal, print_predicate
from ceql.explain.names import leaf_name, leaf_variable, print_bare, print_of_previous, print_own
from ceql.syntax import tree as t
from ceql.syntax.printer import print_condition, print_expression, print_name
from ceql.syntax.walking import leaves

AGGREGATES = (Fold.SUM, Fold.COUNT, Fold.MIN, Fold.MAX, Fold.FIRST, Fold.LAST)
_WHICH = {Fold.FIRST: "the first", Fold.LAST: "the last", Fold.MIN: "all", Fold.MAX: "any"}  # that have a value
_FOLDS = {
    Fold.GREATEST: "the greatest {} so far",
    Fold.LEAST: "the least {} so far",
    Fold.ONLY: "the only {} so far",
    Fold.MAX: "the greatest {} so far",
    Fold.MIN: "the least {} so far",
}


def print_carried(auto: Correlated, state: int) -> list[str]:
    """What the runs in a state carry."""
    return print_registers(auto, state, auto.carried(state))


def print_registers(auto: Correlated, state: int, registers: Iterable[int]) -> list[str]:
    """These registers, as the runs in a state have them."""
    ahead = unread(auto, [state])
    return list(dict.fromkeys(print_register(auto, number, ahead) for number in registers))


def unread(auto: Correlated, states: Iterable[int]) -> frozenset[int]:
    """The leaves at which no run in any of these states has read an event yet."""
    read = _read(auto)
    return frozenset(auto.shape.leaf).difference(*(read[state] for state in states))


def sources(auto: Correlated, transition: Transition) -> list[int]:
    """The states that a transition goes on from."""
    return [state for link in transition.links for state in auto.indexes[link.where].feeders]


@lru_cache(maxsize=1)
def _read(auto: Correlated) -> list[set[int]]:
    """Of each state, the leaves at which its runs may have read events."""
    found: list[set[int]] = [set() for _ in range(auto.states)]
    grows = True
    while grows:
        grows = False
        for transition in auto.transitions:
            before = [found[state] for state in sources(auto, transition)]
            read = set(auto.marks[transition.mark].leaves).union(*before)
            grows |= not read <= found[transition.target]
            found[transition.target] |= read
    return found


def print_register(auto: Correlated, number: int, but: Collection[int] = ()) -> str:
    """What a register has. One value of several events is named by them, but for those read at the leaves `but`."""
    register, shape = auto.register(number), auto.shape
    if register.fold is Fold.ALIVE:
        return f"the cases of '{shape.claim(register.claim).text}' that have not failed"
    assert auto.carrying is not None
    if register.fold is Fold.LIST:
        return _print_list(auto.carrying, register)
    role = _role(auto.carrying, register)
    if register.absence >= 0:
        name = min(shape.absences[register.absence].names, default="")
    else:
        name = role.name if role is not None else leaf_variable(shape, min(register.leaves))
    if register.fold is Fold.DISTINCT:
        up_to = f", up to {register.enough}" if register.enough < MANY else ""
        return f"every different {_print_term(auto.carrying, *register.terms[0], name)} so far{up_to}"
    if register.fold is Fold.SET:
        values = ", ".join(_print_term(auto.carrying, *term, name) for term in register.terms)
        plain = all(isinstance(auto.carrying.terms[term].what, t.Expression) for term, _ in register.terms)
        return f"every {values} so far" if plain else f"of every {print_name(name)} so far {values}"
    what = auto.carrying.terms[register.term].what
    if isinstance(what, t.Attribute) and what.name == TIME:
        return f"{'START_TIME' if register.fold is Fold.FIRST else 'END_TIME'} so far"
    if isinstance(what, t.Attribute) and is_hidden(what.name):
        return f"the {'time' if what.name == key_name(t.TimeWindow(1)) else 'position'} of its first event"
    if is_last_event(auto, register):
        return f"the last event's {print_bare(what)}" if isinstance(what, t.Expression) else print_of_previous(what)
    equality = equality_of(auto, number)
    if equality is not None:
        named = [(leaf, values[0]) for leaf, values in equality.terms.items() if leaf not in but]
        return " = ".join(dict.fromkeys(print_own(value, leaf_variable(shape, leaf)) for leaf, value in named))
    if role is not None and not role.name:
        node = next(n for n in range(len(shape.nodes)) if shape.below(n) == register.leaves)
        return f"whether {print_normal(to_normal(shape, node))} was read"
    if register.fold in AGGREGATES and register.absence < 0:
        return f"{print_aggregate(register, what, name)} so far"
    return _FOLDS.get(register.fold, "{}").format(_print_term(auto.carrying, register.term, register.previous, name))


def _print_list(carrying: Carrying, register: Register) -> str:
    (condition,) = (c for c in carrying.conditions if c.listed is not None and c.claim.number == register.claim)
    shown = [leaf for leaf in leaves(condition.asked) if not (isinstance(leaf, t.Ref) and is_hidden(leaf.attribute))]
    return f"the list of {', '.join(dict.fromkeys(map(print_expression, shown))) or 'events'} so far"


def print_aggregate(register: Register, what: t.Expression | t.Predicate, name: str) -> str:
    """An aggregate that a register has, as a query would ask for it."""
    match register.fold, what:
        case Fold.COUNT, t.IsNull(operand):
            what = operand
        case Fold.COUNT, _:
            return f"COUNT({print_name(name)})"
        case Fold.SUM, t.Arithmetic("/", operand, t.Literal(1)):  # that of AVG
            what = operand
    if not isinstance(what, t.Expression):
        return f"{print_own(what, name)} for {_WHICH[register.fold]}"
    return f"{register.fold.value}({print_own(what, name)})"


def _print_term(carrying: Carrying, term: int, previous: bool, name: str) -> str:
    what = carrying.terms[term].what
    return f"{print_bare(what)} before {print_name(name)}" if previous else print_own(what, name)


def is_last_event(auto: Correlated, register: Register) -> bool:
    """Whether a register is of the last event, whatever that is: what PREV asks for."""
    return register.scope < 0 and register.leaves == frozenset(auto.shape.leaf) and register.fold is Fold.LATEST


def equality_of(auto: Correlated, number: int) -> Equality | None:
    """The equality whose value a register has."""
    assert auto.carrying is not None
    register = auto.register(number)
    what = auto.carrying.terms[register.term].what if register.term >= 0 else None
    for equality in _equalities(auto.shape):
        first = next(iter(equality.terms.values()))[0]
        if (frozenset(equality.terms), equality.scope, first) == (register.leaves, register.scope, what):
            return equality
    return None


@lru_cache(maxsize=1)
def _equalities(shape: Shape) -> list[Equality]:
    return equalities(shape)


def operand_register(carrying: Carrying, condition: int, operand: int) -> int | None:
    """The register with the value of a condition's operand."""
    return next((n for n, r in enumerate(carrying.registers) if _has(carrying, r, condition, operand)), None)


def _role(carrying: Carrying, register: Register) -> Role | None:
    """The variable whose value a register has."""
    for k, condition in enumerate(carrying.conditions):
        for n, operand in enumerate(condition.operands):
            if _has(carrying, register, k, n):
                return condition.roles[operand.role]
    return None


def _has(carrying: Carrying, register: Register, condition: int, operand: int) -> bool:
    """Whether a register has the values of a condition's operand."""
    found = carrying.conditions[condition].operands[operand]
    role = carrying.conditions[condition].roles[found.role]
    own = carrying.operands[condition][operand], found.previous
    terms = register.terms or ((register.term, register.previous),)
    return (role.leaves, role.scope) == (register.leaves, register.scope) and own in terms


def print_tests(auto: Correlated, transition: Transition) -> list[str]:
    """What a transition tests of the runs that it finds."""
    way = transition.way
    found = [_print_test(auto, test, transition) for test in (*way.tests, *way.after) if not _is_early(auto, test)]
    ending = [f"{_print_test(auto, test, transition)} where a match ends" for test in way.complete]
    return list(dict.fromkeys([*found, *ending]))


def _is_early(auto: Correlated, test: Evaluation) -> bool:
    return test.condition >= 0 and auto.carrying is not None and auto.carrying.conditions[test.condition].early


def _print_test(auto: Correlated, test: Evaluation, transition: Transition) -> str:
    assert auto.carrying is not None
    if test.condition < 0:
        carried, own = test.sources
        but = unread(auto, sources(auto, transition))
        bare = print_bare(auto.carrying.terms[own.number].what)
        return f"{bare} = {print_register(auto, carried.number, but)}"
    condition = auto.carrying.conditions[test.condition]
    return print_asked_condition(condition)


def print_asked_condition(condition: Condition) -> str:
    """A condition as the query has it; of an OR whose cases are decided at different events, all of it."""
    if condition.forward:
        return condition.claim.text
    if condition.denies >= 0:
        return f"NOT ({print_condition(condition.asked)})"
    return f"({condition.claim.text})" if condition.case >= 0 else print_predicate(condition.asked)


def registers_met(auto: Correlated) -> Iterator[tuple[int, list[int]]]:
    """Each index that is not in order, and the registers by which an event tells the groups apart that it meets there.

    Truth values and the cases of an OR are left out: there are few of them. Runs that end at the previous event differ
    only in what came before it.
    """
    carrying = auto.carrying
    if carrying is None:
        return
    for k, index in enumerate(auto.indexes):
        if index.order:
            continue
        met = [r for r in index.registers[index.hashed :] if _has_many_values(carrying, carrying.registers[r])]
        if index.tight:
            older = {
                move.register
                for transition in auto.transitions
                if transition.target in index.feeders
                for move in transition.way.moves
                if carrying.carries_on(move)
            }
            met = [r for r in met if r in older]
        yield k, met


def _has_many_values(carrying: Carrying, register: Register) -> bool:
    if register.fold is Fold.ALIVE:
        return False
    if register.fold is Fold.LIST:
        return True
    terms = [term for term, _ in register.terms] or [register.term]
    return any(carrying.terms[term].use is not Use.TRUTH for term in terms)


def event_of(auto: Correlated, transition: Transition) -> str:
    """What the event of a transition is called; one that serves several parts of the formula has several names."""
    leaves = sorted(auto.marks[transition.mark].leaves)
    return " and ".join(dict.fromkeys(leaf_name(auto.shape, leaf) for leaf in leaves))
