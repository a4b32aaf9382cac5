"""`Query.explain` and `Query.automaton`: every stage can be read, for every query there is."""

from __future__ import annotations

import re
import warnings

import pyarrow as pa
import pytest

import ceql
import corpus
from ceql.explain.automaton import dot_text, mermaid_text
from ceql.explain.claims import judged
from ceql.explain.decisions import How
from ceql.explain.guarantee import Class, guarantee, losses, query_class
from ceql.explain.text import WIDTH
from ceql.plans import Loop


def is_sound(case: corpus.Case) -> bool:
    """Whether its query compiles; an expected error may be one of the events."""
    try:
        return case.error is None or ceql.compile(case.query) is not None
    except ceql.CeqlError:
        return False


CASES = [case for case in corpus.some(corpus.load(), 2) if is_sound(case)]


def sections(text: str) -> dict[str, str]:
    """Headings and what stands below them."""
    return dict(part.split("\n", 1) for part in text.strip().split("\n\n"))


def class_of(query: str) -> Class:
    return query_class(ceql.compile(query).plan)


def how(query: str) -> list[tuple[str, How, str]]:
    """Every condition across events of a query: its text, how it is checked, and why so."""
    return [(j.text, j.how, j.why) for j in judged(ceql.compile(query).plan)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_query_of_the_corpus_is_explained(case: corpus.Case) -> None:
    query = ceql.compile(case.query)
    text = query.explain()
    assert max(len(line) for line in text.split("\n")) <= WIDTH
    assert all(c == "\n" or c.isprintable() for c in text)
    found = sections(text)
    for heading in ("Query", "Class and guarantee", "Clauses, in the order they apply", "Guards", "Reading"):
        assert heading in found
    ways = judged(query.plan)
    for j in ways:
        assert f"line {j.line}, column {j.column}: " in found["Conditions across events"]
        assert j.why
    carrying = query.plan.automaton.carrying
    assert any(j.how is How.LISTED for j in ways) == (carrying is not None and bool(carrying.listed))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_query_of_the_corpus_is_drawn(case: corpus.Case) -> None:
    view = ceql.compile(case.query).automaton()
    dot, mermaid = view.to_dot(), view.to_mermaid()
    lines = sum(
        len(arrow.sources[0].states) if len(arrow.sources) == 1 else 1 + sum(len(s.states) for s in arrow.sources)
        for arrow in view.arrows()
    )
    joins = sum(len(arrow.sources) > 1 for arrow in view.arrows())
    assert len(re.findall(r"^  \w+ -> \w+ \[", dot, re.M)) == lines
    assert len(re.findall(r"^  \w+ (?:-\.->|-->|---)", mermaid, re.M)) == lines
    assert len(re.findall(r"^  j\d+ \[shape=point", dot, re.M)) == joins
    assert len(re.findall(r"^  j\d+\[ \]$", mermaid, re.M)) == joins
    assert view.states == len(re.findall(r"^  s\d+\(\(", mermaid, re.M))


def test_the_sections_of_a_query() -> None:
    query = ceql.compile(
        "select next x, y from S where SELL as x ; BUY+ as y : HOLD filter x[price > 100 and name like 'a%'] "
        "partition by k within 30 seconds consume by any limit 3"
    )
    found = sections(query.explain())
    assert found["Query"].split("\n")[0] == "  SELECT NEXT x, y"
    formula = found["Formula in LP-normal form (every condition at the event it is about)"]
    assert formula == "  (SELL & name LIKE 'a%' & price > 100) AS x ; (BUY AS y)+ : HOLD"
    clauses = found["Clauses, in the order they apply"]
    names = re.findall(r"^  (\w+(?: BY)?)  ", clauses, re.M)
    assert names == ["FROM", "PARTITION BY", "SELECT", "WITHIN", "strategy", "LIMIT", "CONSUME BY"]
    assert "end - start <= 30 seconds, measured in event time" in clauses
    assert "NEXT: inside the automaton" in clauses
    assert found["Guards"] == "  g1  SELL & name LIKE 'a%' & price > 100\n  g2  BUY\n  g3  HOLD"
    assert "skips events  no: contiguity makes every event count" in found["Reading"]
    assert "attributes    name, price, k" in found["Reading"]
    assert "linear in the window's candidate starts" in found["Class and guarantee"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * WHERE A", "ALL: every match is kept (the default)"),
        ("SELECT ANY * WHERE A", "ANY: of the matches that end at an event, the first is kept"),
        ("SELECT STRICT * WHERE A ; B", "STRICT: inside the automaton"),
        ("SELECT MAX * WHERE A+", "MAX: inside the automaton"),
        ("SELECT LAST * WHERE A+ WITHIN 5 EVENTS", "LAST: inside the automaton; a run is given up"),
        ("SELECT MAX * WHERE A ; B+ WITHIN 5 EVENTS", "MAX: inside the automaton; a run is given up"),
        ("SELECT MAX * WHERE A+ WITHIN 5 EVENTS", "MAX: by replay"),
        ("SELECT LAST * WHERE A ; B WITHIN 5 [w]", "LAST: by replay"),
        ("SELECT NEXT b WHERE A ; B AS b WITHIN 5 EVENTS", "NEXT: by replay"),
        ("SELECT * WHERE A ; B WITHIN 5 EVENTS", "end - start <= 5, counted in events of the whole stream"),
        ("SELECT * WHERE A ; B PARTITION BY k WITHIN 5 EVENTS", "skips events  no: the window counts"),
        ("SELECT * WHERE A ; B WITHIN 5 [w]", "end - start <= 5, measured in the attribute w"),
        ("SELECT * WHERE A ; B", "skips events  yes"),
        ("SELECT DISTINCT * WHERE A ; B", "DISTINCT: matches are the same when interval and positions are"),
        ("SELECT NONE WHERE A ; B", "no variable: a match is its interval alone"),
    ],
)
def test_how_a_clause_is_applied(query: str, said: str) -> None:
    assert said in ceql.compile(query).explain()


def test_alternatives_stand_on_their_own_lines() -> None:
    found = sections(ceql.compile("SELECT * WHERE A ; B OR (C ALL D)").explain())
    formula = found["Formula in LP-normal form (every condition at the event it is about)"]
    assert formula == "     A ; B\n  OR C ALL D"


PAIR = "SELECT * WHERE A AS x ; B AS y FILTER "
THREE = "SELECT * WHERE T AS t ALL S AS s ALL R AS r FILTER "
LOOKED_UP = "a step looks up the runs whose last event has its value; no other event can stand between"


def test_classes_of_correlated_queries() -> None:
    assert class_of("SELECT * WHERE A ; B PARTITION BY k") is Class.UNARY
    assert class_of(PAIR + "y[k = PREV.k]") is Class.CHAIN
    assert class_of(PAIR + "x.k < y.k") is Class.CARRIED
    assert class_of(PAIR + "x.k = y.k + x.v") is Class.CARRIED
    assert class_of(PAIR + "y[k > PREV.k]") is Class.CARRIED
    assert class_of("SELECT * WHERE A AS a ; B AS b ; (C AS x ; B AS y ; C AS z)+ FILTER a.k = b.k") is Class.CHAIN
    assert class_of("SELECT * WHERE (A ; B PARTITION BY [k]) ; C") is Class.CHAIN
    assert class_of("SELECT * WHERE A AS x ; B AS y PARTITION BY [x.k, y.k] WITHIN 3 EVENTS") is Class.CHAIN
    assert class_of(THREE + "t.x = s.x AND s.x = r.x AND s.y = r.y") is Class.PCEA


@pytest.mark.parametrize(
    ("query", "update", "enumeration"),
    [
        ("SELECT * WHERE (A ; B PARTITION BY [k]) ; C", "O(1)", "output-linear delay"),
        (
            "SELECT * WHERE (A ; B PARTITION BY [k]) ; C WITHIN 9 EVENTS",
            "O(log w), w the events of the window",
            "output-linear delay",
        ),
        (
            THREE + "t.x = s.x AND s.x = r.x AND s.y = r.y WITHIN 9 EVENTS",
            "O(log w), w the events of the window",
            "output-linear delay",
        ),
        (PAIR + "x.k < y.k", "O(log² w), w the events so far", "output-linear delay"),
        (PAIR + "x.k < y.k WITHIN 9 EVENTS", "O(log² w), w the events of the window", "output-linear delay"),
        (
            PAIR + "x.k < y.k AND x.v < y.v",
            "linear in the groups that an event meets: at most w^2, as 2 carried values tell them apart, w the events "
            "so far",
            "output-linear delay",
        ),
        (
            "SELECT * WHERE A AS x ; C AS z ; B AS y FILTER x.k = y.k WITHIN 9 EVENTS",
            "O(log² w), w the events of the window",
            "output-linear delay",
        ),
        (
            "SELECT * WHERE A AS x ; C ; C ; B AS y FILTER x.k = y.k WITHIN 9 EVENTS",
            "linear in the groups that an event meets: at most w, as 1 carried value tells them apart, w the events of "
            "the window",
            "output-linear delay",
        ),
        (
            "SELECT * WHERE A+ AS x ; B AS y FILTER x.k != y.k WITHIN 9 EVENTS",
            "linear in the groups that an event meets, and in the sets that tell them apart: at most 2^w, w the events "
            "of the window",
            "output-linear delay",
        ),
        ("SELECT * WHERE A ; B AS y FILTER y[PREV.k IS NULL OR PREV.v > 3]", "O(1)", "output-linear delay"),
        ("SELECT * WHERE A : A:+ AS y FILTER y[k > PREV.k]", "O(1) in the data", "output-linear delay"),
        (
            "SELECT NEXT * WHERE (A ; B PARTITION BY [k]) ; C",
            "O(1)",
            "linear in the steps between the live partial matches, at most w²",
        ),
        (
            "SELECT LAST * WHERE (A ; B PARTITION BY [k]) ; C",
            "O(1)",
            "for each event of the match, linear in the partial matches right before it",
        ),
        ("SELECT MAX * WHERE (A ; B PARTITION BY [k]) ; C", "O(1)", "output-linear delay"),
        (
            "SELECT MAX * WHERE (A ; B+ PARTITION BY [k]) ; C",
            "O(1)",
            "linear in the steps between the live partial matches, at most w²; what is left is compared",
        ),
        (
            "SELECT NEXT * WHERE A AS x ALL B AS y ALL C AS z "
            "FILTER x.k = y.k AND y.k = z.k AND y.v = z.v WITHIN 9 EVENTS",
            "O(log w), w the events of the window",
            "not bounded: NEXT compares all candidates of a position",
        ),
        (
            "SELECT x WHERE A AS x ; (B ; C PARTITION BY [k])",
            "O(1)",
            "linear in the runs of a position, of which several may be one match",
        ),
    ],
)
def test_the_bounds_of_correlated_queries(query: str, update: str, enumeration: str) -> None:
    found = guarantee(ceql.compile(query).plan)
    assert (found.update, found.enumeration) == (update, enumeration)


def test_what_matches_do_not_come_straight_from_the_automaton_for() -> None:
    query = ceql.compile("SELECT NEXT z WHERE A AS x ; (B ; C+ AS z PARTITION BY [k]) FILTER z[v > x.v]")
    assert [loss.why for loss in losses(query.plan)] == [
        "NEXT: chosen on the graph, the greatest set of events of each partial match, from the first event on",
        "the automaton is ambiguous: two runs may give the same match, so matches are compared for duplicates",
    ]
    assert all(loss.why[:40] in query.explain() for loss in losses(query.plan))


def test_a_hierarchical_rule() -> None:
    query = THREE + "t.x = s.x AND s.x = r.x AND s.y = r.y WITHIN 100 EVENTS"
    apart = " (the stream is not split by it: WITHIN n EVENTS is relative to the substream)"
    assert how(query) == [
        ("t.x = s.x", How.LOOKED_UP, LOOKED_UP.replace(";", " (one value with 's.x = r.x');") + apart),
        ("s.x = r.x", How.LOOKED_UP, LOOKED_UP.replace(";", " (one value with 't.x = s.x');") + apart),
        ("s.y = r.y", How.LOOKED_UP, LOOKED_UP),
    ]
    found = sections(ceql.compile(query).explain())
    assert found["Sides of ALL that run in parallel"] == (
        "  T AS t, S AS s and R AS r: t.x = s.x = r.x in common\n    S AS s and R AS r: s.y = r.y in common"
    )
    assert found["Indexes, where runs wait"].split("\n")[:3] == [
        "  i1  runs in state 1, under s.y, s.x; looked up by r.y, r.x",
        "  i2  runs in state 2, under r.y, r.x; looked up by s.y, s.x",
        "  i3  runs in state 3, under r.x; runs in state 4, under s.x; looked up by t.x",
    ]


def test_a_join_that_is_not_hierarchical() -> None:
    first, second = how(THREE + "t.x = s.x AND s.y = r.y")
    assert first == (
        "t.x = s.x",
        How.LOOKED_UP,
        "between neighbours it is looked up by hash; t.x: carried until s; looked up by hash at s; s.x: carried until "
        "t; looked up by hash at t; it breaks the hierarchy with 's.y = r.y': S takes part in both, T and R in one "
        "each, so ALL is a product of its sides",
    )
    assert second[:2] == ("s.y = r.y", How.LOOKED_UP)
    assert "hierarchy" not in second[2]


def test_what_all_events_share_splits_the_stream() -> None:
    query = PAIR + "x.k = y.j"
    ((text, way, why),) = how(query)
    assert (text, way) == ("x.k = y.j", How.SUBSTREAMS)
    assert why.startswith(
        "every event of a match has the same [A.k, B.j], so the stream is split by it; as nothing here"
    )
    assert "split by    [A.k, B.j]: every event of a match has it in common" in ceql.compile(query).explain()


def test_an_event_between() -> None:
    carried = "x.k: carried until y; looked up by hash at y"
    assert how("SELECT * WHERE A AS x ; C AS z ; B AS y FILTER x.k = y.k") == [("x.k = y.k", How.LOOKED_UP, carried)]
    assert how("SELECT * WHERE A AS x ; (B AS y OR C AS z ; B AS y) FILTER x.k = y.k") == [
        ("x.k = y.k", How.LOOKED_UP, f"between neighbours it is looked up by hash; {carried}")
    ]


TESTED = "carried until y; tested group by group at y"
LONGER = "SELECT * WHERE A AS x ; C+ AS z ; B AS y FILTER "


@pytest.mark.parametrize(
    ("query", "way", "why"),
    [
        (PAIR + "x.k < y.k", How.IN_ORDER, "x.k: carried until y; found in order at y"),
        (PAIR + "y.k < x.k + 90", How.IN_ORDER, "x.k + 90: carried until y; found in order at y"),
        (PAIR + "x.k != y.k", How.TESTED, f"x.k: {TESTED}"),
        (PAIR + "x.k + y.v = y.k", How.TESTED, f"x.k: {TESTED}"),
        (PAIR + "x.k = y.k OR x.v < y.v", How.TESTED, f"x.k and x.v: {TESTED}"),
        (PAIR + "y[k >= PREV.k]", How.IN_ORDER, "the last event's k: carried until y; found in order at y"),
        (PAIR + "y[PREV.k + k = 3]", How.TESTED, f"the last event's k: {TESTED}"),
        (LONGER + "z.k < y.k", How.TESTED, "the greatest z.k so far: carried until y; tested group by group at y"),
        (LONGER + "z.k > y.k", How.TESTED, "the least z.k so far: carried until y; tested group by group at y"),
        (LONGER + "z.k != y.k", How.TESTED, f"every z.k so far: {TESTED}"),
        (LONGER + "z.k + z.v * y.v = y.k", How.TESTED, f"every z.k, z.v so far: {TESTED}"),
        (
            PAIR + "y[PREV.k + k = 3 OR PREV.k IS NULL]",
            How.TESTED,
            f"the last event's k and whether PREV.k IS NULL: {TESTED}",
        ),
        (
            LONGER + "z.k < x.k",
            How.TESTED,
            "x.k: carried until z; tested group by group at z, and not found in order, as x.k must be carried on",
        ),
        (
            "SELECT * WHERE A AS x ; B AS y ; C AS z FILTER x.k < z.k AND y.k < z.k OR x.v = y.v",
            How.TESTED,
            "x.k, y.k, x.v and y.v: carried until z; tested group by group at z",
        ),
        (
            "SELECT * WHERE (A AS x OR C) ; B AS y FILTER x.k = y.k",
            How.LOOKED_UP,
            "x.k: carried until y; looked up by hash at y",
        ),
        (
            "SELECT * WHERE (A AS x OR C) ; D ; B AS y FILTER x.k < y.k",
            How.TESTED,
            f"x.k: {TESTED}; a run without that event passes",
        ),
        (
            "SELECT * WHERE A AS x OR B AS y FILTER x.k < y.k",
            How.NOTHING,
            "no way through the formula reads all the events that it is about, so it holds",
        ),
        ("SELECT * WHERE B AS y ; A FILTER y[PREV.k IS NULL]", How.AT_EVENT, "decided at y alone"),
    ],
)
def test_how_a_condition_is_decided_and_what_is_carried_until_then(query: str, way: How, why: str) -> None:
    ((_, found, said),) = how(query)
    assert (found, said) == (way, why)


def test_what_no_single_value_decides_is_tested_on_lists() -> None:
    query = "SELECT * WHERE A ; B+ AS b ; C FILTER MEDIAN(b.v) > 3"
    ((_, found, why),) = how(query)
    assert found is How.LISTED
    assert why.startswith("the list of b.v so far: carried until C; each different list is tested once at C; ")
    found_class = " ".join(sections(ceql.compile(query).explain())["Class and guarantee"].split())
    assert "in the lists that tell them apart: at most 2^w" in found_class
    assert "not bounded" not in found_class


def test_cases_that_are_each_looked_up() -> None:
    assert [(text, way) for text, way, _ in how(PAIR + "x.k = y.k OR x.v = y.v")] == [
        ("x.k = y.k", How.LOOKED_UP),
        ("x.v = y.v", How.LOOKED_UP),
    ]


def test_prev() -> None:
    assert how(PAIR + "y[k = PREV.k]") == [
        (
            "y.k = PREV.k",
            How.LOOKED_UP,
            "PREV is the last event of a run, and a step looks up the runs that have its value there",
        )
    ]
    assert how(PAIR + "y[k != PREV.k]") == [
        (
            "y.k != PREV.k",
            How.LOOKED_UP,
            "PREV is the last event of a run, and a step looks up the runs that have another value there",
        )
    ]
    both = how(PAIR + "y[k != PREV.k] AND y[v != PREV.v]")
    assert both == [
        ("y.k != PREV.k", How.TESTED, f"the last event's k: {TESTED}"),
        ("y.v != PREV.v", How.TESTED, f"the last event's v: {TESTED}"),
    ]


def test_an_automaton_that_was_made_deterministic() -> None:
    query = ceql.compile("SELECT A WHERE (A FILTER A.k = x.k)+ AS x ; A+ ; A")
    assert query.plan.loop is Loop.GROUPS
    assert query.plan.automaton.is_deterministic
    assert "one for each match: the automaton was made deterministic" in query.explain()
    asked = {(arrow.event, arrow.compares) for arrow in query.automaton().arrows()}
    assert ("A & k not NULL", "k != x.k or NULL") in asked
    assert ("A & not (A & k not NULL)", "") in asked


def test_conditions_across_events_have_a_place_and_a_part_of_the_formula() -> None:
    query = ceql.compile("SELECT *\nWHERE (A AS x ; B AS y\nFILTER y[v > x.v AND k = x.k])+ ; C")
    first, second = judged(query.plan)
    assert (first.line, first.column, first.text, first.how) == (3, 8, "y.k = x.k", How.LOOKED_UP)
    assert (second.line, second.column, second.text, second.how) == (3, 8, "y.v > x.v", How.IN_ORDER)
    assert "line 3, column 8: y.v > x.v, in each A AS x ; B AS y\n" in query.explain()


def test_a_schema_adds_columns_and_classes() -> None:
    schema = pa.schema({"type": pa.string(), "time": pa.timestamp("ms"), "price": pa.int64(), "name": pa.string()})
    query = ceql.compile("SELECT * WHERE A AS x ; B FILTER x[price > 100 AND name RLIKE 'b'] WITHIN 5 SECONDS")
    found = sections(query.explain(schema))["Over this schema"]
    lines = [line.split() for line in found.split("\n")]
    assert ["type", "string", "equality", "with", "literals", "4"] in lines
    assert ["price", "int64", "ranges", "between", "cuts", "3"] in lines
    assert ["name", "string", "a", "test", "of", "each", "text", "3"] in lines
    assert ["window", "column", "time"] in lines
    assert query.explain(schema.empty_table()) == query.explain(schema)
    with pytest.raises(ceql.SchemaError, match="no column 'price'"):
        query.explain(schema.remove(2))


def test_a_schema_tells_what_is_compared() -> None:
    schema = pa.schema({"type": pa.string(), "k": pa.int64(), "j": pa.string()})
    query = ceql.compile("SELECT * WHERE A AS x ; B AS y FILTER y[k = PREV.k]")
    lines = [line.split() for line in sections(query.explain(schema))["Over this schema"].split("\n")]
    assert ["k", "int64", "numbers", "of", "its", "values"] in lines
    with pytest.raises(ceql.SchemaError, match="cannot compare column 'k'"):
        ceql.compile("SELECT * WHERE A AS x ; B AS y FILTER y[j = PREV.k]").explain(schema)
    with pytest.raises(ceql.SchemaError, match="no column 'v'"):
        ceql.compile("SELECT * WHERE A AS x ; B AS y FILTER x.v < y.v").explain(schema)


def test_an_explanation_in_a_notebook_is_harmless() -> None:
    text = ceql.compile("SELECT * WHERE A FILTER A[p < 3 AND n = '<b>\x1b[1m']").explain()
    assert "<b>" in text
    assert "\x1b" not in text
    html = text._repr_html_()
    assert html.startswith('<pre class="ceql-explain" style="font-family: monospace">Query\n')
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


MERMAID = """\
flowchart LR
  start(( ))
  s0((0))
  s1(((1)))
  start -->|"A #amp; p #gt; 1 / A, x"| s0
  s0 -.->|"any event"| s0
  s0 -->|"B / B"| s1
"""

DOT = """\
digraph automaton {
  rankdir=LR;
  node [shape=circle];
  start [shape=point, label=""];
  s0 [shape=circle, label="0"];
  s1 [shape=doublecircle, label="1"];
  start -> s0 [label="A & p > 1 / A, x"];
  s0 -> s0 [label="any event", style=dashed];
  s0 -> s1 [label="B / B"];
}
"""

TABLE = """\
from   event      binds  to
-----  ---------  -----  --
start  A & p > 1  A, x   0
0      any event  -      0
0      B          B      1*
* final: a match ends at the event that enters it"""


def test_the_automaton_as_mermaid_dot_and_text() -> None:
    view = ceql.compile("SELECT * WHERE A AS x ; B FILTER x[p > 1]").automaton()
    assert view.to_mermaid() == MERMAID
    assert view.to_dot() == DOT
    assert str(view) == TABLE
    assert repr(view) == "<automaton: 2 states, 3 transitions>"


CHAIN_TABLE = """\
from   event           compared    binds  to
-----  --------------  ----------  -----  --
start  A               -           A      0
0      B & j not NULL  next event  B      1
1      C               j = B.j     C      2*
* final: a match ends at the event that enters it"""


def test_the_automaton_of_a_chain() -> None:
    view = ceql.compile("SELECT * WHERE A : (B ; C PARTITION BY [j])").automaton()
    assert str(view) == CHAIN_TABLE
    assert '  s1 -> s2 [label="C & j = B.j / C"];' in view.to_dot()
    assert '  s0 -->|"B #amp; j not NULL #amp; next event / B"| s1' in view.to_mermaid()


CARRYING_TABLE = """\
from   event           compared             binds  to
-----  --------------  -------------------  -----  --
start  A & k not NULL  -                    A, x   0
0      C               -                    C, z   1
1      C               -                    C, z   1
1      B               k = x.k & z.v < y.v  B, y   2*
* final: a match ends at the event that enters it
state 0 carries x.k
state 1 carries the greatest z.v so far and x.k"""


def test_states_show_what_they_carry_and_transitions_what_they_test() -> None:
    query = ceql.compile("SELECT * WHERE A AS x ; C+ AS z ; B AS y FILTER x.k = y.k AND z.v < y.v WITHIN 9 EVENTS")
    view = query.automaton()
    assert str(view) == CARRYING_TABLE
    assert '  s1 [shape=circle, label="1\\nthe greatest z.v so far\\nx.k"];' in view.to_dot()
    assert '  s1 -> s2 [label="B & k = x.k & z.v < y.v / B, y"];' in view.to_dot()
    assert '  s1(("1<br/>the greatest z.v so far<br/>x.k"))' in view.to_mermaid()
    assert '  s1 -->|"B #amp; k = x.k #amp; z.v #lt; y.v / B, y"| s2' in view.to_mermaid()
    assert sections(query.explain())["Indexes, where runs wait"].split("\n") == [
        "  i1  runs in state 0, all together, grouped by x.k; looked up by z (whatever its values)",
        "  i2  runs in state 1, all together, grouped by the greatest z.v so far, x.k; looked up by z",
        "      (whatever its values)",
        "  i3  runs in state 1, under x.k, grouped by the greatest z.v so far; looked up by y.k",
    ]


def test_a_transition_that_joins_runs() -> None:
    view = ceql.compile(THREE + "t.x = s.x AND s.x = r.x AND s.y = r.y WITHIN 9 EVENTS").automaton()
    (joined,) = [arrow for arrow in view.arrows() if arrow.compares == "y = s.y & x = s.x and x = t.x"]
    assert (joined.source, joined.event, joined.binds, joined.target) == ("1 and 0", "R", "R, r", "6")
    assert [line for line in view.to_mermaid().split("\n") if "j6" in line] == [
        "  j6[ ]",
        '  s1 ---|"y = s.y #amp; x = s.x"| j6',
        '  s0 ---|"x = t.x"| j6',
        '  j6 -->|"R / R, r"| s6',
    ]
    assert [line for line in view.to_dot().split("\n") if "j6" in line] == [
        '  j6 [shape=point, label=""];',
        '  s1 -> j6 [label="y = s.y & x = s.x", dir=none];',
        '  s0 -> j6 [label="x = t.x", dir=none];',
        '  j6 -> s6 [label="R / R, r"];',
    ]


def test_labels_of_distinct_and_of_events_that_serve_twice() -> None:
    view = ceql.compile("SELECT DISTINCT * WHERE A AS x ALL A AS y FILTER x[p > 1] AND y[q > 1]").automaton()
    assert "A & p > 1 and A & q > 1 / bound" in {a.text for a in view.arrows()}


def test_labels_are_escaped() -> None:
    text = 'a "b" \\ <c> & `d` #1 %%{init}%%\n é'
    assert dot_text(text) == 'a \\"b\\" \\\\ <c> & `d` #1 %%{init}%%\\\\n é'
    escaped = mermaid_text(text)
    assert escaped == ("a #quot;b#quot; #92; #lt;c#gt; #amp; #96;d#96; #35;1 #37;#37;{init}#37;#37;#92;n é")
    view = ceql.compile("SELECT * WHERE A FILTER A[n = 'it''s \"x\"\n']").automaton()
    assert len(view.to_mermaid().strip().split("\n")) == 4
    assert "#quot;x#quot;" in view.to_mermaid()
    assert '\\"x\\"\\\\n' in view.to_dot()


def test_a_large_automaton_is_shortened_in_the_explanation() -> None:
    query = ceql.compile("SELECT * WHERE " + " ALL ".join(f"T{k}" for k in range(6)))
    assert "more transitions" in query.explain()
    assert "more transitions" not in str(query.automaton())


def test_a_division_that_may_be_by_zero_is_noted() -> None:
    text = "SELECT a.v / a.w AS r WHERE A AS a ; B AS b FILTER b[v % (w - 1) = 0] AND a.v / b.v > 1 AND a[v / 2 > 1]"
    assert sections(ceql.compile(text).explain())["Worth knowing"].split("\n") == [
        "  line 1, column 8: a.v / a.w is NULL where a.w is 0, as in SQL",
        "  line 1, column 54: v % (w - 1) is NULL where w - 1 is 0, as in SQL",
        "  line 1, column 75: a.v / b.v is NULL where b.v is 0, as in SQL",
    ]
    assert "Worth knowing" not in ceql.compile("SELECT a.v / 2 WHERE A AS a FILTER a[v % 10 = 3]").explain()
    (match,) = ceql.match("SELECT a.v / a.w AS r WHERE A AS a", [{"type": "A", "v": 1, "w": 0}])
    assert match.measures == {"r": None}


def test_how_far_not_at_the_beginning_looks_back_is_noted_and_told_once() -> None:
    text = "SELECT * WHERE NOT A AS n ; B AS b ; C FILTER n.k = b.k WITHIN 5 MINUTES -- noted once"
    with pytest.warns(UserWarning, match="NOT at the beginning looks back from the last event") as caught:
        query = ceql.compile(text)
    assert [warning.filename for warning in caught] == [__file__]
    assert str(caught[0].message).endswith("write NOT A AS n ; (B AS b ; C WITHIN 5 MINUTES)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ceql.compile(text)
        ceql.compile("SELECT * WHERE NOT A AS n ; (B AS b ; C WITHIN 5 MINUTES) FILTER n.k = b.k")
        ceql.compile("SELECT * WHERE NOT A ; B AS b WITHIN 6 MINUTES")  # its first event is its last
        ceql.compile("SELECT * WHERE B ; NOT A ; C WITHIN 6 MINUTES")
        ceql.compile("SELECT * WHERE NOT A ; B ; C")
    assert "  NOT at the beginning looks back" in query.explain()


def test_the_two_ways_to_look_back() -> None:
    events = [{"type": kind, "time": time} for kind, time in [("A", 0), ("B", 60), ("C", 360)]]
    looks = "SELECT * WHERE NOT A ; B ; C WITHIN 5 MINUTES"
    other = "SELECT * WHERE NOT A ; (B ; C WITHIN 5 MINUTES)"
    assert [m.events for m in ceql.match(looks, events, time_unit="s")] == [(1, 2)]
    assert [m.events for m in ceql.match(other, events, time_unit="s")] == []
