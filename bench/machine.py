"""What a benchmark ran on: processor, memory, system, versions, and the state of the sources."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("ceql", "numba", "numpy", "pyarrow", "polars", "duckdb", "pyspark")


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def describe() -> dict[str, Any]:
    """Everything that a reader needs to judge the figures."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "gigabytes": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "sources": sources(),
    }


def sources() -> str:
    """The commit, and whether there are changes that it does not have."""
    root = Path(__file__).resolve().parents[1]
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--", "src"], cwd=root, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + (" and changes" if changed.stdout.strip() else "")


def in_words(machine: dict[str, Any]) -> str:
    """One sentence."""
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items() if number)
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['gigabytes']} GiB, {machine['system']}, "
        f"Python {machine['python']}; {packages}; sources {machine['sources']}"
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
