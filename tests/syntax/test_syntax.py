"""The language as it is written: what parses, to which tree, how it prints, and what the errors say."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ceql.errors import QueryError
from ceql.syntax import parse_formula, parse_query, print_formula, print_query
from ceql.syntax.parser import grammar
from ceql.syntax.tree import (
    Aggregate,
    All,
    Arithmetic,
    As,
    Attribute,
    AttributeWindow,
    Between,
    Bracket,
    Comparison,
    Conj,
    Consume,
    Count,
    Disj,
    Event,
    EventsWindow,
    Filter,
    In,
    Interval,
    IsNull,
    Joint,
    Like,
    Literal,
    Measure,
    Minus,
    Neg,
    Not,
    Or,
    Part,
    PartitionBy,
    PartRef,
    Plus,
    Prev,
    Query,
    Ref,
    SelectItem,
    Strategy,
    Then,
    TimeWindow,
    Within,
)
from trees import queries

A, B, C, D = map(Event, "ABCD")
a, b = Attribute("a"), Attribute("b")
ONE, TWO = Literal(1), Literal(2)


THEN, TOUCH, NEXT = Joint


def then(*items, joint=THEN):
    return Then(items, (joint,) * (len(items) - 1))


def failure(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    return caught.value


FORMULAS = [
    ("A", A),
    ("Stock>BUY", Event("BUY", "Stock")),
    ("(((A)))", A),
    ("A AS x", As(A, "x")),
    ("A+", Plus(A)),
    ("A:+", Plus(A, TOUCH)),
    ("A{2,3}", Count(A, 2, 3)),
    ("A{2}", Count(A, 2, 2)),
    ("A{2,}", Count(A, 2, None)),
    ("A{,3}", Count(A, 0, 3)),
    ("A{1,}", Plus(A)),
    ("A:{2,3}", Count(A, 2, 3, TOUCH)),
    ("A:{1,}", Plus(A, TOUCH)),
    ("A?", Count(A, 0, 1)),
    ("A*", Count(A, 0, None)),
    ("A:*", Count(A, 0, None, TOUCH)),
    ("A+?", Plus(A, reluctant=True)),
    ("(A+)?", Count(Plus(A), 0, 1)),
    ("A+??", Count(Plus(A, reluctant=True), 0, 1)),
    ("A??", Count(A, 0, 1, reluctant=True)),
    ("A:*?", Count(A, 0, None, TOUCH, reluctant=True)),
    ("A->{2,3}?", Count(A, 2, 3, NEXT, reluctant=True)),
    ("A AS x+? ; B", then(Plus(As(A, "x"), reluctant=True), B)),
    ("A->+", Plus(A, NEXT)),
    ("A->*", Count(A, 0, None, NEXT)),
    ("A->{2}", Count(A, 2, 2, NEXT)),
    ("A AS x{2} : B", Then((Count(As(A, "x"), 2, 2), B), (TOUCH,))),
    ("(A ; B WITHIN 5 EVENTS)", Within(then(A, B), EventsWindow(5))),
    ("((A WITHIN 5 EVENTS) WITHIN 3 [a])", Within(Within(A, EventsWindow(5)), AttributeWindow(3, "a"))),
    ("A+ AS x", As(Plus(A), "x")),
    ("A AS x+", Plus(As(A, "x"))),
    ("A ; B", then(A, B)),
    ("A : B", then(A, B, joint=TOUCH)),
    ("A -> B", then(A, B, joint=NEXT)),
    ("A ; B -> C", Then((A, B, C), (THEN, NEXT))),
    ("A -> (B ; C) -> D", Then((A, B, C, D), (NEXT, THEN, NEXT))),
    ("A -> (B? ; C)", then(A, then(Count(B, 0, 1), C), joint=NEXT)),
    ("A ; (B? -> C)", Then((A, Count(B, 0, 1), C), (THEN, NEXT))),
    ("A -> NOT B -> C", then(A, Not(B), C, joint=NEXT)),
    ("A -> B OR C -> D", Or((then(A, B, joint=NEXT), then(C, D, joint=NEXT)))),
    ("A ; B : C", Then((A, B, C), (THEN, TOUCH))),
    ("A ; (B : C) ; D", Then((A, B, C, D), (THEN, TOUCH, THEN))),
    ("(A ; B) ; (C : D)", Then((A, B, C, D), (THEN, THEN, TOUCH))),
    ("A ALL B ALL C", All((A, B, C))),
    ("A ALL (B ALL C)", All((A, B, C))),
    ("A OR (B OR C)", Or((A, B, C))),
    ("A ; B OR C ; D", Or((then(A, B), then(C, D)))),
    ("A ; B ALL C ; D", All((then(A, B), then(C, D)))),
    ("A ALL B OR C ALL D", Or((All((A, B)), All((C, D))))),
    ("A ; (B OR C)+", then(A, Plus(Or((B, C))))),
    ("(A ; B) AS x", As(then(A, B), "x")),
    ("A ; B FILTER A[a = 1]", Filter(then(A, B), Bracket("A", Comparison("=", a, ONE)))),
    ("A ; (B FILTER B[a = 1])", then(A, Filter(B, Bracket("B", Comparison("=", a, ONE))))),
    (
        "A FILTER A[a = 1] FILTER A[b = 2]",
        Filter(Filter(A, Bracket("A", Comparison("=", a, ONE))), Bracket("A", Comparison("=", b, TWO))),
    ),
    ("(A PARTITION BY a)", PartitionBy(A, (Part((PartRef("a"),)),))),
    ("(A PARTITION BY [a])", PartitionBy(A, (Part((PartRef("a"),)),))),
    (
        "(A ; B PARTITION BY [A.a, B.b], [c])",
        PartitionBy(then(A, B), (Part((PartRef("a", "A"), PartRef("b", "B"))), Part((PartRef("c"),)))),
    ),
    (
        "(A PARTITION BY a FILTER A[a = 1]) ; B",
        then(Filter(PartitionBy(A, (Part((PartRef("a"),)),)), Bracket("A", Comparison("=", a, ONE))), B),
    ),
]


@pytest.mark.parametrize(("text", "expected"), FORMULAS)
def test_formulas_and_what_binds_how(text, expected):
    assert parse_formula(text) == expected
    assert parse_formula(print_formula(expected)) == expected


PREDICATES = [
    ("a = 1", Comparison("=", a, ONE)),
    ("a == 1", Comparison("=", a, ONE)),
    ("a <> 1", Comparison("!=", a, ONE)),
    ("a != 1", Comparison("!=", a, ONE)),
    ("a > 1", Comparison(">", a, ONE)),
    ("a >= 1", Comparison(">=", a, ONE)),
    ("a = -1", Comparison("=", a, Literal(-1))),
    ("a = - -1", Comparison("=", a, ONE)),
    ("-a = 1", Comparison("=", Minus(a), ONE)),
    ("a = 1.50", Comparison("=", a, Literal(Decimal("1.50")))),
    ("a = .5", Comparison("=", a, Literal(Decimal("0.5")))),
    ("a = 1e3", Comparison("=", a, Literal(Decimal(1000)))),
    ("a = 'it''s'", Comparison("=", a, Literal("it's"))),
    ('a = "say ""hi"""', Comparison("=", a, Literal('say "hi"'))),
    ("a = TRUE", Comparison("=", a, Literal(True))),
    ("a = null", Comparison("=", a, Literal(None))),
    ("a = y.b", Comparison("=", a, Ref("y", "b"))),
    ("a > PREV.a", Comparison(">", a, Prev("a"))),
    ("a + b * 2 = 1", Comparison("=", Arithmetic("+", a, Arithmetic("*", b, TWO)), ONE)),
    ("(a + b) * 2 = 1", Comparison("=", Arithmetic("*", Arithmetic("+", a, b), TWO), ONE)),
    ("a - b - 2 = 1", Comparison("=", Arithmetic("-", Arithmetic("-", a, b), TWO), ONE)),
    ("a - (b - 2) = 1", Comparison("=", Arithmetic("-", a, Arithmetic("-", b, TWO)), ONE)),
    ("a LIKE 'x%'", Like(a, "x%")),
    ("a NOT LIKE 'x%'", Like(a, "x%", negated=True)),
    ("a RLIKE '^x'", Like(a, "^x", regex=True)),
    ("a IN {1, 'x'}", In(a, (ONE, Literal("x")))),
    ("a NOT IN {1}", In(a, (ONE,), negated=True)),
    ("a IN {1..2}", In(a, (Interval(ONE, TWO),))),
    ("a IN {1 ..}", In(a, (Interval(ONE, None),))),
    ("a IN {.. 2}", In(a, (Interval(None, TWO),))),
    ("a IN {-1.5..-.5}", In(a, (Interval(Literal(Decimal("-1.5")), Literal(Decimal("-0.5"))),))),
    ("a IN RANGE (1, b)", Between(a, ONE, b, range_form=True)),
    ("a BETWEEN 1 AND 2 AND b = 1", Conj((Between(a, ONE, TWO), Comparison("=", b, ONE)))),
    ("a NOT BETWEEN 1 AND 2", Between(a, ONE, TWO, negated=True)),
    ("a IS NULL", IsNull(a)),
    ("a IS NOT NULL", IsNull(a, negated=True)),
    ("NOT a IS NULL", Neg(IsNull(a))),
    (
        "a = 1 OR b = 1 AND a = 2",
        Disj((Comparison("=", a, ONE), Conj((Comparison("=", b, ONE), Comparison("=", a, TWO))))),
    ),
]


@pytest.mark.parametrize(("text", "expected"), PREDICATES)
def test_predicates_inside_brackets(text, expected):
    formula = Filter(A, Bracket("x", expected))
    assert parse_formula(f"A FILTER x[{text}]") == formula
    assert parse_formula(print_formula(formula)) == formula


FILTERS = [
    ("x.a > 1", Comparison(">", Ref("x", "a"), ONE)),
    ("x.a = y.b + 1", Comparison("=", Ref("x", "a"), Arithmetic("+", Ref("y", "b"), ONE))),
    ("(x.a + 1) * 2 > 1", Comparison(">", Arithmetic("*", Arithmetic("+", Ref("x", "a"), ONE), TWO), ONE)),
    ("((x.a)) > 1", Comparison(">", Ref("x", "a"), ONE)),
    (
        "(x[a = 1] OR y[b = 2]) AND NOT x.a < y.b",
        Conj(
            (
                Disj((Bracket("x", Comparison("=", a, ONE)), Bracket("y", Comparison("=", b, TWO)))),
                Neg(Comparison("<", Ref("x", "a"), Ref("y", "b"))),
            )
        ),
    ),
    ("x.a LIKE 'x%'", Bracket("x", Like(a, "x%"))),
    ("x.a + x.b IN {1}", Bracket("x", In(Arithmetic("+", a, b), (ONE,)))),
    ("x.a IS NULL", Bracket("x", IsNull(a))),
    ("x.a BETWEEN PREV.a AND -x.b", Bracket("x", Between(a, Prev("a"), Minus(b)))),
    ("NOT x.a IS NULL", Neg(Bracket("x", IsNull(a)))),
]


@pytest.mark.parametrize(("text", "expected"), FILTERS)
def test_filters_that_name_their_variables(text, expected):
    assert parse_formula(f"A FILTER {text}") == Filter(A, expected)
    assert parse_formula(print_formula(Filter(A, expected))) == Filter(A, expected)


CLAUSES = [
    ("SELECT * WHERE A", Query(A)),
    ("select none where A", Query(A, items=())),
    ("SELECT x, y[a, b] WHERE A", Query(A, items=(SelectItem("x"), SelectItem("y", ("a", "b"))))),
    ("SELECT ALL * WHERE A", Query(A, strategy=Strategy.ALL)),
    ("SELECT DISTINCT next x WHERE A", Query(A, items=(SelectItem("x"),), strategy=Strategy.NEXT, distinct=True)),
    (
        "SELECT NEXT (x.a - 1) * 1 AS m WHERE A",
        Query(
            A,
            items=(),
            strategy=Strategy.NEXT,
            measures=(Measure(Arithmetic("*", Arithmetic("-", Ref("x", "a"), ONE), ONE), "m"),),
        ),
    ),
    ("SELECT any (x.a) WHERE A", Query(A, items=(), strategy=Strategy.ANY, measures=(Measure(Ref("x", "a")),))),
    ("SELECT LAST (x.a) WHERE A", Query(A, items=(), measures=(Measure(Aggregate("LAST", "x", Ref("x", "a"))),))),
    ("SELECT * FROM S, T WHERE A", Query(A, streams=("S", "T"))),
    ("SELECT * WHERE A PARTITION BY a", Query(A, partition=(Part((PartRef("a"),)),))),
    ("SELECT * WHERE A CONSUME BY any", Query(A, consume=Consume.ANY)),
    ("SELECT * WHERE A CONSUME BY PARTITION", Query(A, consume=Consume.PARTITION)),
    ("SELECT * WHERE A CONSUME BY NONE", Query(A)),
    ("SELECT * WHERE A LIMIT 3", Query(A, limit=3)),
    ("SELECT * -- all of it\nWHERE A -- the end", Query(A)),
    ("SELECT * WHERE A WITHIN 0 EVENTS", Query(A, window=EventsWindow(0))),
    ("SELECT * WHERE A WITHIN 0 SECONDS", Query(A, window=TimeWindow(0))),
    ("SELECT * WHERE A WITHIN 1 event", Query(A, window=EventsWindow(1))),
    ("SELECT * WHERE A WITHIN 5 [time]", Query(A, window=AttributeWindow(5, "time"))),
    ("SELECT * WHERE A WITHIN 1 MINUTE 30 SECONDS", Query(A, window=TimeWindow(90_000_000_000))),
    ("SELECT * WHERE A WITHIN 2.7 hours", Query(A, window=TimeWindow(9_720_000_000_000))),
    ("SELECT * WHERE A WITHIN 0.000001 MILLISECONDS", Query(A, window=TimeWindow(1))),
]


@pytest.mark.parametrize(("text", "expected"), CLAUSES)
def test_clauses(text, expected):
    assert parse_query(text) == expected
    assert parse_query(print_query(expected)) == expected


@pytest.mark.parametrize(
    ("nanoseconds", "printed"),
    [
        (86_400_000_000_000, "1 DAY"),
        (5_400_000_000_000, "90 MINUTES"),
        (1_500_000_000, "1500 MILLISECONDS"),
        (1_500_000, "1.5 MILLISECONDS"),
        (1, "0.000001 MILLISECONDS"),
    ],
)
def test_a_duration_prints_in_the_largest_unit_that_is_exact(nanoseconds, printed):
    assert print_query(Query(A, window=TimeWindow(nanoseconds))).endswith(f"WITHIN {printed}")


# core-vldb2022, Figure 1, as printed there
Q1 = """SELECT * FROM Stock WHERE SELL as msft; SELL as intel; SELL as amzn FILTER msft[name="MSFT"]
AND msft[price > 100] AND intel[name="INTC"] AND amzn[name="AMZN"] AND amzn[price < 2000]"""
Q2 = """SELECT b FROM Stock WHERE (BUY or SELL) as s; (BUY or SELL) as b
PARTITION BY [name], [volume] WITHIN 1 minute"""
Q3 = """SELECT MAX * FROM Stock WHERE (BUY OR SELL) as l; (BUY OR SELL)+ as m; (BUY OR SELL) as h
FILTER l[price < 100] AND m[price >= 100] AND m[price <= 2000] AND h[price > 2000] PARTITION BY [name]"""


def test_the_papers_queries_in_canonical_print():
    assert print_query(parse_query(Q1)) == (
        "SELECT *\nFROM Stock\nWHERE SELL AS msft ; SELL AS intel ; SELL AS amzn\n"
        "  FILTER msft[name = 'MSFT'] AND msft[price > 100] AND intel[name = 'INTC']"
        " AND amzn[name = 'AMZN'] AND amzn[price < 2000]"
    )
    assert print_query(parse_query(Q2)) == (
        "SELECT b\nFROM Stock\nWHERE (BUY OR SELL) AS s ; (BUY OR SELL) AS b\n"
        "PARTITION BY [name], [volume]\nWITHIN 1 MINUTE"
    )
    assert print_query(parse_query(Q3)) == (
        "SELECT MAX *\nFROM Stock\nWHERE (BUY OR SELL) AS l ; (BUY OR SELL)+ AS m ; (BUY OR SELL) AS h\n"
        "  FILTER l[price < 100] AND m[price >= 100] AND m[price <= 2000] AND h[price > 2000]\nPARTITION BY [name]"
    )


WORDS = ["EVENTS", "seconds", "RANGE", "NONE", "ANY", "next", "LAST", "max", "STRICT", "DISTINCT"]


@pytest.mark.parametrize("word", WORDS)
def test_words_that_are_names_where_nothing_else_could_be_meant(word):
    query = parse_query(f"SELECT x, {word} FROM {word} WHERE {word}>{word} AS {word} FILTER {word}[{word} > 1]")
    assert query.formula == Filter(As(Event(word, word), word), Bracket(word, Comparison(">", Attribute(word), ONE)))
    assert parse_query(print_query(query)) == query


def test_backticks_quote_any_name():
    query = parse_query("SELECT `max` WHERE `order id` AS `select` FILTER `select`.`a``b` = 1")
    assert query.items == (SelectItem("max"),)
    assert query.formula == Filter(As(Event("order id"), "select"), Comparison("=", Ref("select", "a`b"), ONE))
    assert failure("SELECT * WHERE ``").message == "A name cannot be empty"


def test_names_keep_their_case_and_keywords_do_not_end_in_them():
    assert parse_formula("Orders ; orders ; FILTERED") == then(Event("Orders"), Event("orders"), Event("FILTERED"))


def test_spans_point_into_the_text():
    text = "SELECT * WHERE (A ; B) AS x FILTER x[price > 1]"
    formula = parse_query(text).formula
    parts = [formula, formula.formula, formula.formula.formula.items[1], formula.condition, formula.condition.predicate]
    assert [text[node.span.start : node.span.end] for node in parts] == [
        "(A ; B) AS x FILTER x[price > 1]",
        "(A ; B) AS x",
        "B",
        "x[price > 1]",
        "price > 1",
    ]


@settings(max_examples=400, suppress_health_check=list(HealthCheck))
@given(queries())
def test_what_is_printed_parses_back_to_the_same_tree(query):
    again = parse_query(print_query(query))
    assert again == query
    assert repr(again) == repr(query)  # 1, 1.0 and TRUE are equal in Python


SOUP = [
    "SELECT",
    "*",
    "WHERE",
    "A",
    "x",
    "FILTER",
    "[",
    "]",
    "(",
    ")",
    "a",
    ">",
    "=",
    "1",
    "'t'",
    "AND",
    "OR",
    "NOT",
    ";",
]
SOUP += [
    ":",
    "+",
    ":+",
    "ALL",
    "AS",
    "PARTITION",
    "BY",
    "WITHIN",
    "EVENTS",
    "IN",
    "{",
    "}",
    "..",
    ".",
    ",",
    "PREV",
    "-",
    "&",
]


@given(st.lists(st.sampled_from(SOUP), max_size=12), st.booleans())
def test_nonsense_is_refused_in_order(words, begun):
    text = " ".join([*(["SELECT * WHERE A"] if begun else []), *words])
    try:
        query = parse_query(text)
    except QueryError:
        return
    assert parse_query(print_query(query)) == query


ERRORS = [
    # text, column, width of the caret, words of the message, words of the suggestion
    ("SELCT * WHERE A", 1, 5, "Found 'SELCT', expected SELECT", "Did you mean 'SELECT'?"),
    ("SELECT * FORM S WHERE A", 10, 4, "Found 'FORM', expected FROM or WHERE", "Did you mean 'FROM'?"),
    ("SELECT * FROM S WHER A", 17, 4, "expected ',' or WHERE", "Did you mean 'WHERE'?"),
    ("SELECT MAXX * WHERE A", 8, 12, "'MAXX' is no strategy", "NEXT, LAST, MAX, STRICT"),
    ("SELECT last, x WHERE A AS last ; B AS x", 12, 1, "Found ','", "backticks: `last`"),
    ("SELECT *, DURATION WHERE A", 9, 1, "Found ','", "SELECT a, b, DURATION."),
    ("SELECT next WHERE A AS next", 13, 5, "Found 'WHERE'", "backticks: `next`"),
    ("SELECT * WHERE A AS x FITLER x[a > 1]", 23, 6, "Found 'FITLER'", "Did you mean 'FILTER'?"),
    ("SELECT * WHERE A PARTITON BY a", 18, 8, "PARTITION BY", "Did you mean 'PARTITION'?"),
    ("SELECT * WHERE A WITHIN 10 minuts", 28, 6, "unit of time", "Did you mean 'MINUTES'?"),
    ("SELECT * WHERE A WITHIN 10 ms", 28, 2, "unit of time", "Did you mean 'MILLISECONDS'?"),
    ("SELECT * WHERE A CONSUME BY ANYY", 29, 4, "NONE, PARTITION or ANY", "Did you mean 'ANY'?"),
    ("SELECT * WHERE (A ; B", 16, 1, "'(' is never closed", "Add a ')'"),
    ("SELECT * WHERE A) ; B", 17, 1, "')' closes nothing", "No '('"),
    ("SELECT * WHERE A FILTER x[(a = 1]", 33, 1, "'(' of line 1 is still open", "')'"),
    ("SELECT * WHERE A FILTER A[a = 'x]", 31, 1, "no closing '", "twice"),
    ("SELECT * WHERE `A", 16, 1, "This name has no closing `", "twice"),
    ("SELECT * WHERE A FILTER A[a=1 && b=2]", 31, 2, "Found '&&'", "Write AND"),
    ("SELECT * WHERE A FILTER A[a=1 || b=2]", 31, 2, "Found '||'", "Write OR"),
    ("SELECT * WHERE A FILTER A[a = \N{LEFT DOUBLE QUOTATION MARK}x]", 31, 1, "no meaning", "plain quotes"),
    ("SELECT * WHERE A\0", 17, 1, "U+0000", "backticks"),
    ("SELECT * WHERE A AND B", 18, 3, "Found 'AND'", "AND joins conditions"),
    ("SELECT * WHERE A, B", 17, 1, "Found ','", "';'"),
    ("SELECT * WHERE A[a > 1]", 17, 1, "Found '['", "after FILTER"),
    ("SELECT * WHERE A ; B FILTER A[a=1] ; C", 36, 1, "Found ';'", "(A FILTER ...) ; B"),
    ("SELECT * WHERE A FILTER A[a=1] OR B AS x", 37, 2, "Found 'AS'", "(A FILTER ...) ; B"),
    ("SELECT * WHERE A FILTER A[1 < a < 3]", 33, 1, "Found '<'", "joined by AND"),
    ("SELECT * WHERE A FILTER price > 3", 25, 5, "whose attribute", "x.price"),
    ("SELECT * WHERE A FILTER A[x[a = 1]]", 27, 8, "inside the brackets", "x.attribute"),
    ("SELECT * WHERE A FILTER x.a BETWEEN y.a AND 3", 25, 21, "not of x and y", "Only comparisons"),
    ("SELECT * WHERE A FILTER A[a + 2]", 27, 5, "this is a value", "Compare"),
    ("SELECT * WHERE A FILTER A[(a > 1) + 2 = 3]", 27, 7, "this is a condition", None),
    ("SELECT * WHERE A FILTER A[a IN {NULL..3}]", 33, 4, "numbers or texts", None),
    ("SELECT * WHERE A FILTER A[a IN {'a'..3}]", 33, 6, "two numbers or two texts", None),
    ("SELECT * WHERE A FILTER A[limit = 3]", 27, 5, "Found 'limit'", "`limit`"),
    ("SELECT * WHERE A PARTITION BY a FILTER A[a=1]", 33, 6, "Found 'FILTER'", "before"),
    ("SELECT * WHERE A PARTITION BY x.a", 32, 1, "Found '.'", "[x.a]"),
    ("SELECT MAX FROM S WHERE A", 12, 4, "Found 'FROM'", "backticks"),
    ("SELECT * WHERE A;", 18, 1, "ends too early", "does not end with ';'"),
    ("SELECT * WHERE A FILTER", 24, 1, "ends too early", None),
    ("SELECT * WHERE A LIMIT 1 WITHIN 3 EVENTS", 26, 6, "expected AFTER MATCH SKIP or the end", "in this order"),
    ("SELECT * WHERE NOT A", 16, 5, "NOT stands by itself", "write A ; NOT B ; C"),
    ("SELECT * WHERE A WITHIN 10", 27, 1, "expected EVENTS, a unit of time or '['", "WITHIN 5 MINUTES"),
    ("SELECT * WHERE A CONSUME BY", 28, 1, "expected NONE, PARTITION or ANY", None),
    ("", 1, 1, "empty", "SELECT"),
    ("SELECT * WHERE A LIMIT 0", 24, 1, "from 1", None),
    ("SELECT * WHERE A LIMIT 1.5", 24, 3, "whole number", None),
    ("SELECT * WHERE A WITHIN 1.5 EVENTS", 25, 3, "whole number", None),
    ("SELECT * WHERE A WITHIN 1e30 SECONDS", 25, 12, "292 years", None),
    ("SELECT * WHERE A WITHIN 0.0000001 MILLISECONDS", 25, 22, "whole number of nanoseconds", None),
    ("SELECT * WHERE A WITHIN 1 SECOND 2 EVENTS", 36, 6, "not in both", None),
    ("SELECT * WHERE A FILTER A[a = 1e401]", 31, 5, "exponent", None),
    ("SELECT * WHERE A FILTER A[a = 1e99999999999999999999]", 31, 22, "exponent", None),
]


@pytest.mark.parametrize(("text", "column", "width", "message", "suggestion"), ERRORS)
def test_errors_say_what_where_and_what_was_meant(text, column, width, message, suggestion):
    error = failure(text)
    assert message in error.message
    assert (error.line, error.column) == (1, column)
    assert error.caret == f"{text}\n{' ' * (column - 1)}{'^' * width}"
    if suggestion is None:
        assert error.suggestion is None
    else:
        assert suggestion in (error.suggestion or "")


def test_an_error_on_a_later_line():
    error = failure("SELECT *\n-- the pattern\nWHERE A ; B\nWITHN 5 EVENTS")
    assert (error.line, error.column, error.suggestion) == (4, 1, "Did you mean 'WITHIN'?")
    assert error.caret == "WITHN 5 EVENTS\n^^^^^"


def alternating(depth: int) -> str:
    text = "A"
    for level in range(depth):
        text = f"({text}) {';' if level % 2 else 'OR'} B"
    return f"SELECT * WHERE {text}"


@pytest.mark.parametrize("depth", [50, 198])
def test_deep_nesting_is_parsed_compared_and_printed(depth):
    query = parse_query(alternating(depth))
    assert parse_query(print_query(query)) == query


@pytest.mark.parametrize("joint", [" ; ", " : ", " ALL ", " OR "])
def test_long_chains_are_flat(joint):
    query = parse_query("SELECT * WHERE " + joint.join(["A"] * 1000))
    assert len(query.formula.items) == 1000
    assert parse_query(print_query(query)) == query


@pytest.mark.parametrize(
    "text",
    [
        "(" * 201 + "A" + ")" * 201,
        alternating(199).removeprefix("SELECT * WHERE "),
        "A" + "+" * 50_000,
        "A FILTER " + "NOT " * 30_000 + "A[a = 1]",
        "A FILTER A[" + "- " * 30_000 + "a = 1]",
        "A FILTER A[" + "a + " * 30_000 + "a = 1]",
        "A" + " FILTER A[a = 1]" * 1_000,
        "(" * 900_000,
    ],
    ids=lambda text: text[:24],
)
def test_nesting_has_a_limit_and_no_recursion(text):
    assert "nested deeper than 200 levels" in failure(f"SELECT * WHERE {text}").message


def test_size_has_a_limit():
    assert "1,000,000" in failure("SELECT * WHERE A" + " " * 1_000_000).message
    assert "100 digits" in failure(f"SELECT * WHERE A FILTER A[a = {'9' * 5000}]").message


def test_the_grammar_is_built_once():
    assert grammar() is grammar()
