"""Says how each NOT of a query is decided, and what each `->` does not pass over."""

from __future__ import annotations

from ceql.analysis.shape import Claim, Same, Shape
from ceql.automata.correlated import Correlated
from ceql.explain.carried import event_of, print_register
from ceql.explain.names import listed
from ceql.explain.text import wrapped
from ceql.plans import Loop, Plan
from ceql.syntax.printer import print_condition


def absent_lines(plan: Plan) -> list[str]:
    """A line for each NOT, and each event that a `->` waits for, with the conditions on it, and how that is decided."""
    lines: list[str] = []
    shape = plan.shape
    for number, absence in enumerate(shape.absences):
        asked = [claim for claim in shape.denials if claim.absence == number]
        what = f"{absence.text} takes the first that fits" if absence.is_next else absence.text
        alone = [print_condition(predicate) for predicate in absence.predicates]
        if alone or asked:
            what += f", where {' AND '.join([*alone, *map(_text, asked)])}"
        lines += wrapped(what, "", "    ")
        lines += wrapped(_how(plan, shape, number, bool(asked)), "    ")
    return lines


def _text(claim: Claim) -> str:
    return f"its value is that of {claim.text}" if isinstance(claim.what, Same) else claim.text


def _how(plan: Plan, shape: Shape, number: int, compared: bool) -> str:
    if plan.loop is Loop.PREFERRED and compared:
        known = _remembered(plan.automaton, number)
        return known or "at once: when it comes, it is compared with what each run carries"
    if plan.loop is not Loop.GROUPS:
        return "in the automaton: a state in which it may not come does not skip it"
    auto = plan.automaton
    if all(watched.number != number for watched in auto.absences):
        known = _remembered(auto, number)
        if known is not None:
            return known
        if compared:
            return (
                "at once: when it comes, it is compared with the groups that wait to go over it; those it rules out end"
            )
        return "at once: all runs that wait to go over it end when it comes"
    if shape.trails(number):
        return "after the match: it waits until the window has passed, or a forbidden event comes"
    if shape.leads(number):
        return "for each candidate: forbidden events are looked up before it, as far back as the window reaches"
    return "for each candidate: forbidden events are looked up between its events"


def _remembered(auto: Correlated, number: int) -> str | None:
    """What runs carry of the forbidden events of an absence that is compared with what comes later, and until when."""
    carrying = auto.carrying
    if carrying is None:
        return None
    registers = {n for n, register in enumerate(carrying.registers) if register.absence == number}
    if not registers:
        return None
    what = listed(print_register(auto, register) for register in sorted(registers))
    decided = [
        event_of(auto, transition)
        for transition in auto.transitions
        for test in transition.way.every_test
        if test.condition >= 0 and carrying.conditions[test.condition].denies == number
    ]
    return (
        f"the groups that wait to go over it carry what came, {what}, until {' or '.join(dict.fromkeys(decided))}, "
        "which rules them out or not"
    )
