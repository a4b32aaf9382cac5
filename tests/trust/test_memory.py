"""`memory=` covers all that a recogniser holds, and resident memory rises no further than that and an allowance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hold_memory

QUICK = ("kept rows", "matches that wait")  # `make faults` takes all
SPARE = 40 << 20  # the allowance of 16 MiB, what Arrow and NumPy keep for themselves, and copies while arrays grow


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="peaks are in other units here")
@pytest.mark.parametrize("case", hold_memory.CASES if "CEQL_FAULTS" in os.environ else QUICK)
def test_resident_memory_stays_within_the_budget(case: str) -> None:
    done = subprocess.run(
        [sys.executable, hold_memory.__file__, case], capture_output=True, text=True, timeout=600, check=True
    )
    found = json.loads(done.stdout)
    assert found["limit"] == "memory", found["message"]
    assert found["rise"] < hold_memory.MEMORY + SPARE
