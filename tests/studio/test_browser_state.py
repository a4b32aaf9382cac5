"""What the page shows belongs together: the token, the data, the query, the matches and what is chosen of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet
from tests.studio.browser import Open, counter, load_file, picture, run_example, write
from tests.studio.served import TOKEN, Studio, serving

from ceql.studio.data import Columns
from ceql.studio.loading import sample
from ceql.studio.session import Session


def write_events(path: Path, types: str) -> Path:
    path.write_text("".join(json.dumps({"type": t, "time": k}) + "\n" for k, t in enumerate(types)))
    return path


# --- the token ---


def test_the_token_is_in_no_cookie_and_leaves_the_address(open_page: Open, served: Studio) -> None:
    page = open_page()
    run_example(page)
    assert page.context.cookies() == []
    assert TOKEN not in page.url
    page.reload()
    page.wait_for_selector("[data-match='6']")
    page.click("#share")
    link = page.evaluate("navigator.clipboard.readText()")
    assert TOKEN not in link
    other = page.context.new_page()  # another tab of the same browser
    other.goto(link)
    other.wait_for_selector("[data-match='6']")


def test_another_port_of_the_host_is_told_nothing(open_page: Open) -> None:
    """A page of another user's server, in the same browser."""
    page = open_page()
    run_example(page)
    with serving(Session()) as other:
        other_page = page.context.new_page()
        sent: list[dict[str, str]] = []
        other_page.on("request", lambda request: sent.append(request.all_headers()))
        other_page.goto(f"http://127.0.0.1:{other.port}/")
        other_page.wait_for_selector("#problem.error")
        assert "Use the address that the studio has printed" in other_page.inner_text("#problem")
        assert len(sent) > 3
        assert not any(TOKEN in value for headers in sent for value in headers.values())
        assert other_page.evaluate("localStorage.length") == 0
        picture(other_page, "no-token")
        other_page.goto(other.address)  # only its fragment is another one: the page is not loaded again by that
        other_page.wait_for_selector("#open:enabled")


def test_matches_are_saved(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    page.click("#tab-code")
    saved = {}
    for kind in ("Parquet", "CSV", "Timeline as SVG", "Query as a file"):
        with page.expect_download() as got:
            page.click(f"#code button:has-text('{kind}')")
        saved[got.value.suggested_filename] = Path(got.value.path())
    assert set(saved) == {"matches.parquet", "matches.csv", "timeline.svg", "query.ceql"}
    assert parquet.read_table(saved["matches.parquet"]).num_rows == csv.read_csv(saved["matches.csv"]).num_rows == 7
    assert "Payment+" in saved["query.ceql"].read_text()


def test_the_picture_is_as_wide_in_every_view(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    widths = []
    for tab, button in (("matches", "#svg"), ("code", "#code button:has-text('SVG')")):
        page.click(f"#tab-{tab}")
        with page.expect_download() as got:
            page.click(button)
        drawn = Path(got.value.path()).read_text()
        widths.append(re.findall(r'<svg [^>]*width="(\d+)"', drawn))
        assert drawn.count("<circle") > 7
    assert widths[0] == widths[1]
    assert int(widths[0][0]) > 700


# --- data and query ---


def test_the_printed_address_shows_its_data_after_others_were_opened(browser: Any, fraud: str) -> None:
    with serving(Session(query=fraud, data=sample("first", "fraud", Columns()))) as studio:
        for _ in range(5):
            studio.load()
        page = browser.new_page()
        page.goto(studio.address)
        page.wait_for_selector("[data-match='6']")
        assert "20,000 events" in page.inner_text("#data")
        page.close()


def test_another_file_leaves_nothing_of_the_matches_before(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    run_example(page, "fraud")
    page.click("#tab-diagnose")
    page.wait_for_selector(".bars")
    load_file(page, write_events(tmp_path / "few.jsonl", "AB"))
    page.wait_for_selector("#diagnose:has-text('have changed')")
    assert page.locator(".bars").count() == 0
    page.click("#tab-matches")
    page.wait_for_selector(".detail:has-text('Choose a match')")
    assert page.locator("[data-match]").count() == 0
    assert counter(page, "matches") == "\N{EN DASH}"
    page.click("#tab-automaton")
    page.wait_for_selector(".state")
    assert page.locator(".state.lit").count() == 0


def test_a_run_ends_when_another_file_is_opened(open_page: Open, served: Studio, tmp_path: Path) -> None:
    page = open_page()
    run_example(page)
    write(page, "SELECT * WHERE Payment+ ; Withdrawal")
    page.click("#run")
    page.wait_for_selector("#cancel", state="visible")
    load_file(page, write_events(tmp_path / "few.jsonl", "AB"))
    page.wait_for_timeout(1500)  # a watch of the run before would have shown it again
    assert page.is_hidden("#cancel")
    assert counter(page, "events") == "\N{EN DASH}"
    assert page.locator("[data-match]").count() == 0


def test_an_edited_query_says_that_the_matches_are_of_the_one_before(open_page: Open, fraud: str) -> None:
    page = open_page()
    run_example(page, "fraud")
    assert page.is_hidden("#outdated")
    write(page, fraud.replace("500", "800"))
    page.wait_for_selector("#outdated", state="visible")
    picture(page, "outdated")
    page.click("#step-through")
    page.wait_for_selector("#toast:has-text('Run the query first')")
    page.wait_for_function("() => !location.hash.includes('match=')")
    page.click("#tab-code")
    page.wait_for_selector("#code:has-text('Matches of the query before')")
    page.click("#tab-matches")
    write(page, fraud)
    page.wait_for_selector("#outdated", state="hidden")
    write(page, fraud.replace("500", "800"))
    page.click("#again")
    page.wait_for_selector("#outdated", state="hidden")


def test_a_diagnosis_can_be_cancelled_and_begun_again(open_page: Open) -> None:
    page = open_page()
    run_example(page, "fraud")
    held: list[Any] = []
    page.route("**/api/diagnose", lambda route: held.append(route))
    page.click("#tab-diagnose")
    page.click(".cancel-diagnosis")
    page.wait_for_selector("#diagnose:has-text('was cancelled')")
    page.unroute("**/api/diagnose")
    page.click("#diagnose .diagnose-it")
    page.wait_for_selector(".bars")


def test_the_counts_of_a_stream_grow(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    path.touch()
    page = open_page()
    load_file(page, path, follow=True)
    assert "0 events" in page.inner_text("#data")
    with path.open("a") as file:
        file.write('{"type": "A", "time": 1}\n')
    page.wait_for_selector("#data:has-text('1 event')")  # without a run
    page.wait_for_selector("#columns .chip:has-text('A')")
    write(page, "SELECT * WHERE A ; B")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#note:has-text('Following')")
    with path.open("a") as file:
        file.write('{"type": "B", "time": 2}\n{"type": "B", "time": 3}\n')
    page.wait_for_selector("#data:has-text('3 events')")
    page.wait_for_selector("#columns .chip:has-text('B')")
    page.wait_for_selector("[data-match='1']")
    picture(page, "live")
    page.click("#cancel")


def test_an_empty_path_is_no_folder(open_page: Open) -> None:
    page = open_page()
    page.click("#open")
    page.click("#load")
    page.wait_for_selector("#loader-problem:has-text('say which file')")


# --- what is chosen stays in view ---


def test_the_arrow_keys_keep_the_match_on_the_timeline(open_page: Open, tmp_path: Path) -> None:
    """A hundred keys, each with a match of its own, one after the other."""
    rows = range(200)
    times = [30 * (k - k % 2) + k % 2 for k in rows]
    table = pa.table({"type": ["A", "B"] * 100, "time": times, "k": [k // 2 for k in rows]})
    parquet.write_table(table, tmp_path / "keys.parquet")
    page = open_page()
    load_file(page, tmp_path / "keys.parquet")
    write(page, "SELECT * WHERE A ; B PARTITION BY k")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".detail h2:has-text('Match 1')")
    page.focus("canvas")
    for k in range(2, 41):
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(f".detail h2:text-is('Match {k}')")
    page.wait_for_function(IN_VIEW)  # its lane, though all of the time is shown
    page.click("text=Zoom to it")
    page.focus("canvas")
    before = page.inner_text(".range")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".detail h2:text-is('Match 41')")
    page.wait_for_function("before => document.querySelector('.range').textContent !== before", arg=before)
    page.wait_for_function(IN_VIEW)
    picture(page, "arrow")


# the lane of the chosen match has a mark at its left
IN_VIEW = """() => {
  const canvas = document.querySelector("canvas"), context = canvas.getContext("2d");
  const accent = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
  const wanted = [1, 3, 5].map((k) => parseInt(accent.slice(k, k + 2), 16));
  const pixels = context.getImageData(1, 80, 1, canvas.height - 80).data;
  for (let k = 0; k < pixels.length; k += 4) if (wanted.every((part, j) => pixels[k + j] === part)) return true;
  return false;
}"""


def test_the_arrow_keys_keep_the_match_in_the_table(open_page: Open, tmp_path: Path) -> None:
    """More rows than a browser can lay out one below the other."""
    n = 20_000
    parquet.write_table(pa.table({"type": ["A", "B"] * (n // 2), "time": range(n)}), tmp_path / "many.parquet")
    page = open_page()
    load_file(page, tmp_path / "many.parquet")
    write(page, "SELECT * WHERE A ; B WITHIN 139 EVENTS")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".detail h2")
    assert int(counter(page, "matches").replace(",", "")) > 600_000
    page.focus("#table")
    for key in ("PageDown", "ArrowDown", "End", "ArrowUp", "PageUp", "ArrowUp", "Home", *["ArrowDown"] * 30):
        page.keyboard.press(key)
        page.wait_for_function(ROW_IN_VIEW)


ROW_IN_VIEW = """() => {
  const row = document.querySelector(".row.chosen"), head = document.querySelector(".row.head");
  if (!row) return false;
  const own = row.getBoundingClientRect(), table = document.querySelector("#table").getBoundingClientRect();
  return own.top >= head.getBoundingClientRect().bottom - 2 && own.bottom <= table.bottom + 2;
}"""
