"""The browser for the tests of the page, and what a user does in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb", "--font-render-hinting=none"]
PICTURES = os.environ.get("CEQL_SCREENSHOTS")
SIZE = {"width": 1360, "height": 800}
Open = Callable[..., Any]


def picture(page: Any, name: str) -> None:
    if PICTURES is not None:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        page.wait_for_timeout(300)
        page.screenshot(path=Path(PICTURES) / f"{name}.png")


def write(page: Any, query: str) -> None:
    """Type a query in place of the one that is there."""
    page.click(".cm-content")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(query)


def run_example(page: Any, example: str = "maximal") -> None:
    page.select_option("#example", example)
    page.wait_for_selector("[data-match='6']")
    page.wait_for_selector(".detail h2")


def load_file(page: Any, path: Path, follow: bool = False) -> None:
    page.click("#open")
    page.fill("#path", str(path))
    page.set_checked("#follow", follow)
    page.click("#load")
    page.wait_for_selector(f"strong:has-text('{path.name}')")


def counter(page: Any, name: str) -> str:
    return str(page.inner_text(f"[data-counter='{name}'] dd"))
