"""The playground of the documentation shows what ceql finds, and its page works from the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.studio.browser import CHROMIUM, FLAGS

import playground

PAGE = """<!doctype html><html lang="en"><title>Playground</title><body><div id="try"></div>
<script src="{folder}/recorded.js"></script><script src="{folder}/playground.js"></script></body></html>"""


def test_what_is_recorded_is_what_ceql_finds() -> None:
    assert playground.RECORDED.read_text() == playground.as_script(playground.recorded()), "make playground"


def stored() -> Any:
    return json.loads(playground.RECORDED.read_text().removeprefix("window.recorded = "))


def test_an_example_begins_with_matches() -> None:
    for name, example in stored().items():
        first = example["runs"][".".join("0" for _ in example["choices"])]
        assert "error" in first if name == "mistakes" else first["matches"], name


def test_every_choice_has_a_run() -> None:
    for example in stored().values():
        combinations = [1]
        for texts in example["choices"].values():
            combinations.append(combinations[-1] * len(texts))
        assert len(example["runs"]) == combinations[-1]
        for run in example["runs"].values():
            assert ("error" in run) != ("count" in run)
            assert run.get("count") != 0 or "why" in run


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_visitor_chooses_and_sees_matches(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    file = tmp_path / "playground.html"
    file.write_text(PAGE.format(folder=playground.RECORDED.parent.as_uri()))
    with playwright.sync_playwright() as made:
        browser = made.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(file.as_uri())
        assert page.locator("tbody tr").count() == 2
        page.select_option("select[data-slot=which]", label="(nothing)")
        assert page.locator("tbody tr").count() == 6
        address = page.url
        page.select_option("select[data-slot=window]", label="15 SECONDS")
        page.select_option("select[data-slot=fails]", label="Fail{2,}")
        assert "diagnose says" in page.inner_text(".pg-said")
        page.click("button:has-text('Mistakes')")
        assert "Did you mean 'f'?" in page.inner_text(".pg-error")
        page.goto("about:blank")
        page.goto(address)
        assert page.locator("tbody tr").count() == 6
        assert page.eval_on_selector("select[data-slot=which]", "select => select.value") == "1"
        browser.close()
    assert faults == []
