"""What is too large, or no text, is refused with its place."""

from __future__ import annotations

from contextlib import suppress

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


def test_conditions_without_end_are_an_error_of_the_query():
    many = " OR ".join(f"A[v = {k}]" for k in range(10_000))
    with suppress(ceql.QueryError):  # and no RecursionError
        ceql.compile(f"SELECT * WHERE A FILTER {many}")
