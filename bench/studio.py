"""Times what a user does on the studio's page, over a million events with 100,000 matches: `python -m bench.studio`.

Each action is timed in Chromium, from the key or the click to the first frame after the last answer of the server. The
figures are milliseconds: the median and the slowest of the repetitions.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import uvicorn
from pyarrow import parquet

from ceql.studio.app import make_app
from ceql.studio.server import HOST, listening
from ceql.studio.session import Session

QUERY = "SELECT a.time AS begun, b.k AS bank, a, b WHERE A AS a ; B AS b PARTITION BY k WITHIN 5 EVENTS"
TOKEN = "token-of-the-bench"
TIMES = 9

SETTLED = """
window.begun = 0; window.last = 0;
const own = window.fetch;
window.fetch = async (...given) => {
  window.begun++;
  try { const answer = await own(...given); await answer.clone().arrayBuffer(); return answer; }
  finally { window.begun--; window.last = performance.now(); }
};
window.timed = (action) => new Promise((done) => {
  const from = performance.now();
  let shown = 0, seen = 0;
  window.last = from;
  action();
  const look = (now) => {
    if (window.begun) shown = 0;
    else if (!shown || seen !== window.last) { shown = now; seen = window.last; }
    if (shown && performance.now() - Math.max(shown, window.last) > 250) done(shown - from);
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});
"""
KEY = (
    "() => timed(() => document.querySelector('{0}')"
    ".dispatchEvent(new KeyboardEvent('keydown', {{key: '{1}', bubbles: true}})))"
)
ACTIONS = {
    "select the next match": KEY.format("#table", "ArrowDown"),
    "go to the last match": KEY.format("#table", "End"),
    "zoom in": KEY.format("canvas", "+"),
    "pan": KEY.format("canvas", "ArrowRight"),
    "zoom out": KEY.format("canvas", "-"),
    "show everything": KEY.format("canvas", "0"),
    "sort": "() => timed(() => document.querySelector('.row.head button').click())",
    "filter": "() => timed(() => { const box = document.querySelector('#filter');"
    " box.value = box.value ? '' : 'bank > 500'; box.dispatchEvent(new Event('input')); })",
}


def events(rows: int) -> pa.Table:
    """A tenth of the events begin a match, in a thousand substreams."""
    kinds = pa.array(["A", "B", *["C"] * 8] * (rows // 10))
    return pa.table({"type": kinds, "time": range(rows), "k": [i // 10 % 1000 for i in range(rows)]})


def main(rows: int = 1_000_000) -> None:
    from playwright.sync_api import sync_playwright

    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "events.parquet"
        parquet.write_table(events(rows), path)
        own = listening(0)
        port = own.getsockname()[1]
        config = uvicorn.Config(make_app(Session(), TOKEN, port), log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        threading.Thread(target=server.run, args=([own],), daemon=True).start()
        chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1360, "height": 800})
        page.set_default_timeout(120_000)
        page.add_init_script(SETTLED)
        page.goto(f"http://{HOST}:{port}/#token={TOKEN}")
        _open(page, path)
        print(f"{rows:,} events, {page.inner_text('[data-counter=matches] dd')} matches; milliseconds: median, slowest")
        for name, action in ACTIONS.items():
            took = [page.evaluate(action) for _ in range(TIMES)]
            print(f"{name:<24}{median(took):6.0f}{max(took):6.0f}", flush=True)
        page.click("#tab-diagnose")
        begun = time.perf_counter()
        page.wait_for_selector("#diagnose .bars")
        print(f"{'diagnose':<24}{1000 * (time.perf_counter() - begun):6.0f}")
        browser.close()
        server.should_exit = True


def _open(page: Any, path: Path) -> None:
    page.click("#open")
    page.fill("#path", str(path))
    page.click("#load")
    page.wait_for_selector("strong:has-text('events.parquet')")
    page.click(".cm-content")
    page.keyboard.insert_text(QUERY)
    page.click("#run")
    page.wait_for_selector(".detail h2")
    page.wait_for_timeout(1500)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
