"""The documentation builds as a site, without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed: pip install 'ceql[docs]'")
def test_the_site_builds(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/index.html")}
    assert {page.stem for page in ROOT.glob("docs/*.md")} - {"index"} <= pages
    assert "ceql.compile" in (tmp_path / "api" / "index.html").read_text()
