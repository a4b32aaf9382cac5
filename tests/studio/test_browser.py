"""The page in a real browser, as a user sees it. With CEQL_SCREENSHOTS=folder, the pictures of the manual are made."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.studio.browser import PICTURES, Open, counter, load_file, picture, run_example, write
from tests.studio.served import Studio

from ceql.studio.examples import EXAMPLES

MAXIMAL = EXAMPLES[1].text


def test_an_error_is_marked_and_mended(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    write(page, MAXIMAL.replace("amount <", "amont <"))
    page.wait_for_selector(".cm-lintRange-error")
    assert page.inner_text(".cm-lintRange-error") == "amont"
    said = page.inner_text("#problem")
    assert "the events have no column 'amont'" in said
    assert "Did you mean 'amount'?" in said
    page.hover(".cm-lintRange-error")
    page.wait_for_selector(".cm-diagnosticAction")
    picture(page, "error")
    page.click(".cm-diagnosticAction")
    page.wait_for_selector(".cm-lintRange-error", state="detached")
    assert "amont" not in page.inner_text(".cm-content")


def test_a_completion_is_accepted(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    write(page, "SELECT * WHERE Payment AS p FILTER p[")
    page.keyboard.type("am")
    page.wait_for_selector(".cm-tooltip-autocomplete li[aria-selected]")
    picture(page, "completion")
    page.wait_for_timeout(150)  # the editor takes no key in the first moment, lest it was meant for the text
    page.keyboard.press("Tab")
    assert page.inner_text(".cm-content").strip().endswith("p[amount")
    page.keyboard.type(" > 1 AND country = '")
    page.wait_for_selector(".cm-tooltip-autocomplete li:has-text('CL')")


def test_matches_rows_zoom_and_pictures(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    assert (counter(page, "events"), counter(page, "matches")) == ("20,000", "7")
    whole = page.inner_text(".range")
    page.click("[data-match='3']")
    page.wait_for_selector(".detail h2:has-text('Match 4')")
    assert page.locator(".detail tbody tr").count() == 6
    assert page.inner_text(".detail tbody tr >> nth=5").startswith("cash")
    picture(page, "matches")
    page.click("text=Zoom to it")
    page.wait_for_function("before => document.querySelector('.range').textContent !== before", arg=whole)
    picture(page, "zoomed")
    zoomed = page.inner_text(".range")
    page.focus("canvas")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('.range').textContent !== before", arg=zoomed)
    page.keyboard.press("0")
    page.wait_for_function("before => document.querySelector('.range').textContent === before", arg=whole)
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
    page.mouse.wheel(0, -400)
    page.wait_for_function("before => document.querySelector('.range').textContent !== before", arg=whole)
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".detail h2:has-text('Match 5')")
    with page.expect_download() as saved:
        page.click("#svg")
    drawn = Path(saved.value.path()).read_text()
    assert drawn.startswith("<svg")
    assert "265" in drawn


def test_states_light_up_step_by_step(open_page: Open) -> None:
    page = open_page()
    run_example(page, "fraud")
    page.click("#step-through")
    page.wait_for_selector(".state.lit")
    lit = [page.eval_on_selector_all(".state.lit", "found => found.map(e => e.dataset.state)")]
    for k in range(3):
        page.click("#step-on")
        if k == 1:
            picture(page, "automaton")
        lit.append(page.eval_on_selector_all(".state.lit", "found => found.map(e => e.dataset.state)"))
    assert lit == [["0"], ["0", "1"], ["0", "1", "2"], ["3"]]


def test_the_compact_graph_is_drawn_beside_the_automaton(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "few.jsonl"
    path.write_text("".join(json.dumps({"type": t, "time": k}) + "\n" for k, t in enumerate("ABBXCB")))
    page = open_page()
    load_file(page, path)
    write(page, "SELECT * WHERE A ; B+ ; C")
    page.click("#run")
    page.wait_for_selector(".detail h2")
    page.click("#step-through")
    page.wait_for_selector(".compact .node")
    drawn = []
    for k in range(5):
        kinds = ("bottom", "output", "union")
        drawn.append([page.locator(f".compact .node.{kind}").count() for kind in kinds])
        if k == 4:
            picture(page, "graph")
        page.click("#step-on")
    # the two A ; B of the stream end in one state; the C has all three matches below it
    assert drawn == [[1, 1, 0], [1, 2, 0], [1, 4, 1], [1, 4, 1], [1, 5, 2]]
    assert page.locator(".compact .tag.match").count() == 0  # of the B after it


def test_a_graph_that_is_too_large_is_not_drawn(open_page: Open) -> None:
    page = open_page()
    run_example(page, "abroad")
    page.click("#step-through")
    page.wait_for_selector(".compact p:has-text('look-up table')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_in_the_way_of_assistive_technology(open_page: Open, scheme: str) -> None:
    """The rules of axe-core for WCAG 2.1 AA, in each view."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page = open_page(scheme=scheme)
    run_example(page, "fraud")
    found = {}
    for tab in ("matches", "automaton", "diagnose", "explain", "code", "sql", "rules"):
        page.click(f"#tab-{tab}")
        if tab == "sql":
            page.click("#sql-run")
        page.wait_for_selector(f"#{tab} :is(canvas, .compact .node, .bars, pre, .rows-of-sql, .check-rules)")
        found[tab] = wrong(axe, page)
    write(page, MAXIMAL.replace("amount <", "amont <"))
    page.wait_for_selector("#problem.error")
    found["error"] = wrong(axe, page)
    page.click("#open")
    found["loader"] = wrong(axe, page)
    assert found == {view: [] for view in found}


def wrong(axe: Any, page: Any) -> list[tuple[str, list[Any]]]:
    """What axe-core finds, by rule, with the elements."""
    tags = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}}
    seen = axe.Axe().run(page, options=tags).response
    assert len(seen["passes"]) > 15  # it has looked
    return [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in seen["violations"]]


def test_a_long_run_is_cancelled(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    write(page, "SELECT * WHERE Payment+ ; Withdrawal")
    page.click("#run")
    page.click("#cancel")
    page.wait_for_selector(".note.cancelled, .note.stopped")
    assert page.is_hidden("#cancel")


def test_a_bad_file_is_explained(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no, not really")
    page.click("#open")
    page.set_input_files("#file", tmp_path / "broken.parquet")
    page.click("#load")
    page.wait_for_selector("#loader-problem:has-text('broken.parquet')")
    page.fill("#path", "/no/such/file.csv")
    page.click("#load")
    page.wait_for_selector("#loader-problem:has-text('no such file')")


def test_no_click_is_lost_while_the_page_starts(open_page: Open) -> None:
    page = open_page()
    held: list[Any] = []
    page.route("**/api/start", lambda route: held.append(route))
    page.reload()
    for control in ("#open", "#example", "#share", "#theme", "#run", "#tab-code"):
        assert page.is_disabled(control), control
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    page.click("#open")
    assert page.is_visible("#load")
    assert page.locator("header :disabled, main :disabled").count() == 0


def test_a_link_brings_back_the_view(open_page: Open) -> None:
    page = open_page()
    run_example(page)
    page.click("[data-match='2']")
    page.wait_for_selector(".detail h2:has-text('Match 3')")
    page.click("text=Zoom to it")
    page.click("text=by match")
    page.wait_for_function("() => location.hash.includes('match=2') && location.hash.includes('%2Cmatch')")
    shown, fragment = page.inner_text(".range"), page.evaluate("location.hash")
    again = open_page(fragment)
    again.wait_for_selector(".detail h2:has-text('Match 3')")
    assert again.inner_text(".range") == shown
    assert again.get_attribute(".segmented button >> nth=1", "aria-pressed") == "true"


def test_a_growing_file_is_followed(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    path.write_text('{"type": "A", "time": "2024-01-01T00:00:00"}\n')
    page = open_page()
    page.click("#open")
    page.fill("#path", str(path))
    page.check("#follow")
    page.click("#load")
    page.wait_for_selector(".live")
    write(page, "SELECT * WHERE A ; B")
    page.keyboard.press("Control+Enter")
    for k in (1, 2):
        with path.open("a") as file:
            file.write(json.dumps({"type": "B", "time": f"2024-01-01T00:00:0{k}"}) + "\n")
        page.wait_for_selector(f"[data-match='{k - 1}']")
    page.click("#cancel")


def test_two_files_are_two_streams(open_page: Open, tmp_path: Path) -> None:
    up, down = tmp_path / "up.jsonl", tmp_path / "down.jsonl"
    up.write_text("".join(json.dumps({"time": k, "v": k}) + "\n" for k in (0, 4)))
    down.write_text("".join(json.dumps({"time": k, "w": k}) + "\n" for k in (2, 6)))
    page = open_page()
    load_file(page, up)
    page.click("#open")
    page.fill("#path", str(down))
    page.check("#adds")
    page.fill("#stream", "Fall")
    picture(page, "streams")
    page.click("#load")
    page.wait_for_selector("strong:has-text('up, Fall')")
    write(page, "SELECT * FROM up, Fall WHERE up ; Fall")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("[data-match='2']")
    page.wait_for_function("() => location.hash.includes('stream=Fall')")
    again = open_page(page.evaluate("location.hash"))
    again.wait_for_selector("[data-match='2']")


def test_diagnose_explain_and_export(open_page: Open) -> None:
    page = open_page(scheme="dark")
    run_example(page)
    picture(page, "dark")
    page.click("#tab-diagnose")
    page.wait_for_selector(".bars")
    assert "137 matches" in page.inner_text("#diagnose")
    picture(page, "diagnose")
    page.click("#tab-explain")
    page.wait_for_selector("#explain pre:has-text('Class and guarantee')")
    page.click("#tab-code")
    page.wait_for_selector("#code pre:has-text('from ceql.spark import match')")
    with page.expect_download() as saved:
        page.click("#code button:has-text('Parquet')")
    assert parquet.read_table(saved.value.path()).num_rows == 7


def test_a_small_window(open_page: Open) -> None:
    page = open_page(size={"width": 420, "height": 820})
    run_example(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("canvas").scroll_into_view_if_needed()
    picture(page, "small")


def test_a_hundred_thousand_matches_are_a_few_rows_of_the_page(open_page: Open, tmp_path: Path) -> None:
    n = 20_000
    table = pa.table({"type": ["A", "B"] * (n // 2), "time": range(n), "k": [0] * n})
    parquet.write_table(table, tmp_path / "many.parquet")
    page = open_page()
    page.click("#open")
    page.fill("#path", str(tmp_path / "many.parquet"))
    page.click("#load")
    page.wait_for_selector("strong:has-text('many.parquet')")
    write(page, "SELECT * WHERE A ; B PARTITION BY k WITHIN 19 EVENTS")
    page.click("#run")
    page.wait_for_selector(".detail h2")
    page.focus("#table")
    page.keyboard.press("End")
    page.wait_for_function("() => Number(document.querySelector('.row.chosen')?.dataset.match) > 90_000")
    assert page.locator(".rows .row").count() < 60


@contextmanager
def _timed(name: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    print(f"{name}: {1000 * (time.perf_counter() - begun):.0f} ms")


@pytest.mark.skipif(PICTURES is None, reason="only measures: run with CEQL_SCREENSHOTS and -s")
def test_how_long_interaction_takes_with_a_million_events(served: Studio, tmp_path: Path) -> None:
    n = 1_000_000
    kinds = pa.array(["A", "B", *["C"] * 8] * (n // 10))
    table = pa.table({"type": kinds, "time": range(n), "k": pa.array(range(n)).cast(pa.int64())})
    table = table.set_column(2, "k", pa.array([i // 10 % 1000 for i in range(n)]))
    parquet.write_table(table, tmp_path / "million.parquet")
    with _timed("load"):
        data = served.tell("/api/data", path=str(tmp_path / "million.parquet"))["id"]
    with _timed("run"):
        run = served.run("SELECT * WHERE A ; B PARTITION BY k WITHIN 5 EVENTS", data)
    assert run["matches"] == n // 10
    path = f"/api/run/{run['id']}"
    served.ask(f"{path}/lanes", by="key")
    with _timed("overview"):
        served.ask("/api/overview", run=run["id"], width=1000)
    for by in ("key", "match"):
        for low, high in ((0, n), (n / 2, n / 2 + 1000)):
            with _timed(f"lanes by {by}, {high - low:g} wide"):
                lanes = served.ask(f"{path}/lanes", by=by, low=low, high=high, width=1000, count=30)["lanes"]
                assert 0 < len(lanes) <= 30
    with _timed("rows"):
        rows = served.ask(f"{path}/matches", first=50_000, count=100)["rows"]
    assert len(rows) == 100
    with _timed("match"):
        served.ask(f"{path}/match/50000")
