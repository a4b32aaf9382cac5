"""Makes a platform wheel of a pure one: the same files, and all kernels as machine code.

The kernels are compiled by the sources in the pure wheel itself, for the least processor that Python's own platform has
machines with by now: x86-64-v2 (of 2009), or any aarch64. Only what Python calls travels, since the parts that kernels
call are in their code. The wheel fits one version of Python, and is used where the versions of Numba and llvmlite are
those it was built with.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

_TIME = (1980, 1, 1, 0, 0, 0)
_PROCESSORS = {
    "x86_64": ("x86-64-v2", ["cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"]),
    "AMD64": ("x86-64-v2", ["cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"]),
    "aarch64": ("generic", []),
    "arm64": ("generic", []),
}
"""What kernels are compiled for on a machine of this kind, and what a processor must have to run them."""
# run by the sources in the wheel: compiles all, and copies what travels
_COMPILE = """
import shutil, sys
from pathlib import Path
from ceql import warm
from ceql.jit import cache
from ceql.jit.signatures import listed, read

if __name__ == "__main__":
    out, needs = Path(sys.argv[1]), sys.argv[2:]
    warm.warm()
    target = cache.host_target()
    for job in map(read, listed()):
        name = cache.file_of(job.kernel.function, job.arguments, target)
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(cache.cache_root() / name, out / name)
    (out / cache.ABOUT).write_text(cache.about(cache.Place(out, target, tuple(needs))))
"""


def tag() -> str:
    """The tag of wheels for this interpreter and platform."""
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    system = re.sub("^linux", "manylinux2014", system)  # nothing is linked; Numba's own wheels have this tag
    return f"{python}-{python}-{system}"


def compile_kernels(site: Path, out: Path) -> None:
    """Compile the kernels of the package in `site` for the least processor, and put them in `out`."""
    processor, needs = _PROCESSORS[platform.machine()]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "compile_kernels.py")
        program.write_text(_COMPILE)
        given = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "CEQL_"))}
        given |= {"PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(Path(folder, "cache"))}
        given |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
        subprocess.run([sys.executable, str(program), str(out), *needs], env=given, check=True)


def platform_wheel(pure: Path) -> Path:
    """Make the wheel of this platform beside a pure one."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        with zipfile.ZipFile(pure) as wheel:
            wheel.extractall(site)
        compile_kernels(site, site / "ceql" / "_kernels")
        (info,) = site.glob("*.dist-info")
        said = (info / "WHEEL").read_text()
        said = re.sub("(?m)^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", said)
        (info / "WHEEL").write_text(re.sub("(?m)^Tag: .*$", f"Tag: {tag()}", said))
        made = pure.with_name(pure.name.replace("py3-none-any", tag()))
        pack(site, info / "RECORD", made)
    return made


def pack(site: Path, record: Path, out: Path) -> None:
    """Write the files below a folder as a wheel, with their hashes in `record`, which comes last."""
    files = sorted(
        path for path in site.rglob("*") if path.is_file() and path != record and "__pycache__" not in path.parts
    )
    lines = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for path in files:
            name, content = path.relative_to(site).as_posix(), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}")
            _add(wheel, name, content)
        name = record.relative_to(site).as_posix()
        _add(wheel, name, "\n".join([*lines, f"{name},,", ""]).encode())


def _add(wheel: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
    wheel.writestr(entry, content)
