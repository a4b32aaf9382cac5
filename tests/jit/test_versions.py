"""The patches of Numba are tried with the versions that are allowed, and other versions do without them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from ceql.jit.ways import TRIED

ROOT = Path(__file__).parents[2]
PLAIN = """
import sys
import numba
numba.__version__ = sys.argv[1]
import ceql
from ceql.jit import ways
assert bool(ways.PIPELINES) == ("ceql.jit.patches" in sys.modules) == (sys.argv[1] != "9.9.0")
from ceql.io.sorted_runs import in_order
import numpy as np
from ceql.engine.groups.rings import size_of
print(bool(in_order(np.arange(3))), size_of(1, 2, 3))
"""


def test_the_versions_that_are_allowed_are_those_that_were_tried() -> None:
    """After a release of Numba: raise both, run `make newest` and `make coldstart`, and see what has become slower."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (numba,) = (each for each in needed if each.startswith("numba"))
    found = re.fullmatch(r"numba>=0\.(\d+),<0\.(\d+)", numba)
    assert found is not None
    assert ((0, int(found[1])), (0, int(found[2]))) == TRIED


def test_a_version_that_was_not_tried_compiles_without_the_patches(tmp_path: Path) -> None:
    said = []
    for version in ("0.61.0", "9.9.0"):
        given = {name: value for name, value in os.environ.items() if name != "CEQL_COMPILED"}
        given["NUMBA_CACHE_DIR"] = str(tmp_path)
        command = [sys.executable, "-c", PLAIN, version]
        done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]
