"""What the site does beyond its pages: the changelog is one of them, and files of the repository are linked there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the changelog, whose links are those of the repository's root."""
    text = (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Point links to files outside the documentation at the repository."""
    outside = re.escape("../" * (1 + page.file.src_uri.count("/")))
    return re.sub(rf"\]\({outside}([\w./-]+)", rf"]({config['repo_url']}/blob/main/\1", markdown)
