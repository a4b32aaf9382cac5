"""Two builds of the same sources, in folders of other names and at other times, are the same bytes; and they install.

`make dist-check` installs with all dependencies from the index; here those of this environment do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import dist

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "README.md", "LICENSE")
USE = """
from pathlib import Path
import ceql
from ceql.cli.demo import payments
from ceql.studio.app import STATIC
print(Path(ceql.__file__).parent)
print(payments().num_rows, ceql.match("SELECT * WHERE A ; B", [{"type": kind} for kind in "AAB"]).count())
print((STATIC / "main.js").exists() and (STATIC / "index.html").exists())
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[list[Path]]:
    """The wheel and the source archive, made twice."""
    pytest.importorskip("setuptools", minversion="77")
    made = []
    for name, age in (("one", 1_600_000_000), ("another", 1_700_000_000)):
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        for file in FILES:
            shutil.copy(ROOT / file, folder)
        for path in folder.rglob("*"):
            os.utime(path, (age, age))
        made.append(dist.build(folder, tmp_path_factory.mktemp(f"{name} out"), "1750000000"))
    return made


def test_builds_are_reproducible(built: list[list[Path]]) -> None:
    for one, another in zip(*built, strict=True):
        assert one.name == another.name
        assert one.read_bytes() == another.read_bytes()
    with zipfile.ZipFile(built[0][0]) as wheel:
        names = set(wheel.namelist())
    assert {
        "ceql/__init__.py",
        "ceql/py.typed",
        "ceql/syntax/ceql.lark",
        "ceql/jit/signatures.txt",
        "ceql/studio/static/main.js",
    } <= names
    assert not any(name.startswith("tests") for name in names)


def test_the_index_would_take_them(built: list[list[Path]]) -> None:
    check = pytest.importorskip("twine.commands.check", reason="twine is not installed")
    assert not check.check([str(path) for path in built[0]], strict=True)


@pytest.mark.parametrize("kind", ["wheel", "source archive"])
def test_they_install_into_an_empty_environment(built: list[list[Path]], tmp_path: Path, kind: str) -> None:
    home = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = str(home / "bin" / "python")
    archive = built[0][0] if kind == "wheel" else built[0][1]
    site = sysconfig.get_path("purelib", vars={"base": str(home)})
    install = ["install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", site, str(archive)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    # what ceql needs is found where this interpreter has it, after the environment's own packages
    Path(site, "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["NUMBA_DISABLE_JIT"] = "1"  # what is installed is in question, not the compiler
    asked = [python, "-c", USE]
    done = subprocess.run(asked, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(Path(site, "ceql")), "20000", "2", "True"]
