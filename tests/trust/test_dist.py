"""Two builds of the same sources, in folders of other names and at other times, are the same bytes."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

import dist

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "README.md", "LICENSE")


def test_builds_are_reproducible(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    built = []
    for name, age in (("one", 1_600_000_000), ("another", 1_700_000_000)):
        folder = tmp_path / name
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        for file in FILES:
            shutil.copy(ROOT / file, folder)
        for path in folder.rglob("*"):
            os.utime(path, (age, age))
        built.append(dist.build(folder, tmp_path / f"{name} out", "1750000000"))
    for one, another in zip(*built, strict=True):
        assert one.name == another.name
        assert one.read_bytes() == another.read_bytes()
    with zipfile.ZipFile(built[0][0]) as wheel:
        names = set(wheel.namelist())
    assert {"ceql/__init__.py", "ceql/py.typed", "ceql/syntax/ceql.lark"} <= names
    assert not any(name.startswith("tests") for name in names)
