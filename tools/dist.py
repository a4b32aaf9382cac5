"""`make dist`: a wheel and a source archive that are the same, byte for byte, wherever and whenever they are made.

`python tools/dist.py SOURCE OUT`. Times are those of SOURCE_DATE_EPOCH, by default of the last commit; the archive is
packed again in order of names, with no trace of who made it. Beside them comes a wheel for this platform that has the
kernels compiled (`platform_wheel`); its machine code is not the same bytes each time: Numba numbers what it compiles.
The hashes of all are printed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from platform_wheel import platform_wheel

_BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"


def last_commit(source: Path) -> str:
    """The time of the last commit."""
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=source, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def build(source: Path, out: Path, epoch: str) -> list[Path]:
    """The wheel and the source archive of the project in `source`."""
    out.mkdir(parents=True, exist_ok=True)
    made = []
    for kind in ("build_wheel", "build_sdist"):
        done = subprocess.run(
            [sys.executable, "-c", _BUILD, kind, str(out.resolve())],
            cwd=source,
            env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        made.append(out / done.stdout.splitlines()[-1])
    pack_again(made[-1], int(epoch))
    return made


def pack_again(archive: Path, epoch: int) -> None:
    """Leave of a .tar.gz what its files are: their names, their content, and whether they can be run."""
    packed = io.BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, member.size, epoch
            clean.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(clean, old.extractfile(member) if member.isfile() else None)
    with archive.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as compressed:
        compressed.write(packed.getvalue())


def main() -> None:
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    wheel, archive = build(source, out, os.environ.get("SOURCE_DATE_EPOCH") or last_commit(source))
    for path in (wheel, platform_wheel(wheel), archive):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}")


if __name__ == "__main__":
    main()
