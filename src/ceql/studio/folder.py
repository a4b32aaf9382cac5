"""Lists the folders and the files below the folder in which the studio was started.

Links that lead out of it are not followed, and hidden files are not shown. Of files, only names and sizes are told.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ceql.errors import DataError
from ceql.io.formats import format_of_name

MOST = 500  # entries that are shown


def is_events(name: str) -> bool:
    """True if a file of this name may hold events."""
    return format_of_name(Path(name)) is not None


def listing(root: Path, folder: str, wanted: Callable[[str], bool] = is_events) -> dict[str, Any]:
    """What a folder has, which is named by its path below `root`: its folders, and the files of wanted names."""
    here = below(root, folder)
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
                elif entry.is_file() and wanted(entry.name):
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


def below(root: Path, folder: str) -> Path:
    """The folder of this path below `root`."""
    try:
        here = (root / folder).resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL, links in a circle
        here = None
    if here is None or not here.is_relative_to(root) or not here.is_dir():
        raise DataError(f"there is no folder '{folder}' below {root}")
    return here
