"""What a user does with the table of matches and around it, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studio.browser import Open, load_file, picture, run_example, write
from tests.studio.served import Studio


def cells(page: Any, column: int) -> list[str]:
    rows = page.eval_on_selector_all(".rows .row", "rows => rows.map(r => [...r.children].map(c => c.textContent))")
    return [row[column] for row in rows]


def test_the_table_is_sorted_and_filtered(open_page: Open) -> None:
    page = open_page()
    run_example(page, "measures")
    assert page.locator(".row.head > span >> nth=1").inner_text() == "tries"
    page.click(".row.head button:has-text('tried')")
    page.wait_for_function("() => document.querySelector('.rows .row').dataset.match === '4'")
    assert cells(page, 2) == sorted(cells(page, 2), key=float, reverse=True)
    page.fill("#filter", "tries > 3")
    page.wait_for_selector(".grid-bar:has-text('5 of 7')")
    page.focus("#table")
    page.keyboard.press("Home")
    page.wait_for_selector(".detail h2:has-text('Match 5')")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".detail h2:has-text('Match 4')")
    picture(page, "table")
    page.fill("#filter", "tires > 3")
    page.wait_for_selector(".grid-bar .wrong:has-text(\"Did you mean 'tries'?\")")


def test_a_match_is_gone_to_by_its_number(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    page.fill("#jump", "6")
    page.press("#jump", "Enter")
    page.wait_for_selector(".detail h2:has-text('Match 6')")
    page.wait_for_selector(".row.chosen[data-match='5']")


def test_columns_are_hidden_and_resized_and_stay_so(open_page: Open) -> None:
    page = open_page()
    run_example(page, "measures")
    page.click(".chooser summary")
    page.uncheck(".chooser label:has-text('drawn') input")
    assert "drawn" not in page.inner_text(".row.head")
    head = page.locator(".row.head > span >> nth=1")
    before = head.bounding_box()["width"]
    grip = head.locator(".grip").bounding_box()
    page.mouse.move(grip["x"] + 2, grip["y"] + 5)
    page.mouse.down()
    page.mouse.move(grip["x"] + 62, grip["y"] + 5)
    page.mouse.up()
    assert head.bounding_box()["width"] == pytest.approx(before + 60, abs=3)
    page.reload()
    page.wait_for_selector("[data-match='6']")
    assert "drawn" not in page.inner_text(".row.head")
    assert page.locator(".row.head > span >> nth=1").bounding_box()["width"] == pytest.approx(before + 60, abs=3)


@pytest.mark.parametrize("width", [1360, 390])
def test_no_number_and_no_time_is_cut(open_page: Open, width: int) -> None:
    page = open_page(size={"width": width, "height": 800})
    run_example(page, "measures")
    cut = "cells => cells.filter(c => c.scrollWidth > c.clientWidth).map(c => c.textContent)"
    assert page.eval_on_selector_all(".grid .row > span", cut) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_panes_are_resized_by_hand_and_by_keys(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    before = page.locator("#left").bounding_box()["width"]
    page.focus("[aria-label='Width of the query']")
    page.keyboard.press("ArrowRight")
    wider = page.locator("#left").bounding_box()["width"]
    assert wider > before + 10
    tall = page.locator("#timeline").bounding_box()["height"]
    handle = page.locator(".splitter.down").bounding_box()
    page.mouse.move(handle["x"] + 40, handle["y"])
    page.mouse.down()
    page.mouse.move(handle["x"] + 40, handle["y"] - 100)
    page.mouse.up()
    assert page.locator("#timeline").bounding_box()["height"] == pytest.approx(tall - 100, abs=4)
    page.reload()
    page.wait_for_selector("[data-match='6']")
    assert page.locator("#left").bounding_box()["width"] == pytest.approx(wider, abs=2)


def test_no_match_says_why_in_its_place(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    write(page, "SELECT * WHERE Payment AS a ; Withdrawal AS b FILTER a[amount > 100000]")
    page.click("#run")
    page.wait_for_selector("#nothing:has-text('No match was found in 20,000 events')")
    page.click("#nothing .diagnose-it")
    page.wait_for_selector("#nothing .reasons:has-text('is false for all 17,633 events')")
    picture(page, "nothing")
    run_example(page)
    assert page.is_hidden("#nothing")
    assert page.is_visible("#table")


def test_an_error_is_said_once(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    write(page, "SELECT * WHERE Payment AS p FILTER p[amont > 1]")
    page.click("#run")
    page.wait_for_selector("#problem.error:has-text('amont')")
    page.wait_for_timeout(400)
    assert page.locator(".toast.shown").count() == 0
    assert page.inner_text("#note") == ""


def test_queries_are_kept_and_saved(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    first = page.inner_text(".cm-content")
    write(page, "SELECT * WHERE Payment AS other WITHIN 3 EVENTS")
    page.click("#show-queries")
    page.fill("#query-name", "mine")
    page.click("#save-query")
    page.click("#recent-queries .use")
    assert page.inner_text(".cm-content").split() == first.split()
    page.reload()
    page.wait_for_selector("#show-queries:enabled")
    page.click("#show-queries")
    page.click("#saved-queries .use:has-text('mine')")
    assert "other" in page.inner_text(".cm-content")
    page.click("#show-queries")
    page.click("[aria-label='Delete mine']")
    page.wait_for_selector("#saved-queries:has-text('None yet')")


def test_a_file_is_chosen_from_the_folder(
    open_page: Open, served: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/mine.jsonl").write_text('{"type": "A", "time": 1}\n')
    monkeypatch.setattr(served.session, "folder", tmp_path.resolve())
    page = open_page()
    page.click("#open")
    page.click("#files button:has-text('sub/')")
    page.click("#files button:has-text('mine.jsonl')")
    picture(page, "files")
    page.click("#load")
    page.wait_for_selector("strong:has-text('mine.jsonl')")


def test_paths_of_nested_columns_are_completed(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "nested.jsonl"
    path.write_text('{"type": "A", "time": 1, "user": {"id": 1, "geo": {"city": "Rome"}}}\n')
    page = open_page()
    load_file(page, path)
    write(page, "SELECT * WHERE A AS a FILTER a.user.")
    page.keyboard.type("g")
    page.wait_for_selector(".cm-tooltip-autocomplete li:has-text('geo.city')")


def test_the_timeline_explains_its_marks(open_page: Open) -> None:
    page = open_page()
    run_example(page, "fraud")
    assert page.locator(".legend .also").all_inner_texts() == [
        "a match",
        "other events of the card",
        "window of the chosen match",
        "where matches end",
    ]
