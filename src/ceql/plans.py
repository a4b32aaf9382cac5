"""A plan: all that is compiled of a query before any event is seen, and the loop that is to run it.

`plan.PASSES` makes one of a text. Of conditions about one event each the plan has the automaton `cea`, and with AFTER
MATCH the ordered one beside it; of conditions that compare events the `automaton` over groups. What a plan does not
need is empty in it, so that those who read plans seldom ask for the loop.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from ceql.analysis.fields import dotted_names, misspelt
from ceql.analysis.neighbours import Lag, lags_in
from ceql.analysis.normal import Atom, Normal, normalize, to_normal
from ceql.analysis.scopes import there, variables
from ceql.analysis.selection import Selection, selection
from ceql.analysis.shape import Shape
from ceql.analysis.substreams import counts_events
from ceql.automata.ambiguity import is_ambiguous
from ceql.automata.cea import CEA, NOTHING_READ
from ceql.automata.correlated import NOTHING_COMPARED, Correlated
from ceql.automata.ordered import Ordered
from ceql.automata.shared_values import SharedValue, shared_value
from ceql.automata.straight import Straight, straight
from ceql.automata.strategies.registry import STRATEGIES, Strategy
from ceql.automata.strategies.rivals import Compare
from ceql.syntax import tree as t
from ceql.syntax.absence import trailing
from ceql.syntax.printer import print_query

_MOST_MATCHES = 1 << 60  # no position has more, and the loops can add to it and multiply it

_ASKED = (
    *("dotted", "misspelt", "guards", "compares", "skips_safely", "looks_ahead", "straight", "lags", "columns"),
    *("selection", "rivalry", "limit", "counts_events", "partition", "candidate_reasons"),
    *("types", "pattern", "shared_value"),
)


class Loop(Enum):
    """The loops, by their folders in `engine`."""

    STATES = "states"
    """Determinised states: conditions about one event each (core-vldb2022)."""
    GROUPS = "groups"
    """Groups of runs: conditions that compare events (chain-cea-icdt2020, pcea-hcq-2024)."""
    PREFERRED = "preferred"
    """Ordered lists of runs: AFTER MATCH."""


class CandidateReason(Enum):
    """Why the complete runs of a position are candidates for matches, the gravest reason first."""

    ABSENCES = "for each candidate, the events that NOT keeps away are looked up"
    STRATEGY = "a strategy chooses among all candidates of a position"
    STRICT = "candidates may not be contiguous"
    DUPLICATES = "two runs may give the same match"


@dataclass(frozen=True, eq=False)
class Plan:
    """What is known of a query before its events are."""

    query: t.Query
    source: str
    whole: Shape | None
    """The formula with all its claims on several events; None where it has none."""
    shown_keys: tuple[t.Part, ...]
    """The PARTITION BY clause, unless it names variables."""
    split_by: tuple[t.Part, ...]
    """What the stream is split by though no clause says so: every match has it in common."""
    shape: Shape
    """The formula, with the claims that substreams and neighbours leave."""
    loop: Loop
    cea: CEA = NOTHING_READ
    """The automaton of the loop over states, after projection and STRICT; with AFTER MATCH it has all matches."""
    ordered: Ordered | None = None
    """The automaton of AFTER MATCH, which prefers one of those; its guards begin with those of `cea`."""
    automaton: Correlated = NOTHING_COMPARED
    """The automaton of the loop over groups; with AFTER MATCH, what runs of the ordered one carry and are asked."""
    running: Correlated = NOTHING_COMPARED
    """The same as the engine runs it: without free events, with shared indexes."""

    def worked_out(self) -> Plan:
        """The plan itself; what binding and running it asks is worked out now, not when the first events are read."""
        for name in _ASKED:
            getattr(self, name)
        for automaton in (self.automaton, self.running):
            _ = automaton.reads, automaton.asks_time
        return self

    @cached_property
    def dotted(self) -> tuple[str, ...]:
        """The attributes with a dot in their names, which may be fields of nested ones."""
        return dotted_names(self.query)

    @cached_property
    def types(self) -> frozenset[str]:
        """The types of the events that a match has."""
        return there(self.query.formula)

    @cached_property
    def misspelt(self) -> tuple[tuple[t.Attribute, str], ...]:
        """Fields that may be attributes of variables whose names are misspelt, each with a suggestion."""
        return misspelt(self.query)

    @cached_property
    def guards(self) -> tuple[Atom, ...]:
        """What is asked of single events."""
        if self.ordered is not None:
            return self.ordered.guards
        return self.automaton.guards if self.loop is Loop.GROUPS else self.cea.guards

    @cached_property
    def compares(self) -> bool:
        """Whether conditions compare events that runs have read with others."""
        return self.automaton.states > 0

    @cached_property
    def normal(self) -> Normal:
        """The formula in LP-normal form, without the claims that compare events."""
        return to_normal(self.shape) if self.compares else normalize(self.shape)

    @cached_property
    def skips_safely(self) -> bool:
        """Whether an event that satisfies no guard changes nothing."""
        if self.lags or (self.ordered is not None and not self.ordered.skips_safely):
            return False
        if self.loop is not Loop.GROUPS:
            return self.cea.skips_safely()
        strict = self.query.strategy is t.Strategy.STRICT and bool(self.partition)
        return not self.automaton.is_tight and not strict

    @cached_property
    def looks_ahead(self) -> bool:
        """Whether events may be passed over at which all that begins is given up at the next event."""
        return self.loop is Loop.STATES and self.rivalry is None and self.cea.only_goes_on()

    @cached_property
    def straight(self) -> Straight | None:
        """The steps of a query whose matches are so many events in a row, by the loop that shifts bits.

        At most one match ends at an event then, so that strategies and LIMIT leave all as it is.
        """
        falls = isinstance(self.query.window, t.AttributeWindow)
        if self.loop is not Loop.STATES or falls or self.query.consume is t.Consume.ANY:
            return None
        return straight(self.cea)

    @cached_property
    def lags(self) -> tuple[Lag, ...]:
        """The attributes of events before that guards read."""
        return lags_in(predicate for guard in self.guards for predicate in guard.predicates)

    @cached_property
    def pattern(self) -> tuple[frozenset[str], ...] | None:
        """Of a query on single events: the labels of every match, where all have the same."""
        return self.cea.pattern()

    @cached_property
    def selected(self) -> tuple[str, ...]:
        """The selected variables."""
        return variables(self.query)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The variables whose events are told of each match: those that the result shows, and those of measures."""
        return () if self.query.distinct else self.selected

    @cached_property
    def selection(self) -> Selection:
        """What SELECT shows of a match."""
        return selection(self.query)

    @property
    def projections(self) -> dict[str, tuple[str, ...]]:
        """The attributes to show of a variable's events, for the variables that name some (`SELECT x[a, b]`).

        Under DISTINCT there are no variables, and events are shown whole.
        """
        return dict(self.selection.projections)

    @cached_property
    def strategy(self) -> Strategy | None:
        """The strategy, unless it keeps all matches."""
        return choosing(self.query, self.automaton) if self.loop is Loop.GROUPS else strategy_of(self.query)

    @cached_property
    def rivalry(self) -> Compare | None:
        """How matches compare under NEXT, LAST and MAX."""
        return self.strategy.compare if self.strategy is not None else None

    @cached_property
    def limit(self) -> int:
        """Matches per position, 0 for all. ANY keeps the first, which is one of latest start."""
        return 1 if self.query.strategy is t.Strategy.ANY else min(self.query.limit or 0, _MOST_MATCHES)

    @cached_property
    def waits(self) -> bool:
        """Whether matches may be decided after their last event: by time, or by the end of the input."""
        return bool(trailing(self.query.formula)) or self.query.after_match is not None

    @property
    def after_match(self) -> t.AfterMatch:
        """Where the next start is tried after a match."""
        assert self.query.after_match is not None
        return self.query.after_match

    @property
    def ends_starts(self) -> bool:
        """Whether the runs of later starts give way to those of earlier ones that are in the same state."""
        after = self.query.after_match
        return after is not None and after.skip is t.Skip.PAST_LAST and self.query.window is None

    @property
    def unites_starts(self) -> bool:
        """Whether starts whose runs are alike share them: each has a match of its own, or the oldest in the window
        alone."""
        after = self.query.after_match
        if after is None or self.ordered is None or after.skip not in (t.Skip.PAST_LAST, t.Skip.TO_NEXT):
            return False
        if after.skip is t.Skip.TO_NEXT:
            return True
        # a match that NOT at the end decides has no event to end the others
        return not (self.query.window is None or self.looks_back) and all(wait.leaves for wait in self.ordered.waits)

    @property
    def looks_back(self) -> bool:
        """Whether NOT at the beginning, beside AFTER MATCH, reaches as far back as the window of each match."""
        return self.ordered is not None and self.query.window is not None and any(self.ordered.before)

    @property
    def is_late(self) -> bool:
        """Whether some match is decided at the end of the input alone: a run may wait for a further event for ever."""
        return self.ordered is not None and self.query.window is None and self.ordered.is_patient

    @property
    def late_note(self) -> str | None:
        """What to tell those who wait for the matches of a stream."""
        if not self.is_late:
            return None
        return (
            "AFTER MATCH prefers a further round of a greedy count to a match that is there, and without WITHIN a "
            "further round may come at any time: matches come at the end of the stream alone. Add WITHIN, or write the "
            "count reluctant (+?, *?) or contiguous (:+)"
        )

    @cached_property
    def shared_value(self) -> SharedValue | None:
        """The value that all events of a match share, by which the loop over groups can be divided; None if there is
        none, or if shards could not tell what happens between two of their events."""
        auto = self.automaton
        told_apart = auto.is_tight or auto.ends_runs or self.query.consume is not t.Consume.NONE
        return None if told_apart or self.loop is not Loop.GROUPS else shared_value(auto)

    @cached_property
    def counts_events(self) -> bool:
        """Whether a window counts events, so that those count too that no guard accepts."""
        inside = self.whole is not None and counts_events(self.whole)
        return inside or isinstance(self.query.window, t.EventsWindow)

    @cached_property
    def fingerprint(self) -> str:
        """Tells queries of different meaning apart; spellings that `analysis.one_form` makes one share it."""
        return hashlib.sha256(print_query(self.query).encode()).hexdigest()

    @cached_property
    def state_fingerprint(self) -> str:
        """Tells queries apart whose states differ: not those of which SELECT shows other attributes of the events."""
        items = self.query.items
        bare = None if items is None else tuple(replace(item, attributes=()) for item in items)
        return hashlib.sha256(print_query(replace(self.query, items=bare)).encode()).hexdigest()

    @cached_property
    def partition(self) -> tuple[t.Part, ...]:
        """What substreams are made by; the keys of the clause come first."""
        return self.shown_keys + self.split_by

    @cached_property
    def chooses_at_once(self) -> bool:
        """Whether a strategy under a window is decided by rivals that start where a run does or later.

        They decide if what measures the window never falls, and a match is bound to its first event: of NEXT and LAST,
        the earliest start that is left then has the best match. Of MAX, no set may contain one that starts later, so
        the event at which a match starts must not be part of another that has started before.
        """
        if isinstance(self.query.window, t.AttributeWindow):
            return False
        if not all(start.label and not start.after for start in self.cea.initial):
            return False
        return self.query.strategy is not t.Strategy.MAX or not self.cea.starts_inside()

    @cached_property
    def candidate_reasons(self) -> tuple[CandidateReason, ...]:
        """Why complete runs are candidates, of which matches are made. Without a reason each run is a match."""
        if self.loop is not Loop.GROUPS:
            return ()
        auto, query, selected = self.automaton, self.query, frozenset(self.selected)
        holds = {
            CandidateReason.ABSENCES: bool(auto.absences),
            CandidateReason.STRATEGY: self.rivalry is not None,
            CandidateReason.STRICT: query.strategy is t.Strategy.STRICT and not auto.is_strict,
            CandidateReason.DUPLICATES: is_ambiguous(auto, selected, query.distinct),
        }
        return tuple(reason for reason, does in holds.items() if does)

    @cached_property
    def chooses_on_graph(self) -> bool:
        """Whether NEXT, LAST or MAX chooses among ways through the graph, so that few matches are made and compared.

        Each way must be a match, and matches sequences of events. LAST also relies on the window: a partial match that
        is alive must have a start inside it, as it has unless the window's attribute can fall.
        """
        harmless = {CandidateReason.STRATEGY, CandidateReason.DUPLICATES}
        if self.rivalry is None or not harmless.issuperset(self.candidate_reasons) or not self.automaton.is_chain:
            return False
        if any(link.unlike for transition in self.automaton.transitions for link in transition.links):
            return False
        falls = isinstance(self.query.window, t.AttributeWindow)
        return not (falls and self.query.strategy is t.Strategy.LAST)


def strategy_of(query: t.Query) -> Strategy | None:
    return STRATEGIES.get(query.strategy) if query.strategy is not None else None


def choosing(query: t.Query, automaton: Correlated) -> Strategy | None:
    """The strategy, unless it keeps all matches, as MAX does if all of them have equally many events."""
    if query.strategy is t.Strategy.MAX and automaton.pattern() is not None:
        return None
    return strategy_of(query)
