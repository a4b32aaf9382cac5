"""The site holds more than its pages: documents of the repository's root, and every file that a page links to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")  # pages too, in lower case
SCRIPT = "assets/iframe-worker.js"


def on_files(files: Files, config: Any) -> Files:
    """Add the documents, whose links are those of the root, the files that pages link to, and what search needs."""
    linked = {path for page in files.documentation_pages() for path in _outside(page).findall(page.content_string)}
    for name in DOCUMENTS:
        text = (ROOT / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=text))
    for path in sorted(linked - set(DOCUMENTS)):
        files.append(File.generated(config, f"repository/{path}", abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, SCRIPT, abs_src_path=str(ROOT / "tools/iframe-worker.js")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to files outside the documentation at those that the site holds."""
    up = "../" * page.file.src_uri.count("/")

    def inside(link: re.Match[str]) -> str:
        return f"]({up}{link[1].lower() if link[1] in DOCUMENTS else 'repository/' + link[1]}"

    return _outside(page.file).sub(inside, markdown)


def _outside(page: File) -> re.Pattern[str]:
    """The links of a page that lead out of the documentation."""
    return re.compile(rf"\]\({re.escape('../' * (1 + page.src_uri.count('/')))}([\w./-]+)")
