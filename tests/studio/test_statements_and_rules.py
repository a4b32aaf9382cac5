"""SQL over the events of the studio, and the rules of a folder, asked as the page asks; then in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.studio.browser import Open, picture
from tests.studio.served import Studio

import ceql
from ceql.cli.demo import payments

RISES = """SELECT * FROM payments MATCH_RECOGNIZE (
  PARTITION BY card ORDER BY time
  MEASURES FIRST(time) AS begins, LAST(up.amount) AS highest, COUNT(up.*) AS steps
  PATTERN (low up{4,})
  DEFINE up AS amount > PREV(amount))"""


def test_a_statement_gives_the_rows_of_python(studio: Studio) -> None:
    found = studio.tell("/api/sql", query=RISES, data=studio.load())
    rows = ceql.match_recognize(RISES, payments())
    assert found["total"] == rows.num_rows > 3
    assert [head["name"] for head in found["heads"]] == rows.column_names
    names = rows.column_names
    assert [int(row[names.index("steps")]) for row in found["rows"]] == rows["steps"].to_pylist()


def test_only_the_first_rows_of_many_are_sent(studio: Studio) -> None:
    each = "SELECT time FROM e MATCH_RECOGNIZE (ORDER BY time ALL ROWS PER MATCH PATTERN (a) DEFINE a AS TRUE)"
    found = studio.tell("/api/sql", query=each, data=studio.load())
    assert (found["total"], len(found["rows"])) == (20_000, 1000)


def test_streams_are_tables_of_their_names(studio: Studio, tmp_path: Path) -> None:
    for name, value in (("Door", 1), ("Load", 2)):
        pq.write_table(pa.table({"time": [1, 2], "v": [value, value + 1]}), tmp_path / f"{name}.parquet")
    streams = {name: str(tmp_path / f"{name}.parquet") for name in ("Door", "Load")}
    data = studio.tell("/api/data", streams=streams)["id"]
    sql = """SELECT highest FROM Load MATCH_RECOGNIZE (
        ORDER BY time MEASURES LAST(b.v) AS highest PATTERN (a b) DEFINE b AS v > PREV(v))"""
    assert studio.tell("/api/sql", query=sql, data=data)["rows"] == [["3"]]


@pytest.mark.parametrize(
    ("query", "dialect", "said"),
    [
        ("SELECT 1", "", "MATCH_RECOGNIZE"),
        (RISES.replace("amount > ", "amont > "), "", "amont"),
        (RISES, "mysql", "dialect"),
    ],
)
def test_what_is_wrong_with_a_statement_is_said(studio: Studio, query: str, dialect: str, said: str) -> None:
    assert said in studio.tell("/api/sql", 422, query=query, data=studio.load(), dialect=dialect)["problem"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three rules: one is right, one fails its test, one does not compile."""
    own = tmp_path / "cards"
    own.mkdir()
    events = [{"type": kind, "time": time} for time, kind in enumerate("ABA")]
    right = "-- severity: high\n-- tags: card, theft\nSELECT * WHERE A ; B"
    (own / "pair.ceql").write_text(right)
    (own / "pair.tests.json").write_text(json.dumps([{"events": events, "matches": [[0, 1]]}]))
    (own / "other.ceql").write_text("SELECT * WHERE B ; A")
    (own / "other.tests.json").write_text(json.dumps([{"events": events, "count": 2}]))
    (own / "wrong.ceql").write_text("SELECT * WHERE A ;")
    return tmp_path


def test_rules_are_listed_with_their_tests(studio: Studio, folder: Path) -> None:
    studio.session.folder = folder
    assert studio.ask("/api/rules")["folders"] == ["cards"]
    before = studio.ask("/api/rules", folder="cards")
    assert ([file["name"] for file in before["files"]], before["rules"]) == (
        ["other.ceql", "pair.ceql", "wrong.ceql"],
        None,
    )
    found = {rule["name"]: rule for rule in studio.ask("/api/rules", folder="cards", check=1)["rules"]}
    assert (found["pair"]["complaints"], found["pair"]["tests"], found["pair"]["tags"]) == ([], 1, ["card", "theft"])
    assert found["other"]["complaints"] == ["test 1: it finds 1, and 2 are expected"]
    assert "line 1" in found["wrong"]["complaints"][0]
    (folder / "empty").mkdir()
    assert "has no rules" in studio.ask("/api/rules", 422, folder="empty", check=1)["problem"]
    assert "no folder" in studio.ask("/api/rules", 422, folder="../..")["problem"]


def test_a_statement_is_written_and_run_on_the_page(open_page: Open) -> None:
    page = open_page()
    page.select_option("#example", "maximal")
    page.wait_for_selector(".detail h2")
    page.click("#tab-sql")
    assert "ORDER BY time" in page.input_value("#sql-text")
    page.click("#sql-run")
    page.wait_for_selector("#sql-said:has-text('rows')")
    assert page.locator(".rows-of-sql tbody tr").count() > 0
    page.fill("#sql-text", RISES)
    page.press("#sql-text", "Control+Enter")
    page.wait_for_selector(".rows-of-sql th:has-text('highest')")
    rows = ceql.match_recognize(RISES, payments())
    page.wait_for_function(f"() => document.querySelectorAll('.rows-of-sql tbody tr').length === {rows.num_rows}")
    picture(page, "sql")
    page.fill("#sql-text", RISES.replace("PREV", "PREVIOUS"))
    page.click("#sql-run")
    page.wait_for_selector("#sql-problem:has-text('PREVIOUS')")


def test_a_rule_is_taken_into_the_editor(open_page: Open, served: Studio, folder: Path) -> None:
    before, served.session.folder = served.session.folder, folder
    try:
        page: Any = open_page()
        page.click("#tab-rules")
        page.click(".folders button:has-text('cards/')")
        page.click("text=Check the rules in this folder")
        page.wait_for_selector("h2:has-text('3 rules, 2 failed')")
        assert page.locator(".rules tr.fails").count() == 2
        picture(page, "rules")
        page.click(".rules th button:has-text('pair')")
        page.wait_for_selector(".cm-content:has-text('SELECT * WHERE A ; B')")
    finally:
        served.session.folder = before
