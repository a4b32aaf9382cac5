"""A studio with an empty session, the query of its first example, and pages in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.studio.browser import CHROMIUM, FLAGS, SIZE, Open
from tests.studio.served import Studio, serving

from ceql.studio.examples import EXAMPLES
from ceql.studio.session import Session


@pytest.fixture
def studio() -> Iterator[Studio]:
    with serving(Session()) as found:
        yield found


@pytest.fixture
def fraud() -> str:
    return EXAMPLES[0].text


@pytest.fixture(scope="module")
def served() -> Iterator[Studio]:
    with serving(Session()) as found:
        yield found


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
def open_page(served: Studio, browser: Any) -> Iterator[Open]:
    """Opens the page. In the end, nothing may have gone wrong in it unseen."""
    wrong: list[str] = []
    contexts = []

    def open(fragment: str = "", size: dict[str, int] = SIZE, scheme: str = "light") -> Any:
        context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(served.address)
        if fragment:
            page.goto(f"http://127.0.0.1:{served.port}/{fragment}")
            page.reload()
        return page

    yield open
    for context in contexts:
        context.close()
    assert wrong == []
