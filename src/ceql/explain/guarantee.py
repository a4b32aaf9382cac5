"""Which row of docs/reference.md, section 4 a query belongs to, and what it gives up.

In: a plan. Out: the class of the automaton that runs the query, its bounds, and in words all that is not done with
output-linear delay: claims checked on candidates, runs that must be compared with each other, a strategy's choice.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ceql.explain.claims import How, judged, listed
from ceql.plan import CandidateReason, CorrelatedPlan, Plan, UnaryPlan


class Guarantee(NamedTuple):
    name: str
    update: str
    enumeration: str


class Class(Enum):
    """The rows of the table, from the strongest guarantee to the weakest."""

    UNARY = Guarantee("no cross-event predicate", "O(1) in the data", "output-linear delay")
    RIVALS = Guarantee(
        "no cross-event predicate, with NEXT, LAST or MAX", "O(1)", "linear in the window's candidate starts"
    )
    CHAIN = Guarantee("chain (chain-CEA)", "O(1), O(log w) with a window of w events", "output-linear delay")
    PCEA = Guarantee("parallel (PCEA: hierarchical equality joins)", "O(log w)", "output-linear delay")
    CANDIDATES = Guarantee(
        "anything else (checked on candidates)",
        "O(log w) for what is looked up; the rest is checked on each candidate",
        "not bounded",
    )


class Loss(NamedTuple):
    """A reason for which matches do not come straight from the automaton, and what that does to enumeration."""

    why: str
    enumeration: str


def query_class(plan: Plan) -> Class:
    """The class of the query as it is run."""
    if isinstance(plan, UnaryPlan):
        return Class.UNARY if plan.rivalry is None else Class.RIVALS
    if plan.automaton.checks:
        return Class.CANDIDATES
    return Class.CHAIN if plan.automaton.is_chain else Class.PCEA


def guarantee(plan: Plan) -> Guarantee:
    """The bounds of this very query."""
    kind = query_class(plan)
    if isinstance(plan, UnaryPlan):
        return kind.value
    update = "O(log w)" if not plan.automaton.is_chain or plan.query.window is not None else "O(1)"
    if update == "O(log w)":
        update += ", w the events of the window" if plan.query.window is not None else ", w the events so far"
    if kind is Class.CANDIDATES:
        update += ", for what is looked up; the rest is checked on each candidate"
    enumeration = next((loss.enumeration for loss in losses(plan)), kind.value.enumeration)
    return Guarantee(kind.value.name, update, enumeration)


def losses(plan: Plan) -> list[Loss]:
    """Why the runs of a position are gathered before any match is given out, the gravest reason first."""
    return [] if isinstance(plan, UnaryPlan) else [_loss(plan, reason) for reason in plan.candidate_reasons]


def _loss(plan: CorrelatedPlan, reason: CandidateReason) -> Loss:
    gathered = "linear in the matches of a position, which are gathered first"
    match reason:
        case CandidateReason.CHECKS:
            late = listed(f"'{j.text}'" for j in judged(plan) if j.how in (How.NARROWED, How.CHECKED))
            return Loss(
                f"{late}: checked on each candidate, and any number of candidates may fail",
                "not bounded: candidates that fail are looked at too",
            )
        case CandidateReason.STRATEGY:
            assert plan.query.strategy is not None
            name = plan.query.strategy.value
            return Loss(
                f"{name}: chosen among all candidates that end at a position",
                f"not bounded: {name} compares all candidates of a position",
            )
        case CandidateReason.STRICT:
            return Loss(
                "STRICT: checked on each candidate, as the automaton follows events that are not shown, or several "
                "runs at a time",
                "not bounded: candidates that are not contiguous are looked at too",
            )
        case CandidateReason.DUPLICATES:
            return Loss(
                "the automaton is ambiguous: two runs may give the same match, so matches are compared for duplicates",
                "linear in the runs of a position, of which several may be one match",
            )
        case CandidateReason.SHARED:
            return Loss("an event may serve several sides of ALL: it is then shown once, with all its names", gathered)
        case CandidateReason.HIDDEN:
            return Loss("events that are not selected are taken out of each match", gathered)
