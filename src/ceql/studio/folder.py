"""Lists the folders and the files of events below the folder in which the studio was started.

Links that lead out of it are not followed, and hidden files are not shown. Of files, only names and sizes are told.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ceql.errors import DataError
from ceql.io.formats import format_of_name

MOST = 500  # entries that are shown


def listing(root: Path, folder: str) -> dict[str, Any]:
    """What a folder has, which is named by its path below `root`."""
    here = _below(root, folder)
    folders, files = list[str](), list[dict[str, Any]]()
    try:
        with os.scandir(here) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name.lower()):
                if entry.name.startswith(".") or len(folders) + len(files) >= MOST:
                    continue
                if not Path(entry.path).resolve().is_relative_to(root):
                    continue
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file() and format_of_name(Path(entry.name)) is not None:
                    files.append({"name": entry.name, "size": entry.stat().st_size, "path": entry.path})
    except OSError as error:
        raise DataError(f"cannot read the folder {here}: {error.strerror}") from None
    own = here.relative_to(root).as_posix()
    parent = None if here == root else here.parent.relative_to(root).as_posix()
    none = {".": ""}
    return {
        "folder": none.get(own, own),
        "shown": str(here),
        "parent": None if parent is None else none.get(parent, parent),
        "folders": folders,
        "files": files,
    }


def _below(root: Path, folder: str) -> Path:
    try:
        here = (root / folder).resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL, links in a circle
        here = None
    if here is None or not here.is_relative_to(root) or not here.is_dir():
        raise DataError(f"there is no folder '{folder}' below {root}")
    return here
