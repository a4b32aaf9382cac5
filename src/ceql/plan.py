"""From the text of a query to its plan: all that can be compiled before any event is seen.

In: text. Out: a `Plan`, which says what loop is to run it. `PASSES` lists the way from one to the other, and is the
place to begin reading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ceql.analysis.classify import compares_events
from ceql.analysis.counted import with_counts
from ceql.analysis.counts import MOST_STATES, MOST_STATES_COMPARED, check_counts
from ceql.analysis.fields import with_fields
from ceql.analysis.lengths import window_of_all, window_that_decides
from ceql.analysis.measures import check_measures, with_lapses
from ceql.analysis.neighbours import with_lags
from ceql.analysis.normal import Compared, normalize, to_normal
from ceql.analysis.one_form import one_form
from ceql.analysis.preferred import check_preferred
from ceql.analysis.resolve import has_cases, resolve
from ceql.analysis.scopes import check, types, variables
from ceql.analysis.shape import Shape
from ceql.analysis.substreams import is_simple, split_off
from ceql.automata.ambiguity import is_ambiguous
from ceql.automata.beginnings import without_lags_at_first
from ceql.automata.compile import compile_formula
from ceql.automata.compile_correlated import compile_shape
from ceql.automata.correlated import Correlated
from ceql.automata.free_events import with_free_events
from ceql.automata.ordered import compile_ordered
from ceql.automata.preferring import prefer
from ceql.automata.strategies.registry import Strategy
from ceql.automata.unambiguous import make_unambiguous
from ceql.automata.waiting_together import with_shared_indexes
from ceql.plans import Loop, Plan, choosing, strategy_of
from ceql.syntax import tree as t
from ceql.syntax.parser import parse


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

    >>> from ceql.syntax.printer import print_query
    >>> print(print_query(to_tree("select * where A;B").query))
    SELECT *
    WHERE A ; B
    """
    return Draft(with_lapses(window_that_decides(window_of_all(with_fields(parse(text))))), text)


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
    prefers = query.after_match is not None
    if not (compares_events(query, draft.source) or (prefers and has_cases(query.formula, draft.source))):
        shape = resolve(query.formula, draft.source, unary=True)
        if not _looks_up_absences(shape, query):
            check_counts(shape, MOST_STATES)
            return replace(draft, shape=shape)
    by_variable = query.partition and not draft.shown_keys
    formula = t.PartitionBy(query.formula, query.partition, span=query.span) if by_variable else query.formula
    whole = resolve(formula, draft.source, False, prefers).at_leaves().without(draft.dropped)
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

    >>> make_plan("SELECT * WHERE A ; B").loop.name
    'STATES'
    >>> make_plan("SELECT * WHERE A AS x ; B AS y FILTER x.k = y.k").loop.name
    'GROUPS'
    >>> make_plan("SELECT NEXT * WHERE A AS x ; B AS y FILTER x.k = y.k").loop.name
    'STATES'
    """
    automaton = draft.automaton
    if automaton is None or not (_is_simple(draft) and draft.split_by):
        return draft
    either = not (draft.unsure or not automaton.is_chain or _compares(strategy_of(draft.query)))
    return draft if either else replace(draft, automaton=None)


def leave_free_events(draft: Draft) -> Draft:
    """Let free events carry no runs, if a window says how long they are kept, and no strategy compares matches on the
    graph, which has no steps between such events and others."""
    automaton, query = draft.automaton, draft.query
    if automaton is None:
        return draft
    kept = isinstance(query.window, t.EventsWindow | t.TimeWindow) and not _compares(choosing(query, automaton))
    return replace(draft, running=with_free_events(automaton) if kept else automaton)


def share_indexes(draft: Draft) -> Draft:
    """Let runs of different states that wait for the same share an index."""
    return draft if draft.running is None else replace(draft, running=with_shared_indexes(draft.running))


def to_plan(draft: Draft) -> Plan:
    """Make a plan of all that is known; the automaton of the loop over states is compiled here."""
    query, shape, automaton = draft.query, draft.shape, draft.automaton
    assert shape is not None
    plan = partial(Plan, query, draft.source, draft.whole, draft.shown_keys, draft.split_by, shape)
    if automaton is not None:
        assert draft.running is not None
        return plan(Loop.GROUPS, automaton=automaton, running=draft.running)
    if query.after_match is not None:
        return _preferred(draft)
    cea = without_lags_at_first(compile_formula(normalize(shape), variables(query)))
    strategy = strategy_of(query)
    if strategy is not None and strategy.restrict is not None:
        cea = strategy.restrict(cea)
    return plan(Loop.STATES, cea)


def _preferred(draft: Draft) -> Plan:
    """The plan of a query with AFTER MATCH."""
    query, shape = draft.query, draft.shape
    assert shape is not None
    compares = bool(shape.denials) or not (draft.whole is None or draft.single)
    shape = shape.at_leaves() if compares else shape
    plan = partial(Plan, query, draft.source, draft.whole, draft.shown_keys, draft.split_by, shape, Loop.PREFERRED)
    normal = to_normal(shape, compared=Compared.LEFT_OUT) if compares else normalize(shape)
    cea = without_lags_at_first(compile_formula(normal, variables(query)))
    if not (shape.denials or (compares and shape.claims)):
        leads = query.window is not None and any(map(shape.leads, range(len(shape.absences))))
        ordered = compile_ordered(normal, cea.guards, refusing=leads)
        check_preferred(shape, query, ordered.before, (), draft.source)
        return plan(cea, ordered)
    ordered, comparing, left = prefer(shape, cea.guards)
    check_preferred(shape, query, ordered.before, left, draft.source)
    return plan(cea, ordered, comparing, comparing)


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
    looks_back = any(map(shape.leads, numbers)) and (query.window is not None or _compares(strategy_of(query)))
    return bool(shape.denials) or any(map(shape.trails, numbers)) or looks_back


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
    Plan.worked_out,  # what binding and running a plan asks is known before events come (plans.py)
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
