"""The timeline and the explorer of a notebook, in a real browser: without a server, by mouse and by keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.studio.browser import CHROMIUM, FLAGS, picture
from tests.studio.test_browser import wrong

import ceql

START = datetime(2024, 5, 17, 9)
BAD = "</script><script>window.bad = 1</script><img src=x onerror='window.bad = 2'><!--\u2028\x1b"
QUERY = "SELECT a, b[v], COUNT(b) AS n, DURATION AS took, a.v AS v WHERE A AS a ; B+ AS b PARTITION BY k"
Show = Callable[..., Any]


def events(seconds: list[int], values: list[float | None]) -> list[dict[str, Any]]:
    """For each value an A and a B of an own key, so many seconds apart, one pair after the other in the same minute."""
    found = []
    for k, (later, value) in enumerate(zip(seconds, values, strict=True)):
        for kind, wait in (("A", 0), ("B", later)):
            found.append({"type": kind, "k": f"k{k}", "time": START + timedelta(seconds=k + wait), "v": value})
    return sorted(found, key=lambda event: event["time"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as made:
        found = made.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Show]:
    """Opens a page with this HTML. In the end, nothing may have gone wrong in it, and it has fetched nothing."""
    heard: list[str] = []
    contexts = []

    def open(html: str | ceql.Matches, scheme: str = "light", **options: Any) -> Any:
        path = tmp_path / "page.html"
        if isinstance(html, str):
            path.write_text(f"<!doctype html><meta charset='utf-8'>{html}", encoding="utf-8")
        else:
            html.explore().save(path)
        context = browser.new_context(viewport={"width": 1000, "height": 800}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        return page

    yield open
    for context in contexts:
        context.close()
    assert heard == []


def pairs() -> ceql.Matches:
    return ceql.match(QUERY, events([9, 100, 10], [10.5, None, -2.0]))


def labels(page: Any) -> list[str]:
    return list(page.locator(".ceql-axis text").all_text_contents())


def column(page: Any, name: str) -> list[str]:
    heads = page.locator(".ceql-matches th").all_text_contents()
    place = heads.index(name) + 1
    return list(page.locator(f".ceql-matches tbody td:nth-child({place})").all_text_contents())


def test_the_wheel_zooms_once_the_timeline_has_been_clicked(show: Show) -> None:
    page = show(pairs().timeline()._repr_html_())
    whole = labels(page)
    page.hover(".ceql-lanes")
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(100)
    assert labels(page) == whole  # the page has it
    page.click(".ceql-lanes")
    page.mouse.wheel(0, -300)
    page.wait_for_function("first => document.querySelector('.ceql-axis').textContent !== first", arg="".join(whole))
    page.dblclick(".ceql-lanes")
    assert sorted(labels(page)) == sorted(whole)


def test_dragging_shows_the_range_and_keys_do_the_rest(show: Show) -> None:
    page = show(pairs().timeline()._repr_html_())
    whole = labels(page)
    end = page.locator(".ceql-lane line").last.bounding_box()
    page.mouse.move(end["x"] + 2, end["y"])
    page.mouse.down()
    page.mouse.move(end["x"] + 60, end["y"], steps=4)
    page.mouse.up()
    assert len(set(labels(page)) & set(whole)) < 3
    zoomed = labels(page)
    page.keyboard.press("ArrowRight")
    assert labels(page) != zoomed
    page.keyboard.press("0")
    assert sorted(labels(page)) == sorted(whole)
    page.keyboard.press("+")
    page.keyboard.press("-")
    assert sorted(labels(page)) == sorted(whole)
    page.click("button:has-text('+')")
    assert sorted(labels(page)) != sorted(whole)


def test_events_are_shown_if_select_names_measures_alone(show: Show) -> None:
    page = show(ceql.match("SELECT a.v, COUNT(b) AS n WHERE A AS a ; B+ AS b PARTITION BY k", events([9], [1.0])))
    assert page.locator(".ceql-mark").count() == 2
    assert page.locator(".ceql-events tbody tr").first.inner_text().startswith("events")


def test_an_event_under_the_pointer_shows_its_attributes(show: Show) -> None:
    page = show(pairs().timeline()._repr_html_())
    page.locator(".ceql-mark").first.hover()
    assert " ".join(page.inner_text(".ceql-tip").split()) == "a: row 0 type A k k0 time 2024-05-17 09:00:00 v 10.5"
    page.mouse.move(5, 5)
    assert page.is_hidden(".ceql-tip")


@pytest.mark.parametrize(
    "times",
    [
        [0, 70, 150],
        [0.5, 0.53, 0.54],
        [START + timedelta(milliseconds=k) for k in (0, 3, 7)],
        [START + timedelta(seconds=k) for k in (0, 9, 29)],
        [START + timedelta(hours=k) for k in (0, 9, 29)],
        [START + timedelta(days=k) for k in (0, 500, 2000)],
        None,
    ],
)
def test_the_script_labels_the_axis_as_the_picture_does(show: Show, times: list[Any] | None) -> None:
    rows = [{"type": kind} | ({"time": times[k]} if times else {}) for k, kind in enumerate("ABB")]
    timeline = ceql.match("SELECT * WHERE A ; B", rows).timeline()
    drawn = show(timeline.to_svg(), java_script_enabled=False)
    assert sorted(labels(drawn)) == sorted(labels(show(timeline._repr_html_())))


def test_lanes_that_begin_together_are_labelled_as_in_the_picture(show: Show) -> None:
    rows = [{"type": t, "time": START + timedelta(days=d, seconds=90 * (t == "B"))} for d in range(4) for t in "AB"]
    timeline = ceql.match("SELECT * WHERE A : B", rows).timeline()
    drawn = show(timeline.to_svg(), java_script_enabled=False)
    assert "1 min 30 s" not in "".join(labels(drawn)[-1:])
    assert sorted(labels(drawn)) == sorted(labels(show(timeline._repr_html_())))


def test_measures_come_first_and_every_column_sorts_by_its_values(show: Show) -> None:
    page = show(pairs())
    assert page.locator(".ceql-matches th").all_text_contents()[:3] == ["n", "took", "v"]
    page.click("th:has-text('took') button")
    assert column(page, "took") == ["9 s", "10 s", "1 min 40 s"]
    page.click("th:has-text('took') button")
    assert column(page, "took") == ["1 min 40 s", "10 s", "9 s"]
    assert page.locator("[aria-sort]").count() == 1
    for order in (["-2.0", "10.5", ""], ["10.5", "-2.0", ""]):  # NULL is last either way
        page.click("th:has-text('v') >> nth=0 >> button")
        assert column(page, "v") == order


def test_a_click_shows_the_events_of_the_match(show: Show) -> None:
    page = show(pairs())
    assert page.inner_text(".ceql-events h2") == "Match 1: 2 events"
    page.click("tr:has-text('1 min 40 s')")
    shown = page.locator(".ceql-events tbody tr").all_text_contents()
    assert shown == ["a1Ak12024-05-17 09:00:01", "b5Bk12024-05-17 09:01:41"]
    assert "1 min 40 s" in page.inner_text("[aria-current]")
    page.locator(".ceql-lane").first.click()
    assert page.inner_text(".ceql-events h2") == "Match 1: 2 events"
    page.keyboard.press("Tab")
    page.focus(".ceql-matches tbody tr:nth-child(2)")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text(".ceql-events h2").startswith("Match 3")


def test_text_from_the_data_stays_text(show: Show) -> None:
    rows = [{"type": kind, "k": BAD, "time": k, BAD: BAD, "v": BAD} for k, kind in enumerate("AB")]
    page = show(ceql.match(QUERY, rows))
    page.locator(".ceql-mark").first.hover()
    page.click(".ceql-matches tbody tr")
    assert page.evaluate("window.bad") is None
    assert page.locator("img").count() == 0
    assert page.inner_text(".ceql-tip").count(BAD[:9]) == 2 * 4
    assert page.inner_text(".ceql-events").count(BAD[:9]) == 2 * 7
    html = ceql.match(QUERY, rows).explore()._repr_html_()
    assert html.count("</script>") == 1
    assert "\x1b" not in html


def test_where_no_script_runs_the_picture_and_the_table_are_there(show: Show) -> None:
    page = show(pairs(), java_script_enabled=False)
    assert page.locator(".ceql-matches tbody tr").count() == 3
    assert page.is_visible("svg")
    assert page.locator("button").count() == 0


def test_scripts_may_run_late_and_the_same_output_may_stand_twice(show: Show) -> None:
    """As JupyterLab shows an output: as HTML first, then each script anew."""
    page = show("<div id='one'></div><div id='two'></div>")
    page.evaluate(
        """html => { for (const id of ["one", "two", "one"]) {
            const host = document.getElementById(id);
            if (!host.firstChild) host.innerHTML = html;
            for (const old of host.querySelectorAll("script")) {
                const script = document.createElement("script");
                script.textContent = old.textContent;
                old.replaceWith(script);
            }
        } }""",
        pairs().explore()._repr_html_(),
    )
    for host in ("#one", "#two"):
        assert page.locator(f"{host} .ceql-tools").count() == 1
        assert page.locator(f"{host} .ceql-events tbody tr").count() == 2


def test_it_shows_the_first_matches_and_says_so(show: Show) -> None:
    many = [{"type": "A"}] * 20
    explorer = ceql.match("SELECT * WHERE A+", many).explore()
    assert repr(explorer) == "<Explorer: the first 100 matches; there are more>"
    page = show(explorer._repr_html_())
    assert page.locator(".ceql-matches tbody tr").count() == 100
    assert page.inner_text(".ceql-note") == "the first 100 matches; there are more"
    page.locator(".ceql-matches tbody tr").nth(90).click()
    lanes = page.locator(".ceql-lanes").bounding_box()
    lane = page.locator(".ceql-lane").nth(90).bounding_box()
    assert lanes["y"] <= lane["y"] <= lanes["y"] + lanes["height"]
    axis = page.locator(".ceql-axis text").first.bounding_box()
    assert lanes["y"] <= axis["y"] <= lanes["y"] + lanes["height"]


def test_no_match_and_events_that_are_not_known(show: Show) -> None:
    page = show(ceql.match("SELECT * WHERE Gone", events([1], [1.0])))
    assert page.inner_text(".ceql-note") == "no matches"
    query = ceql.compile("SELECT a, b WHERE A AS a ; B AS b")
    page = show(query.recognizer(keep_rows=False).feed(events([1], [1.0])).explore()._repr_html_())
    assert page.locator(".ceql-events tbody tr").all_text_contents() == ["a0", "b1"]
    long = ceql.match("SELECT NEXT x WHERE A+ AS x ; B", [{"type": "A"}] * 1000 + [{"type": "B"}])
    assert show(long).inner_text(".ceql-events h2") == "Match 1: 100 of 1000 events"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_in_the_way_of_assistive_technology(show: Show, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page = show(pairs(), scheme)
    page.locator(".ceql-mark").first.hover()
    picture(page, f"explorer-{scheme}")
    assert wrong(axe, page) == []
