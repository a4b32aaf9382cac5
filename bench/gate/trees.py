"""Finds the commit to compare with, and lays its sources out beside this tree's."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

from bench.gate.worker import Tree
from bench.peers.peer import FOLDER, ROOT

BASE = Path(__file__).parents[1] / "base"
"""The commit to compare with as long as there is no tag."""


def git(*words: str) -> bytes:
    """What git prints; its own words if it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.decode().strip()}")
    return done.stdout


def default_base() -> str:
    """The newest tag before this commit; without one, what `bench/base` says."""
    tagged = subprocess.run(["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True)
    return tagged.stdout.strip() if tagged.returncode == 0 else BASE.read_text().strip()


def base(commit: str) -> Tree:
    """A commit's sources, laid out once, with a cache of their own that is kept."""
    full = git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    folder = FOLDER / "gate" / full[:12]
    if not (folder / "src").exists():
        part = folder / "part"
        with tarfile.open(fileobj=io.BytesIO(git("archive", full, "src/ceql"))) as archive:
            archive.extractall(part, filter="data")
        (part / "src").rename(folder / "src")
    return Tree(commit, folder / "src", folder / "numba")


def ours() -> Tree:
    """The sources as they are now, committed or not."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    return Tree("this tree", ROOT / "src", Path(given) if given else FOLDER / "gate" / "numba")
