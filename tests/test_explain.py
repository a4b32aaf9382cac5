"""`Query.explain` and `Query.automaton`: every stage can be read, for every query there is."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import ceql
import corpus
from ceql.explain.automaton import dot_text, mermaid_text
from ceql.explain.guarantee import Class, constructs, query_class
from ceql.explain.text import WIDTH


def compilable() -> list[corpus.Case]:
    """The cases of the corpus whose query is sound (an expected error may be one of syntax)."""
    found = []
    for case in corpus.load():
        try:
            ceql.compile(case.query)
        except ceql.CeqlError:
            continue
        found.append(case)
    return found


def sections(text: str) -> dict[str, str]:
    """Headings and what stands below them."""
    return dict(part.split("\n", 1) for part in text.strip().split("\n\n"))


def class_of(query: str) -> Class:
    return query_class(ceql.compile(query).plan)


@pytest.mark.parametrize("case", compilable(), ids=str)
def test_every_query_of_the_corpus_is_explained(case: corpus.Case) -> None:
    query = ceql.compile(case.query)
    text = query.explain()
    assert max(len(line) for line in text.split("\n")) <= WIDTH
    assert all(c == "\n" or c.isprintable() for c in text)
    found = sections(text)
    assert "guarantee" in text
    if query.plan.correlations:
        assert "not available in this version" in text
        for correlation in query.plan.correlations:
            assert correlation.construct[:20] in found["Conditions across events"]
        with pytest.raises(ceql.QueryError, match="compares events with each other"):
            query.automaton()
    else:
        view = query.automaton()
        arrows = len(list(view.arrows()))
        assert len(re.findall(r" -> ", view.to_dot())) >= arrows
        assert len(re.findall(r"^  \w+ -\.?->|^  \w+ -->", view.to_mermaid(), re.M)) == arrows


def test_the_sections_of_a_query() -> None:
    query = ceql.compile(
        "select next x, y from S where SELL as x ; BUY+ as y : HOLD filter x[price > 100 and name like 'a%'] "
        "partition by k within 30 seconds consume by any limit 3"
    )
    found = sections(query.explain())
    assert found["Query"].split("\n")[0] == "  SELECT NEXT x, y"
    formula = found["Formula in LP-normal form (every condition at the event it is about)"]
    assert formula == "  (SELL & price > 100 & name LIKE 'a%') AS x ; (BUY AS y)+ : HOLD"
    clauses = found["Clauses, in the order they apply"]
    names = re.findall(r"^  (\w+(?: BY)?)  ", clauses, re.M)
    assert names == ["FROM", "PARTITION BY", "SELECT", "WITHIN", "strategy", "LIMIT", "CONSUME BY"]
    assert "end - start <= 30 seconds, measured in event time" in clauses
    assert "NEXT: by replay" in clauses
    assert found["Guards"] == "  g1  SELL & price > 100 & name LIKE 'a%'\n  g2  BUY\n  g3  HOLD"
    assert "skips events  no: contiguity makes every event count" in found["Reading"]
    assert "attributes    price, name, k" in found["Reading"]
    assert "linear in the window's candidate starts" in found["Class and guarantee"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * WHERE A", "ALL: every match is kept (the default)"),
        ("SELECT ANY * WHERE A", "ANY: of the matches that end at an event, the first is kept"),
        ("SELECT STRICT * WHERE A ; B", "STRICT: inside the automaton"),
        ("SELECT MAX * WHERE A+", "MAX: inside the automaton"),
        ("SELECT LAST * WHERE A+ WITHIN 5 EVENTS", "LAST: by replay"),
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


def test_classes_of_correlated_queries() -> None:
    pair = "SELECT * WHERE A AS x ; B AS y FILTER "
    assert class_of(pair + "x.k = y.k") is Class.PCEA
    assert class_of(pair + "x.k < y.k") is Class.CANDIDATES
    assert class_of(pair + "x.k != y.k") is Class.CANDIDATES
    assert class_of(pair + "x.k = y.k + 1") is Class.CANDIDATES
    assert class_of(pair + "y[k = PREV.k]") is Class.CHAIN
    assert class_of(pair + "y[NOT k = PREV.k]") is Class.CHAIN
    assert class_of(pair + "y[k > PREV.k]") is Class.CANDIDATES
    assert class_of("SELECT * WHERE (A ; B PARTITION BY [k])") is Class.CHAIN
    assert class_of("SELECT * WHERE A AS x ; B AS y PARTITION BY [x.k, y.k]") is Class.CHAIN
    assert class_of("SELECT * WHERE A ; B PARTITION BY k") is Class.UNARY


def test_a_join_that_is_not_hierarchical() -> None:
    # R(x), S(x, y), T(y): the textbook case
    three = "SELECT * WHERE R AS r ALL S AS s ALL T AS t FILTER r.x = s.x AND "
    assert class_of(three + "s.y = t.y") is Class.CANDIDATES
    assert class_of(three + "s.x = t.x") is Class.PCEA


def test_correlated_constructs_have_a_place_and_a_reason() -> None:
    query = ceql.compile("SELECT *\nWHERE A AS x ; B AS y\nFILTER y[v > x.v AND k = x.k] AND x.k = y.k")
    first, second = constructs(query.plan)
    assert (first.line, first.column, first.kind) == (3, 8, Class.CANDIDATES)
    assert (second.line, second.column, second.kind) == (3, 35, Class.PCEA)
    text = query.explain()
    assert "line 3, column 8: the comparison 'y[v > x.v AND k = x.k]' of two variables" in text
    assert "checked on candidates: 'v > x.v' is not an equality of two attributes" in text


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


def test_an_explanation_in_a_notebook_is_harmless() -> None:
    text = ceql.compile("SELECT * WHERE A FILTER A[p < 3 AND n = '<b>\x1b[1m']").explain()
    assert "<b>" in text
    assert "\x1b" not in text
    html = text._repr_html_()
    assert html.startswith('<pre class="ceql-explain">Query\n')
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
    assert view._repr_mimebundle_() == {"text/plain": TABLE, "text/vnd.mermaid": MERMAID}


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
