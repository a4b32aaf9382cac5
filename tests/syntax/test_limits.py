"""What is too large, or no text, is refused with its place."""

from __future__ import annotations

import pytest

import ceql
from ceql.syntax import limits


def test_half_of_a_character_is_no_text():
    with pytest.raises(ceql.QueryError, match="half of a character") as error:
        ceql.compile("SELECT * WHERE A FILTER A[s = '\ud800']")
    assert error.value.column == 32


def test_a_long_chain_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "MAX_CHAIN", 10)
    assert ceql.compile("SELECT * WHERE " + " ; ".join(["A"] * 10))
    with pytest.raises(ceql.QueryError, match="11 items one after the other; at most 10 are compiled"):
        ceql.compile("SELECT * WHERE " + " ; ".join(["A"] * 11))


def test_many_events_are_refused(monkeypatch):
    monkeypatch.setattr(limits, "MAX_EVENTS", 10)
    with pytest.raises(ceql.QueryError, match="names 12 events; at most 10 are compiled"):
        ceql.compile("SELECT * WHERE " + " OR ".join(["A ; B"] * 6))


def test_as_many_conditions_as_one_likes_are_no_recursion():
    many = " OR ".join(f"A[v = {k}]" for k in range(10_000))
    query = ceql.compile(f"SELECT * WHERE A FILTER {many}")
    events = [{"type": "A", "v": v} for v in (-1, 0, 9_999, 10_000)]
    assert [match.events for match in query.run(events)] == [(1,), (2,)]
