"""Rules: what they say as queries, what their errors say, and that both oracles find the same matches."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceql
import oracle
from ceql.syntax import parse_query, print_query
from ceql.syntax.rules import parse_rule
from ceql.syntax.tree import (
    All,
    As,
    AttributeWindow,
    Comparison,
    Conj,
    Consume,
    Event,
    EventsWindow,
    Filter,
    Literal,
    Ref,
    SelectItem,
    Strategy,
    TimeWindow,
)
from rule_oracle import ANY, Atom, Const, Rule, RuleCase, Var, Window, by_atom, homomorphisms, rule_cases

SCHEMA = {"T": ["a"], "S": ["a", "b"], "R": ["a", "b"], "U": ["a", "b", "c"], "E": []}
T, S, R, U, E = map(Event, "TSRUE")


def equal(left, right):
    def side(value):
        if not isinstance(value, str):
            return value
        variable, attribute = value.split(".")
        return Ref(variable, attribute)

    return Comparison("=", side(left), side(right))


def filtered(formula, *conditions):
    return Filter(formula, conditions[0] if len(conditions) == 1 else Conj(conditions))


# --- reading ---

BODIES = [
    ("T(x)", T),
    ("E()", E),
    ("T(x), S(y, z)", All((T, S))),
    ("T(_), S(_, _)", All((T, S))),
    ("T(x), S(x, y)", filtered(All((T, S)), equal("T.a", "S.a"))),
    ("T(x), S(x, _)", filtered(All((T, S)), equal("T.a", "S.a"))),
    (
        "T(x), S(x, y), R(x, y)",
        filtered(All((T, S, R)), equal("T.a", "S.a"), equal("T.a", "R.a"), equal("S.b", "R.b")),
    ),
    ("T(x), T(x)", filtered(All((As(T, "T_1"), As(T, "T_2"))), equal("T_1.a", "T_2.a"))),
    (
        "T(x), R(x, y), S(2, y), T(x)",
        filtered(
            All((As(T, "T_1"), R, S, As(T, "T_2"))),
            equal("T_1.a", "R.a"),
            equal("S.a", Literal(2)),
            equal("R.b", "S.b"),
            equal("T_1.a", "T_2.a"),
        ),
    ),
    ("S(x, x)", filtered(S, equal("S.a", "S.b"))),
    ("U(x, x, x)", filtered(U, equal("U.a", "U.b"), equal("U.a", "U.c"))),
    ("T(x), U(y, x, x)", filtered(All((T, U)), equal("T.a", "U.b"), equal("U.b", "U.c"))),
    (
        "U(1, -2.50, 'it''s')",
        filtered(U, equal("U.a", Literal(1)), equal("U.b", Literal(Decimal("-2.50"))), equal("U.c", Literal("it's"))),
    ),
    (
        'U(TRUE, false, "x")',
        filtered(U, equal("U.a", Literal(True)), equal("U.b", Literal(False)), equal("U.c", Literal("x"))),
    ),
]


@pytest.mark.parametrize(("body", "formula"), BODIES)
def test_a_body_is_all_of_its_atoms(body, formula):
    query = parse_rule(f"Q() <- {body}", SCHEMA)
    assert query.formula == formula
    assert parse_query(print_query(query)) == query


@pytest.mark.parametrize(
    "text",
    [
        "Q(x)<-T(x),S(x,y)",
        "Q(x) :- T(x), S(x, y).",
        "  Answer(x, y, x) <-\n  T(x), -- a comment, with 'quotes and (\n  S(x, y)\n.  -- the end",
        "`Q`(`x`) <- `T`(x), S(`x`, `the other`)",
        "select(null2) <- T(null2), S(null2, `null`)",
    ],
)
def test_how_a_rule_may_be_written(text):
    assert parse_rule(text, SCHEMA) == parse_rule("Q() <- T(x), S(x, _)", SCHEMA)


def test_the_selection_is_the_atoms_in_order():
    query = parse_rule("Q(y) <- S(x, y), T(x), S(y, _)", SCHEMA)
    assert query.items == tuple(map(SelectItem, ["S_1", "T", "S_2"]))


@pytest.mark.parametrize(
    ("relations", "names"),
    [
        (["T", "T_1", "T"], ["T_1_", "T_1", "T_2"]),
        (["T_1", "T", "T_1", "T"], ["T_1_1", "T_1_", "T_1_2", "T_2"]),
        (["T", "T", "T_1", "T_1_"], ["T_1__", "T_2", "T_1", "T_1_"]),
    ],
)
def test_the_atoms_names_are_nobody_elses(relations, names):
    query = parse_rule(f"Q() <- {', '.join(r + '()' for r in relations)}", {name: [] for name in relations})
    assert [item.name for item in query.items] == names


def test_names_that_need_backquotes():
    query = ceql.rule("Q(x) <- `order id`(x, 1), select(x)", attributes={"order id": ["by", "b`c"], "select": ["all"]})
    assert query.text == (
        "SELECT `order id`, `select`\n"
        "WHERE `order id` ALL `select`\n"
        "  FILTER `order id`.`b``c` = 1 AND `order id`.`by` = `select`.`all`"
    )


def test_options_are_the_clauses():
    query = parse_rule(
        "Q() <- T(_)", SCHEMA, within="1 minute 30 seconds", distinct=True, strategy="max", consume_by="any", limit=3
    )
    assert query.window == TimeWindow(90 * 10**9)
    assert (query.distinct, query.strategy, query.consume, query.limit) == (True, Strategy.MAX, Consume.ANY, 3)
    assert parse_query(print_query(query)) == query


@pytest.mark.parametrize(
    ("within", "window"), [("100 events", EventsWindow(100)), ("5 [`a b`]", AttributeWindow(5, "a b"))]
)
def test_windows(within, window):
    assert parse_rule("Q() <- T(_)", SCHEMA, within=within).window == window


def test_the_query_is_the_rule_as_ceql():
    query = ceql.rule("Q(x, y) <- T(x), S(x, y)", attributes=SCHEMA, within="100 events")
    assert query.text == "SELECT T, S\nWHERE T ALL S\n  FILTER T.a = S.a\nWITHIN 100 EVENTS"
    assert query.plan.query == parse_rule("Q(x, y) <- T(x), S(x, y)", SCHEMA, within="100 events")
    assert query.plan.fingerprint == ceql.compile(query.text).plan.fingerprint


# --- errors ---

ERRORS = [
    ("", "The rule is empty", 1, "looks like this"),
    ("Q(x)", "ends too early: expected '<-'", 5, "looks like this"),
    ("Q(x) = T(x)", "Found '=', expected '<-'", 6, "looks like this"),
    ("Q <- T(x)", "Found '<-', expected '('", 3, "Q(x)"),
    ("Q() <-", "ends too early: expected an atom", 7, "looks like this"),
    ("Q() <- .", "Found '.', expected an atom", 8, "looks like this"),
    ("Q() <- T(x), -- more to come", "ends too early: expected an atom", 13, "after the last atom"),
    ("Q() <- T(x) S(x, y)", "Found 'S', expected ',' or the end", 13, "joined by ','"),
    ("Q() <- T(x); S(x, y)", "Found ';', expected ',' or the end", 12, "joined by ','"),
    ("Q() <- T(x). P() <- T(x)", "Found 'P', expected the end", 14, "one rule"),
    ("Q() <- T(x), not S(x, _)", "Found 'S', expected '('", 18, "no negation"),
    ("Q() <- T(x), x > 5", "Found '>', expected '('", 16, "write a query"),
    ("Q() <- T", "ends too early: expected '('", 9, "T(x)"),
    ("Q() <- T(,)", "Found ',', expected a variable, '_' or a constant", 10, None),
    ("Q() <- T(x,)", "Found ')', expected a variable, '_' or a constant", 12, None),
    ("Q() <- T(x y)", "Found 'y', expected ',' or ')'", 12, None),
    ("Q() <- T(\x01)", "Found the character U+0001", 10, None),
    ("Q() <- T(x", "'(' is never closed", 9, "Add a ')'"),
    ("Q() <- T('x)", "no closing '", 10, "twice"),
    ("Q() <- ``(x)", "cannot be empty", 8, None),
    ("Q() <- T(1e999)", "exponent", 10, None),
    ("Q() <- T(null)", "NULL equals nothing", 10, "_"),
    ("Q() <- t(x)", "does not have the relation 't'", 8, "Did you mean 'T'?"),
    ("Q() <- Other(x)", "does not have the relation 'Other'", 8, "attributes={'Other': [...], ...}"),
    ("Q() <- T(x), S(x)", "'S' has 2 attributes, but 1 argument here", 14, "a, b. Write _"),
    ("Q() <- T(x, y)", "'T' has 1 attribute, but 2 arguments here", 8, "The attributes are: a."),
    ("Q() <- E(x)", "'E' has 0 attributes, but 1 argument here", 8, "none"),
    ("Q(user) <- T(users)", "No atom of the body has the variable 'user'", 3, "Did you mean 'users'?"),
    ("Q(z) <- S(x, y)", "No atom of the body has the variable 'z'", 3, "The variables are: x, y."),
    ("Q(x) <- E()", "No atom of the body has the variable 'x'", 3, "write Q()"),
    ("Q(2) <- T(x)", "not constants", 3, "The variables are: x."),
    ("Q(_) <- T(_)", "cannot list '_'", 3, None),
    ("T(x) <- T(x)", "defines 'T' by itself", 9, "another name"),
]


@pytest.mark.parametrize(("text", "message", "column", "suggestion"), ERRORS)
def test_errors_have_a_place_and_advice(text, message, column, suggestion):
    with pytest.raises(ceql.QueryError) as caught:
        ceql.rule(text, attributes=SCHEMA)
    error = caught.value
    assert message in error.message
    assert (error.line, error.column) == (1, column)
    assert suggestion is None or (error.suggestion is not None and suggestion in error.suggestion)


def test_the_line_and_the_caret():
    with pytest.raises(ceql.QueryError) as caught:
        ceql.rule("Q() <-\n  T(x),\n  S(x, y, z)", attributes=SCHEMA)
    assert (caught.value.line, caught.value.column) == (3, 3)
    assert caught.value.caret == "  S(x, y, z)\n  ^^^^^^^^^^"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"T": "a"}, "a text, not a list"),
        ({"T": ["a", "a"]}, "a name twice"),
        ({"T": [""]}, "none is empty"),
        ({}, "does not have the relation 'T'"),
    ],
)
def test_attributes_that_are_wrong(attributes, message):
    with pytest.raises(ceql.QueryError, match=message):
        ceql.rule("Q() <- T(x)", attributes=attributes)


@pytest.mark.parametrize(
    ("options", "message", "column", "suggestion"),
    [
        ({"within": "100 evens"}, "Found 'evens'", 5, "Did you mean 'EVENTS'?"),
        ({"within": "5 [a"}, "never closed", 3, "Add a ']'."),
        ({"within": ""}, "expected a number", 1, None),
        ({"within": "9 events limit 3"}, "a window and nothing more", 1, "limit="),
        ({"within": 5}, "is text such as", None, None),
        ({"strategy": "maxx"}, "is one of ALL, ANY", None, "Did you mean 'MAX'?"),
        ({"consume_by": "all"}, "is one of NONE, PARTITION, ANY", None, None),
        ({"limit": 0}, "from 1 to", None, None),
        ({"limit": True}, "from 1 to", None, None),
    ],
)
def test_options_that_are_wrong(options, message, column, suggestion):
    with pytest.raises(ceql.QueryError, match=message) as caught:
        ceql.rule("Q() <- T(x)", attributes=SCHEMA, **options)
    assert caught.value.column == column
    assert suggestion is None or suggestion in (caught.value.suggestion or "")


# --- meaning ---

x, y, z, v, w = map(Var, "xyzvw")


def stream(*tuples):
    """Events from a relation and its values."""
    return [{"type": name} | dict(zip("abc", values, strict=False)) for name, *values in tuples]


S0 = stream(("S", 2, 11), ("T", 2), ("R", 1, 10), ("S", 2, 11), ("T", 1), ("R", 2, 11))
Q0 = Rule((Atom("T", (x,)), Atom("S", (x, y)), Atom("R", (x, y))), ("x", "y"))
Q1 = Rule((Atom("T", (x,)), Atom("R", (x, y)), Atom("S", (Const(2), y)), Atom("T", (x,))), ("x", "y"))
# the two rules of Figure 3
FIGURE = Rule((Atom("R", (x, y, z)), Atom("S", (x, y, v)), Atom("T", (x, w)), Atom("U", (x, y))))
FIGURE_SELF_JOIN = Rule((Atom("R", (x, y, z)), Atom("R", (x, y, v)), Atom("U", (x, y))))


def found(case: RuleCase) -> list[tuple[int, ...]]:
    """The matches of the rule's tree, by the oracle of queries."""
    query = case.compile()
    return by_atom(query, oracle.candidates(query.plan.query, case.events))


def test_which_rules_of_the_paper_are_hierarchical():
    assert Q0.hierarchical
    assert FIGURE.hierarchical
    assert FIGURE_SELF_JOIN.hierarchical
    assert not Q1.hierarchical
    assert [rule.self_joins for rule in (Q0, Q1, FIGURE, FIGURE_SELF_JOIN)] == [False, True, False, True]


WIDE = {"R": ["a", "b", "c"], "S": ["a", "b", "c"], "T": ["a", "b"], "U": ["a", "b"]}
PAPER = [
    ("Q0 over S0", Q0, SCHEMA, S0, None, [(1, 3, 5), (1, 0, 5)]),
    ("Q0 over S0, within 4 events", Q0, SCHEMA, S0, Window(4, "EVENTS"), [(1, 3, 5)]),
    ("Q0 before S0's last event", Q0, SCHEMA, S0[:5], None, []),
    ("Q1 over S0: both T at one event", Q1, SCHEMA, S0, None, [(1, 5, 3, 1), (1, 5, 0, 1)]),
    (
        "Q1 with two T: each atom takes either",
        Q1,
        SCHEMA,
        stream(("T", 2), ("S", 2, 7), ("T", 2), ("R", 2, 7)),
        None,
        [(0, 3, 1, 0), (0, 3, 1, 2), (2, 3, 1, 0), (2, 3, 1, 2)],
    ),
    (
        "Figure 3, without self-joins: the last atom may be any",
        FIGURE,
        WIDE,
        stream(("U", 1, 2), ("R", 1, 2, 3), ("S", 1, 2, 4), ("S", 9, 2, 4), ("T", 1, 5), ("R", 1, 2, 6)),
        None,
        [(1, 2, 4, 0), (5, 2, 4, 0)],
    ),
    (
        "Figure 3, with a self-join",
        FIGURE_SELF_JOIN,
        WIDE,
        stream(("R", 1, 2, 3), ("U", 1, 2), ("R", 1, 2, 4)),
        None,
        [(0, 0, 1), (2, 2, 1), (0, 2, 1), (2, 0, 1)],
    ),
]


@pytest.mark.parametrize(
    ("rule", "attributes", "events", "window", "expected"), [pytest.param(*case, id=title) for title, *case in PAPER]
)
def test_the_papers_rules(rule, attributes, events, window, expected):
    case = RuleCase(rule, attributes, events, window)
    assert sorted(case.expected()) == sorted(expected)
    assert sorted(found(case)) == sorted(expected)


NULLS = stream(("S", None, None), ("S", 1, 1), ("S", None, 1), ("S", float("nan"), float("nan")))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ((Atom("S", (x, y)),), [(0,), (1,), (2,), (3,)]),
        ((Atom("S", (x, x)),), [(1,)]),
        ((Atom("S", (Const(1), ANY)),), [(1,)]),
        ((Atom("S", (x, ANY)), Atom("S", (x, ANY))), [(1, 1)]),
    ],
)
def test_null_and_nan_equal_nothing(body, expected):
    assert homomorphisms(Rule(body), SCHEMA, NULLS) == expected
    assert found(RuleCase(Rule(body), SCHEMA, NULLS, None)) == expected


@given(rule_cases())
@settings(max_examples=300)
def test_the_tree_has_the_rules_matches(case):
    assert sorted(found(case)) == sorted(case.expected())


@given(rule_cases())
def test_the_text_has_the_rules_tree(case):
    query = parse_rule(case.text, case.attributes, within=case.within)
    assert parse_query(print_query(query)) == query


@given(st.text("QTSRx_(),.<-:=`'12e ", max_size=40))
@settings(max_examples=500)
def test_any_text_is_a_rule_or_a_query_error(text):
    try:
        query = parse_rule("Q() <- " + text, SCHEMA)
    except ceql.QueryError:
        return
    assert parse_query(print_query(query)) == query


KINDS = {
    "hierarchical": lambda c: c.rule.hierarchical and not c.rule.self_joins and len(c.rule.body) > 2,
    "hierarchical, self-join": lambda c: c.rule.hierarchical and c.rule.self_joins,
    "other": lambda c: not c.rule.hierarchical and not c.rule.self_joins,
    "other, self-join": lambda c: not c.rule.hierarchical and c.rule.self_joins,
    "one event for two atoms": lambda c: any(len(set(eta)) < len(eta) for eta in c.expected()),
    "cut by the window": lambda c: len(c.expected()) < len(homomorphisms(c.rule, c.attributes, c.events)),
}


def test_random_cases_are_of_every_kind_and_match():
    seen = Counter()

    @given(rule_cases())
    @settings(max_examples=300)
    def look(case):
        if case.expected():
            seen.update(name for name, is_kind in KINDS.items() if is_kind(case))

    look()
    assert seen.keys() == KINDS.keys()


@pytest.mark.parametrize("hierarchical", [True, False])
def test_cases_may_be_asked_for_by_kind(hierarchical):
    @given(rule_cases(hierarchical=hierarchical))
    @settings(max_examples=30)
    def look(case):
        assert case.rule.hierarchical == hierarchical

    look()
