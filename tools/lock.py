"""`make lock`: prints the versions that pip chooses for ceql and its extras in memory, with the hashes of their files.

Install from it with `pip install --require-hashes -r requirements.lock`. The hashes are of the files for the platform
and interpreter that ran this.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

EXTRAS = ("pandas", "polars", "cli", "studio", "sql")


def wanted(root: Path) -> list[str]:
    """What ceql and these extras ask for."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *(need for extra in EXTRAS for need in project["optional-dependencies"][extra])]


def main() -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    needs = wanted(Path(__file__).parents[1])
    done = subprocess.run([*command, *needs], capture_output=True, text=True, check=True)
    print(f"# Made by `make lock`, with Python {sys.version_info[0]}.{sys.version_info[1]} on {sys.platform}.")
    for entry in sorted(json.loads(done.stdout)["install"], key=lambda entry: entry["metadata"]["name"].lower()):
        name, version = entry["metadata"]["name"], entry["metadata"]["version"]
        print(f"{name}=={version} --hash=sha256:{entry['download_info']['archive_info']['hashes']['sha256']}")


if __name__ == "__main__":
    main()
