"""From the text of a query to its plan: all that can be compiled before any event is seen.

In: text. Out: a `UnaryPlan`, whose conditions are about one event each and which the loop over states runs
(core-vldb2022), or a `CorrelatedPlan`, which compares events and which the loop over groups runs (chain-cea-icdt2020,
pcea-hcq-2024). `PASSES` lists the way from one to the other, and is the place to begin reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

from ceql.analysis.classify import compares_events
from ceql.analysis.counted import with_counts
from ceql.analysis.counts import MOST_STATES, MOST_STATES_COMPARED, check_counts
from ceql.analysis.fields import dotted_names, misspelt, with_fields
from ceql.analysis.lengths import window_of_all
from ceql.analysis.measures import check_measures, with_lapses
from ceql.analysis.neighbours import Lag, lags_in, with_lags
from ceql.analysis.normal import Atom, Normal, normalize, to_normal
from ceql.analysis.one_form import one_form
from ceql.analysis.preferred import check_preferred
from ceql.analysis.resolve import resolve
from ceql.analysis.scopes import check, types, variables
from ceql.analysis.selection import Selection, selection
from ceql.analysis.shape import Shape
from ceql.analysis.substreams import counts_events, is_simple, split_off
from ceql.automata.ambiguity import is_ambiguous
from ceql.automata.beginnings import without_lags_at_first
from ceql.automata.cea import CEA
from ceql.automata.compile import compile_formula
from ceql.automata.compile_correlated import compile_shape
from ceql.automata.correlated import Correlated
from ceql.automata.free_events import with_free_events
from ceql.automata.ordered import Ordered, compile_ordered
from ceql.automata.strategies.registry import STRATEGIES, Strategy
from ceql.automata.strategies.rivals import Compare
from ceql.automata.unambiguous import make_unambiguous
from ceql.automata.waiting_together import with_shared_indexes
from ceql.syntax import tree as t
from ceql.syntax.absence import trailing
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query

_MOST_MATCHES = 1 << 60  # no position has more, and the loops can add to it and multiply it


@dataclass(frozen=True, eq=False)
class _BasePlan:
    """What both kinds of plan have."""

    query: t.Query
    source: str
    whole: Shape | None
    """The formula with all its claims on several events; None where it has none."""
    shown_keys: tuple[t.Part, ...]
    """The PARTITION BY clause, unless it names variables."""
    split_by: tuple[t.Part, ...]
    """What the stream is split by though no clause says so: every match has it in common."""

    @cached_property
    def dotted(self) -> tuple[str, ...]:
        """The attributes with a dot in their names, which may be fields of nested ones."""
        return dotted_names(self.query)

    @cached_property
    def misspelt(self) -> tuple[tuple[t.Attribute, str], ...]:
        """Fields that may be attributes of variables whose names are misspelt, each with a suggestion."""
        return misspelt(self.query)

    @property
    def guards(self) -> tuple[Atom, ...]:
        """What is asked of single events."""
        raise NotImplementedError

    @property
    def looks_ahead(self) -> bool:
        """Whether events may be passed over at which all that begins is given up at the next event."""
        return False

    @cached_property
    def lags(self) -> tuple[Lag, ...]:
        """The attributes of events before that guards read."""
        return lags_in(predicate for guard in self.guards for predicate in guard.predicates)

    @property
    def selected(self) -> tuple[str, ...]:
        """The selected variables."""
        return variables(self.query)

    @property
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

    @property
    def strategy(self) -> Strategy | None:
        """The strategy, unless it keeps all matches."""
        return _strategy(self.query)

    @property
    def rivalry(self) -> Compare | None:
        """How matches compare under NEXT, LAST and MAX."""
        return self.strategy.compare if self.strategy is not None else None

    @property
    def limit(self) -> int:
        """Matches per position, 0 for all. ANY keeps the first, which is one of latest start."""
        return 1 if self.query.strategy is t.Strategy.ANY else min(self.query.limit or 0, _MOST_MATCHES)

    @property
    def waits(self) -> bool:
        """Whether matches may be decided after their last event: by time, or by the end of the input."""
        return bool(trailing(self.query.formula)) or self.query.after_match is not None

    @property
    def late_note(self) -> str | None:
        """What to tell those who wait for the matches of a stream."""
        return None

    @property
    def counts_events(self) -> bool:
        """Whether a window counts events, so that those count too that no guard accepts."""
        inside = self.whole is not None and counts_events(self.whole)
        return inside or isinstance(self.query.window, t.EventsWindow)

    @cached_property
    def fingerprint(self) -> str:
        """Tells queries of different meaning apart; spellings that `analysis.one_form` makes one share it."""
        return hashlib.sha256(print_query(self.query).encode()).hexdigest()

    @property
    def partition(self) -> tuple[t.Part, ...]:
        """What substreams are made by; the keys of the clause come first."""
        return self.shown_keys + self.split_by


@dataclass(frozen=True, eq=False)
class UnaryPlan(_BasePlan):
    """A query whose automaton looks at one event at a time."""

    normal: Normal
    """The formula in LP-normal form."""
    cea: CEA
    """The automaton, after projection and STRICT."""

    @property
    def guards(self) -> tuple[Atom, ...]:
        """What is asked of single events."""
        return self.cea.guards

    @property
    def skips_safely(self) -> bool:
        """Whether an event that satisfies no guard changes nothing."""
        return not self.lags and self.cea.skips_safely()

    @cached_property
    def looks_ahead(self) -> bool:
        return self.rivalry is None and self.cea.only_goes_on()

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


@dataclass(frozen=True, eq=False)
class PreferredPlan(UnaryPlan):
    """A query with AFTER MATCH, whose `cea` has all matches of the formula, of which `ordered` prefers one."""

    ordered: Ordered

    @property
    def after_match(self) -> t.AfterMatch:
        """Where the next start is tried after a match."""
        assert self.query.after_match is not None
        return self.query.after_match

    @property
    def guards(self) -> tuple[Atom, ...]:
        """What is asked of single events; those of `cea` come first."""
        return self.ordered.guards

    @property
    def skips_safely(self) -> bool:
        """Whether an event that satisfies no guard changes nothing."""
        return super().skips_safely and self.ordered.skips_safely

    @property
    def looks_ahead(self) -> bool:
        """Whether events may be passed over at which all that begins is given up: not those that may decide a match."""
        return False

    @property
    def ends_starts(self) -> bool:
        """Whether the runs of later starts give way to those of earlier ones that are in the same state."""
        return self.after_match.skip is t.Skip.PAST_LAST and self.query.window is None

    @property
    def is_late(self) -> bool:
        """Whether some match is decided at the end of the input alone: a run may wait for a further event for ever."""
        return self.query.window is None and self.ordered.is_patient

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


class CandidateReason(Enum):
    """Why the complete runs of a position are candidates for matches, the gravest reason first."""

    CHECKS = "some conditions are checked on each candidate"
    ABSENCES = "for each candidate, the events that NOT keeps away are looked up"
    STRATEGY = "a strategy chooses among all candidates of a position"
    STRICT = "candidates may not be contiguous"
    DUPLICATES = "two runs may give the same match"


@dataclass(frozen=True, eq=False)
class CorrelatedPlan(_BasePlan):
    """A query whose automaton looks up runs by what their events have in common."""

    shape: Shape
    """The formula, with the claims that substreams leave."""
    automaton: Correlated
    running: Correlated
    """The automaton as the engine runs it: without free events, with shared indexes."""

    @cached_property
    def strategy(self) -> Strategy | None:
        """The strategy, unless it keeps all matches."""
        return _choosing(self.query, self.automaton)

    @property
    def guards(self) -> tuple[Atom, ...]:
        """What is asked of single events."""
        return self.automaton.guards

    @property
    def skips_safely(self) -> bool:
        """Whether an event that satisfies no guard changes nothing."""
        strict = self.query.strategy is t.Strategy.STRICT and bool(self.partition)
        return not self.automaton.is_tight and not strict and not self.lags

    @cached_property
    def candidate_reasons(self) -> tuple[CandidateReason, ...]:
        """Why complete runs are candidates, of which matches are made. Without a reason each run is a match."""
        auto, query, selected = self.automaton, self.query, frozenset(self.selected)
        holds = {
            CandidateReason.CHECKS: bool(auto.checks),
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


Plan = UnaryPlan | PreferredPlan | CorrelatedPlan


@dataclass(frozen=True, eq=False)
class Draft:
    """What the passes know so far of a plan."""

    query: t.Query
    source: str
    dropped: frozenset[int] = frozenset()
    """The numbers of claims that are not asked."""
    prefers_unary: bool = False
    """Whether a query without claims is unary in any case."""
    shown_keys: tuple[t.Part, ...] = ()
    split_by: tuple[t.Part, ...] = ()
    formula: t.Formula | None = None
    """The formula of the query, as the passes have rewritten it."""
    whole: Shape | None = None
    shape: Shape | None = None
    single: bool = False
    """Whether claims on neighbours are guards, and none is left on several events."""
    automaton: Correlated | None = None
    """Of the loop over groups; None if the loop over states runs the query."""
    unsure: bool = False
    """Whether two runs of the automaton may be the same match."""
    running: Correlated | None = None


def to_tree(text: str) -> Draft:
    """Parse, tell the fields of nested attributes from the attributes of variables, and make a window on the whole
    formula the clause.

    >>> print(print_query(to_tree("select * where A;B").query))
    SELECT *
    WHERE A ; B
    """
    return Draft(with_lapses(window_of_all(with_fields(parse(text)))), text)


def check_names(draft: Draft) -> Draft:
    """Refuse names that nothing binds.

    >>> check_names(to_tree("SELECT x WHERE A"))
    Traceback (most recent call last):
    ceql.errors.QueryError: nothing in WHERE binds 'x' (line 1, column 8)
    ...
    """
    check(draft.query, draft.source)
    check_measures(draft.query, draft.source)
    return draft


def to_one_form(draft: Draft) -> Draft:
    """Bring conditions that mean the same to one form, so that plans and states do not depend on spellings.

    >>> to_one_form(to_tree("SELECT * WHERE A FILTER 5.0 > A.v")).query.formula.condition
    Comparison(op='<', left=Ref(variable='A', attribute='v'), right=Literal(value=5))
    """
    return replace(draft, query=one_form(draft.query))


def read_clause(draft: Draft) -> Draft:
    """Tell a PARTITION BY clause that makes substreams from one that stands for the operator on the whole formula.

    >>> read_clause(to_tree("SELECT * WHERE A ; B PARTITION BY k")).shown_keys
    (Part(refs=(PartRef(attribute='k', name=None),)),)
    >>> read_clause(to_tree("SELECT * WHERE A AS x ; B AS y PARTITION BY [x.k, y.k]")).shown_keys
    ()
    """
    kinds = types(draft.query.formula)
    names = {ref.name for part in draft.query.partition for ref in part.refs if ref.name is not None}
    return draft if names - kinds else replace(draft, shown_keys=draft.query.partition)


def count_rounds(draft: Draft) -> Draft:
    """Write conditions on COUNT as counts of the formula, where they are such.

    >>> from ceql.syntax.printer import print_formula
    >>> print_formula(count_rounds(to_tree("SELECT * WHERE A+ AS x FILTER COUNT(x) >= 3")).formula)
    'A{3,} AS x'
    """
    return replace(draft, formula=with_counts(draft.query.formula))


def find_claims(draft: Draft) -> Draft:
    """Bring the formula to its shape: operators over leaves, and claims, those on several events apart from the others.

    >>> draft = find_claims(count_rounds(to_tree("SELECT * WHERE A AS x ; B AS y FILTER x.v < y.v AND x.v < 3")))
    >>> [claim.text for claim in draft.whole.claims], draft.whole.leaf[0].predicates
    (['x.v < y.v'], (Comparison(op='<', left=Attribute(name='v'), right=Literal(value=3)),))
    >>> find_claims(count_rounds(to_tree("SELECT * WHERE A AS x ; B FILTER x.v < 3"))).whole is None
    True
    """
    assert draft.formula is not None
    query = replace(draft.query, formula=draft.formula)
    if not compares_events(query, draft.source):
        shape = resolve(query.formula, draft.source, unary=True)
        if not _looks_up_absences(shape, query):
            check_counts(shape, MOST_STATES)
            return replace(draft, shape=shape)
    by_variable = query.partition and not draft.shown_keys
    formula = t.PartitionBy(query.formula, query.partition, span=query.span) if by_variable else query.formula
    whole = resolve(formula, draft.source, unary=False).at_leaves().without(draft.dropped)
    check_counts(whole, MOST_STATES_COMPARED)
    return replace(draft, whole=whole, shape=whole)


def compare_neighbours(draft: Draft) -> Draft:
    """Make claims on events that are always as many steps apart conditions on the last of them.

    >>> text = "SELECT * WHERE A AS x : B AS y FILTER x.v < y.v"
    >>> draft = compare_neighbours(find_claims(count_rounds(to_tree(text))))
    >>> draft.single, len(draft.whole.claims)
    (True, 1)
    """
    if draft.whole is None:
        return draft
    shape, single = with_lags(draft.whole, _runs_on_states(draft.whole, draft.query))
    return replace(draft, shape=shape, single=single)


def split_stream(draft: Draft) -> Draft:
    """Make substreams of what every match has in common, where that changes nothing else.

    >>> draft = split_stream(find_claims(count_rounds(to_tree("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k"))))
    >>> draft.split_by, draft.shape.claims
    ((Part(refs=(PartRef(attribute='k', name=None),)),), ())
    """
    if draft.shape is None or draft.whole is None:
        return draft
    split_by, shape = split_off(draft.shape, draft.query)
    return replace(draft, split_by=split_by, shape=shape)


def compile_runs(draft: Draft) -> Draft:
    """Make the automaton of the loop over groups: what its steps look up, what its runs carry, and what they test.

    >>> draft = compile_runs(find_claims(count_rounds(to_tree("SELECT * WHERE A AS x ; B AS y FILTER x.v < y.v"))))
    >>> draft.automaton.states, compile_runs(find_claims(count_rounds(to_tree("SELECT * WHERE A")))).automaton
    (2, None)
    """
    shape, query = draft.shape, draft.query
    assert shape is not None
    if draft.whole is None or draft.single or query.after_match is not None:
        return draft
    if _is_simple(draft) and (draft.prefers_unary or shape.absences):
        return draft
    strict = frozenset(variables(query)) if query.strategy is t.Strategy.STRICT else None
    return replace(draft, automaton=compile_shape(shape, strict))


def tell_runs_apart(draft: Draft) -> Draft:
    """Determinise an automaton of which two runs may be one match, where that is possible."""
    automaton, selected = draft.automaton, frozenset(variables(draft.query))
    if automaton is None or not is_ambiguous(automaton, selected, draft.query.distinct):
        return draft
    automaton = make_unambiguous(automaton, selected, draft.query.distinct) or automaton
    return replace(draft, automaton=automaton, unsure=not automaton.is_deterministic)


def choose_loop(draft: Draft) -> Draft:
    """Choose the loop that is to run the query.

    Where substreams settle all claims either loop could. The loop over groups is faster on many substreams; the loop
    over states can tell equal matches apart and follows rivals as they come.

    >>> type(make_plan("SELECT * WHERE A ; B")).__name__
    'UnaryPlan'
    >>> type(make_plan("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k")).__name__
    'CorrelatedPlan'
    >>> type(make_plan("SELECT NEXT * WHERE A AS x ; B AS y FILTER x.k = y.k")).__name__
    'UnaryPlan'
    """
    automaton = draft.automaton
    if automaton is None or not (_is_simple(draft) and draft.split_by):
        return draft
    either = not (draft.unsure or not automaton.is_chain or _compares(_strategy(draft.query)))
    return draft if either else replace(draft, automaton=None)


def leave_free_events(draft: Draft) -> Draft:
    """Let free events carry no runs, if a window says how long they are kept, and no strategy compares matches on the
    graph, which has no steps between such events and others."""
    automaton, query = draft.automaton, draft.query
    if automaton is None:
        return draft
    kept = isinstance(query.window, t.EventsWindow | t.TimeWindow) and not _compares(_choosing(query, automaton))
    return replace(draft, running=with_free_events(automaton) if kept else automaton)


def share_indexes(draft: Draft) -> Draft:
    """Let runs of different states that wait for the same share an index."""
    return draft if draft.running is None else replace(draft, running=with_shared_indexes(draft.running))


def to_plan(draft: Draft) -> Plan:
    """Make a plan of all that is known; the automaton of the loop over states is compiled here."""
    query, shape, automaton = draft.query, draft.shape, draft.automaton
    assert shape is not None
    common = (query, draft.source, draft.whole, draft.shown_keys, draft.split_by)
    if automaton is not None:
        assert draft.running is not None
        return CorrelatedPlan(*common, shape, automaton, draft.running)
    if query.after_match is not None:
        check_preferred(shape, query, draft.source)
    normal = normalize(shape) if draft.whole is None or draft.single else to_normal(shape)
    cea = without_lags_at_first(compile_formula(normal, variables(query)))
    if query.after_match is not None:
        return PreferredPlan(*common, normal, cea, compile_ordered(normal, cea.guards))
    strategy = _strategy(query)
    if strategy is not None and strategy.restrict is not None:
        cea = strategy.restrict(cea)
    return UnaryPlan(*common, normal, cea)


def _is_simple(draft: Draft) -> bool:
    """Whether the loop over states could run the query."""
    assert draft.shape is not None
    return is_simple(draft.shape) and not _looks_up_absences(draft.shape, draft.query)


def _runs_on_states(shape: Shape, query: t.Query) -> bool:
    """Whether the loop over states could run the query, if its claims were on single events."""
    return is_simple(shape.without({claim.number for claim in shape.claims})) and not _looks_up_absences(shape, query)


def _looks_up_absences(shape: Shape, query: t.Query) -> bool:
    """Whether NOT cannot be decided by the states of an automaton.

    That is so if it stands at the end, or compares the absent event with others. It is also so if it looks back from
    the first event of a match, and a window says how far, which moves with the last event, or a strategy compares
    matches by their starts.
    """
    numbers = range(len(shape.absences))
    looks_back = any(map(shape.leads, numbers)) and (query.window is not None or _compares(_strategy(query)))
    return bool(shape.denials) or any(map(shape.trails, numbers)) or looks_back


def _strategy(query: t.Query) -> Strategy | None:
    return STRATEGIES.get(query.strategy) if query.strategy is not None else None


def _choosing(query: t.Query, automaton: Correlated) -> Strategy | None:
    """The strategy, unless it keeps all matches, as MAX does if all of them have equally many events."""
    if query.strategy is t.Strategy.MAX and automaton.pattern() is not None:
        return None
    return _strategy(query)


def _compares(strategy: Strategy | None) -> bool:
    """Whether a strategy compares matches with each other."""
    return strategy is not None and strategy.compare is not None


PASSES: tuple[Callable[[Any], Any], ...] = (
    to_tree,  # text becomes a tree (syntax/)
    check_names,  # every name is bound (analysis/scopes.py)
    to_one_form,  # spellings of one meaning become one (analysis/one_form.py)
    read_clause,  # PARTITION BY: substreams, or the operator
    count_rounds,  # conditions on COUNT become counts (analysis/counted.py)
    find_claims,  # unary or correlated; the tree becomes a shape with claims (analysis/resolve.py)
    compare_neighbours,  # claims on events that `:` joins become conditions on one (analysis/neighbours.py)
    split_stream,  # claims that every match shares become substreams (analysis/substreams.py)
    compile_runs,  # the shape becomes an automaton over groups (automata/compile_correlated.py, automata/carrying.py)
    tell_runs_apart,  # no match has two runs (automata/ambiguity.py, automata/unambiguous.py)
    choose_loop,  # groups or states
    leave_free_events,  # events that nobody asks for carry no runs (automata/free_events.py)
    share_indexes,  # runs that wait for the same wait together (automata/waiting_together.py)
    to_plan,  # the draft becomes a plan; of the loop over states, with its automaton (automata/compile.py)
)


def make_plan(text: str) -> Plan:
    """The plan of a query; `QueryError` says what is wrong and where."""
    return _pass(text, PASSES)


def plan_query(query: t.Query, source: str, dropped: frozenset[int] = frozenset(), prefers_unary: bool = False) -> Plan:
    """The plan of a query that is parsed and checked, without some of its claims."""
    return _pass(Draft(query, source, dropped, prefers_unary), PASSES[2:])


def _pass(given: str | Draft, passes: tuple[Callable[[Any], Any], ...]) -> Plan:
    known: Any = given
    for rewrite in passes:
        known = rewrite(known)
    plan: Plan = known
    return plan
