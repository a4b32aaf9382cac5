"""Random tests draw the same cases everywhere: in any process, whatever modules are loaded, however texts hash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import conftest, generators, rule_oracle, trees
from hypothesis import HealthCheck, given, settings, strategies as st

def show(strategy):
    @settings(max_examples=30, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def look(case):
        print(case)
    look()

for strategy in (
    generators.uncorrelated_cases(named=True), generators.correlated_cases(), generators.conditioned_cases(),
    rule_oracle.rule_cases(), trees.queries(), st.integers(), st.text(), st.floats(),
):
    show(strategy)
"""


def drawn(seed: int, before: str, folder: Path) -> str:
    tests = Path(__file__).parent
    paths = [str(tests), str(tests / "helpers"), str(folder), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", before + PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_same_cases_everywhere(tmp_path: Path) -> None:
    (tmp_path / "constants.py").write_text("ODD = [123456789123, 'an odd text', 0.123456]\n" * 50)
    first = drawn(1, "", tmp_path)
    assert len(first.splitlines()) > 100
    assert drawn(2, "import constants, ceql.cli.app", tmp_path) == first
