"""Jars from Maven Central, as the tests and `make kafka` need them: a folder for each list in tools/kafka."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("CEQL_JARS", ROOT / ".venv" / "jars"))
SECONDS = 120
_SETTINGS = """<settings><mirrors><mirror>
<id>central</id><mirrorOf>*</mirrorOf><url>https://repo.maven.apache.org/maven2</url>
</mirror></mirrors></settings>
"""
"""Spark's POMs name further repositories, which are asked first and need not be within reach."""


class NoJarsError(Exception):
    """Says why there are no jars."""


def jars(name: str) -> Path:
    """The folder with the jars of a list, fetched if they are not there."""
    folder = FOLDER / name
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        raise NoJarsError("Maven and Java are needed: apt-get install maven default-jdk-headless")
    part = FOLDER / f"{name}.{os.getpid()}"
    part.mkdir(parents=True)
    settings = part / "settings.xml"
    settings.write_text(_SETTINGS)
    command = [maven, "-B", "-q", "-ntp", "-s", str(settings), "-f", str(ROOT / "tools" / "kafka" / f"{name}.xml")]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={part}", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise NoJarsError(f"Maven cannot fetch {name}: {(done.stdout + done.stderr)[:500]}")
        settings.unlink()
        if not folder.is_dir():
            part.rename(folder)
    except subprocess.TimeoutExpired as error:
        raise NoJarsError(f"Maven has not fetched {name} in {SECONDS} s") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder
