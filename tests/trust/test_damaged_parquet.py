"""A Parquet file that is damaged anywhere is an error of ceql's, and never the end of the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).parent / "damaged_parquet.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1000
