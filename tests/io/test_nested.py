"""Fields of nested attributes, in every place where an attribute may stand, from dicts, Arrow and JSON lines."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import ceql

EVENTS = [
    {"type": "T", "k": 1, "ctx": {"path": "/", "user": {"id": 7}}},
    {"type": "T", "k": 1, "ctx": {"path": "/x", "user": {"id": 8}}},
    {"type": "S", "k": 2, "ctx": {"path": "/", "user": {"id": 7}}},
]
PAIR = [(0, 2)]
CASES = {
    "SELECT * WHERE T AS t FILTER t[ctx.path = '/']": [(0,)],
    "SELECT * WHERE T AS t FILTER t.ctx.path = '/'": [(0,)],
    "SELECT * WHERE T AS t FILTER t.ctx.path LIKE '/_'": [(1,)],
    "SELECT * WHERE T AS t FILTER t[ctx.user.id + k = 9]": [(1,)],
    "SELECT * WHERE T AS t ; S AS s FILTER t.ctx.user.id = s.ctx.user.id": PAIR,
    "SELECT * WHERE T AS t ; S AS s FILTER s[ctx.user.id = t.ctx.user.id]": PAIR,
    "SELECT * WHERE T AS t ; S AS s FILTER s[ctx.user.id = PREV.ctx.user.id]": PAIR,
    "SELECT * WHERE T AS t ; S AS s FILTER t.ctx.user.id > s.ctx.user.id": [(1, 2)],
    "SELECT * WHERE T ; S PARTITION BY `ctx.user.id`": PAIR,
    "SELECT t[`ctx.path`] WHERE T AS t FILTER t[k = 1]": [(0,), (1,)],
}


@pytest.mark.parametrize("text", CASES)
def test_a_field_is_an_attribute(text, tmp_path):
    query = ceql.compile(text)
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    for events in (EVENTS, pa.Table.from_pylist(EVENTS), path, iter(EVENTS)):
        assert [match.events for match in query.run(events)] == CASES[text]
    recognizer, found = query.recognizer(), []
    for event in EVENTS:
        found += [match.events for match in recognizer.feed([event])]
        recognizer = query.restore(recognizer.snapshot())
    assert found == CASES[text]


def test_a_column_of_that_very_name_comes_first():
    events = pa.table({"type": ["T", "T"], "ctx.path": ["/", "/x"], "ctx": [{"path": "/x"}, {"path": "/"}]})
    assert [match.events for match in ceql.match("SELECT * WHERE T AS t FILTER t[ctx.path = '/']", events)] == [(0,)]


def test_fields_that_come_later():
    recognizer = ceql.compile("SELECT * WHERE T AS t FILTER t[ctx.b = 'x']").recognizer()
    pieces: list[dict[str, object]] = [
        {"k": 1},
        {"ctx": {"a": 1}},
        {"ctx": {"b": "x"}},
        {"ctx": None},
        {"ctx": {"a": 2, "b": "x"}},
    ]
    found = [match.events for piece in pieces for match in recognizer.feed([{"type": "T", **piece}])]
    assert found == [(2,), (4,)]


def test_a_field_that_is_not_there():
    table = pa.Table.from_pylist(EVENTS)
    with pytest.raises(ceql.SchemaError, match=r"no column 'ctx\.pth'(?s:.*)Did you mean 'ctx\.path'\?"):
        ceql.match("SELECT * WHERE T AS t FILTER t[ctx.pth = '/']", table)
    with pytest.raises(ceql.SchemaError, match=r"no column 'ctx\.user\.ids'(?s:.*)Did you mean 'ctx\.user\.id'\?"):
        ceql.match("SELECT * WHERE T AS t ; S AS s FILTER t.ctx.user.ids = s.ctx.user.id", table)


@pytest.mark.parametrize(
    "formula", ["T AS t FILTER t[c.p = 1]", "T AS c1 FILTER c1[c.p = 1]", "(T AS t ; C?) FILTER t[c.p = 1]"]
)
def test_a_field_may_have_nearly_the_name_of_a_type_or_variable(formula):
    events = [{"type": "T", "c": {"p": 2}}, {"type": "T", "c": {"p": 1}}]
    query = ceql.compile(f"SELECT * WHERE {formula}")
    for given in (events, pa.Table.from_pylist(events)):
        assert [match.events for match in query.run(given)] == [(1,)]


def test_a_variable_that_is_misspelt_is_told():
    query = ceql.compile("SELECT * WHERE T AS first ; S AS second FILTER second[k > frst.k]")
    said = r"no column 'frst', and nothing binds 'frst'(?s:.*)\^\^\^\^(?s:.*)Did you mean 'first'\?"
    with pytest.raises(ceql.SchemaError, match=said):
        query.run(pa.Table.from_pylist(EVENTS))
    with pytest.warns(ceql.NoMatchWarning, match=said):  # another event may have the column
        query.run(EVENTS)
