"""The documentation builds as a site that needs nothing else: links lead somewhere, all is in it, search works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.studio.browser import CHROMIUM, FLAGS

ROOT = Path(__file__).parents[1]
FOREIGN = re.compile(r"(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install '.[docs]'")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


def test_the_site_has_every_page(site: Path) -> None:
    written = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in ROOT.glob("docs/**/*.md")}
    assert written <= {path.relative_to(site) for path in site.rglob("*.html")}
    assert "ceql.compile" in (site / "api.html").read_text()


def test_queries_have_the_colours_of_ceql(site: Path) -> None:
    """A whole query is CEQL, though its block is marked as SQL; a statement of SQL stays SQL."""
    for keywords in ('<span class="k">WITHIN</span>', '<span class="k">PARTITION</span>'):
        assert keywords in (site / "index.html").read_text()
    assert '<span class="k">MATCH_RECOGNIZE</span>' not in (site / "match-recognize.html").read_text()


class Page(HTMLParser):
    """The links of a page, the places in it that links can lead to, and what it fetches from elsewhere."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag not in ("a", "meta", "svg") or named.get("data-md-component") == "source":  # asks api.github.com
            self.fetched += [value for value in named.values() if value and FOREIGN.match(value)]
        self.links += [link for name in ("href", "src", "srcset") if (link := named.get(name))]
        self.places |= {place for name in ("id", "name") if (place := named.get(name))}


def broken(site: Path) -> Iterator[str]:
    """The links of all pages that lead nowhere: to no file, to no place in it, or out of the repository."""
    pages = {path: Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if not parts.scheme and not parts.netloc:
                base = site if parts.path.startswith("/") else path.parent
                target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
                target = target / "index.html" if target.is_dir() else target
                place = unquote(parts.fragment)
                found = target in pages and (not place or place in pages[target].places)
                if not (found if target.suffix == ".html" else target.exists()):
                    yield f"{path.relative_to(site)}: {link}"


def test_every_link_leads_somewhere(site: Path) -> None:
    site = site.resolve()
    assert len(list(site.rglob("*.html"))) > 30
    assert [link for link in broken(site) if not link.startswith("404.html")] == []


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    assert {path.name: found for path in site.rglob("*.html") if (found := Page(path).fetched)} == {}
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^\s)]*", style.read_text()) == []


def test_notebooks_are_pages_with_their_outputs(site: Path) -> None:
    for notebook in (ROOT / "examples/gallery").glob("*.ipynb"):
        page = (site / "gallery" / f"{notebook.stem}.html").read_text()
        assert "<svg" in page
        assert f"gallery/{notebook.stem}.html" in (site / "gallery.html").read_text()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_copy_button_copies_code_without_prompts_and_outputs(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as made:
        browser = made.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.goto((site / "start.html").as_uri())
        page.evaluate("document.addEventListener('copy', e => { window.copied = document.activeElement.value }, true)")
        page.click("pre:has-text('to_pandas') .md-code__button >> nth=0")
        copied = page.evaluate("window.copied")
        browser.close()
    assert copied.startswith('matches = ceql.match("""\n    SELECT f, l\n')
    assert copied.endswith('[["user", "f.time", "l.time"]]')


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_read_by_everybody(site: Path, scheme: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed").Axe()
    with playwright.sync_playwright() as made:
        browser = made.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(color_scheme=scheme)
        found = {}
        for name in ("index", "playground", "benchmarks", "api/matches"):
            page.goto((site / f"{name}.html").as_uri())
            page.wait_for_timeout(300)
            found[name] = [violation["id"] for violation in axe.run(page).response["violations"]]
        browser.close()
    assert {name: ids for name, ids in found.items() if ids} == {}


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_search_works_in_pages_that_are_opened_from_the_disk(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    asked: list[str] = []
    with playwright.sync_playwright() as made:
        browser = made.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "recipes" / "gaps.html").as_uri())
        page.wait_for_function("typeof __index === 'object'")
        page.click("input[name=query]")
        page.keyboard.type("consume")
        page.wait_for_selector("a[href*='language-next.html']:has(.md-search-result__article)", state="attached")
        browser.close()
    assert [address for address in asked if not address.startswith(site.as_uri())] == []
