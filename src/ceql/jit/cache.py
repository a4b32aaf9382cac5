"""Keeps compiled code, and finds it by the content of the sources that it was compiled from.

A file holds one function for one signature and one target: versions of Python, Numba and LLVM, and a processor. Its
folder is named after the content of the module that defines the function and of all modules that this one imports. So
neither paths nor times matter, a change to any other file recompiles nothing, and checked code is apart.

Code is looked for in several places. First come those that somebody filled beforehand and that are only read: the
package itself, where a platform wheel has put kernels for any processor of its kind, and what Spark sent along. Each of
them says in `about.json` which target it was made for, and is used where that fits. The last place is the user's own:
under NUMBA_CACHE_DIR where that is set, else in the user's cache folder. If it cannot be written or read, each process
compiles for itself, and a warning says so once.

Numba's own cache has an index per function, which two processes cannot change at once, and keys that hold the exact
processor, so that it finds nothing on another machine of the same kind.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

PACKAGE = Path(__file__).parents[1]
BEFOREHAND = PACKAGE / "_kernels"
"""The folder in which a platform wheel has its kernels."""
ABOUT = "about.json"
_IMPORT = re.compile(r"^from ceql(?:\.([\w.]+))? import (?:\(([\w\s,]+)\)|([\w ,]+))", re.MULTILINE)
_ALWAYS = tuple(PACKAGE / "jit" / name for name in ("__init__.py", "ways.py", "patches.py", "records.py"))
"""The files on which all compiled code depends."""
_log = logging.getLogger("ceql")


class Target(NamedTuple):
    """What machine code is made for."""

    python: str
    numba: str
    llvmlite: str
    platform: str
    processor: str
    features: str

    @property
    def key(self) -> str:
        return " ".join(self)


class Place(NamedTuple):
    """A folder with compiled code, the target that it is for, and what a processor must have to run it."""

    folder: Path
    target: Target
    needs: tuple[str, ...]


# --- names ---


def cache_root() -> Path:
    """The user's own folder of compiled kernels."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(given or os.path.join(home, "ceql"))


@lru_cache
def imports(module: Path) -> tuple[Path, ...]:
    """The files of this package that a module's own import statements name."""
    found = []
    for parent, several, few in _IMPORT.findall(module.read_text("utf-8")):
        place = PACKAGE.joinpath(*parent.split("."))
        paths = [place, *(place / name.split(" as ")[0].strip() for name in (several or few).split(","))]
        found += [path.with_suffix(".py") for path in paths if path.with_suffix(".py").exists()]
    return tuple(found)


@lru_cache
def _hash_of(source: Path) -> bytes:
    return hashlib.sha256(source.read_bytes()).digest()


@lru_cache
def folder_of(module: Path) -> str:
    """The name of the folder that a module's functions are kept in."""
    sources = [module]
    for source in sources:  # grows on the way
        sources += [other for other in imports(source) if other not in sources]
    digest = hashlib.sha256(os.environ.get("NUMBA_BOUNDSCHECK", "").encode())
    for part in sorted(_hash_of(source) for source in {*sources, *_ALWAYS}):
        digest.update(part)
    name = (
        ".".join(module.relative_to(PACKAGE).with_suffix("").parts) if module.is_relative_to(PACKAGE) else module.stem
    )
    return f"{name}-{digest.hexdigest()[:16]}"


def file_of(function: Any, arguments: Any, target: Target) -> Path:
    """The file of a function for arguments of these types, below a place."""
    key = hashlib.sha256(f"{target.key} {arguments}".encode()).hexdigest()[:16]
    return Path(folder_of(Path(function.__code__.co_filename)), f"{function.__qualname__}-{key}.nbc")


# --- places ---


@lru_cache
def host_target() -> Target:
    """What code that is compiled here is for: this processor, unless NUMBA_CPU_NAME says otherwise."""
    import llvmlite
    import llvmlite.binding as llvm
    import numba
    from numba.core.codegen import get_host_cpu_features

    features = numba.config.CPU_FEATURES
    return Target(
        sys.implementation.cache_tag or "",
        numba.__version__,
        llvmlite.__version__,
        llvm.get_process_triple(),
        numba.config.CPU_NAME or llvm.get_host_cpu_name(),
        get_host_cpu_features() if features is None else features,
    )


def host_features() -> set[str]:
    """What this processor can do, as LLVM names it."""
    import llvmlite.binding as llvm

    return {name for name, has in llvm.get_host_cpu_features().items() if has}


def misfit(made_for: Target, needs: Iterable[str]) -> str:
    """Why code of that target does not run here; "" if it does."""
    here = host_target()
    for what, theirs, ours in (
        ("Python", made_for.python, here.python),
        ("Numba", made_for.numba, here.numba),
        ("llvmlite", made_for.llvmlite, here.llvmlite),
        ("the system", made_for.platform, here.platform),
    ):
        if theirs != ours:
            return f"{what} is {ours}, not {theirs}"
    lacking = set(needs) - host_features()
    return f"the processor lacks {' '.join(sorted(lacking))}" if lacking else ""


def about(place: Place) -> str:
    """What `about.json` says of a place."""
    return json.dumps({**place.target._asdict(), "needs": place.needs}, indent=1) + "\n"


_given: list[Path] = []
misfits: list[str] = []
"""The reasons why code that was made beforehand is not used."""


def look_in(folder: Path) -> None:
    """Look for compiled code in this folder, too."""
    if folder not in _given:
        _given.append(folder)
        beforehand.cache_clear()


@lru_cache(1)
def beforehand() -> tuple[Place, ...]:
    """The places that are only read."""
    misfits.clear()
    found = []
    for folder in (BEFOREHAND, *_given):
        try:
            said = json.loads((folder / ABOUT).read_text("utf-8"))
            needs = tuple(said.pop("needs"))
            target = Target(**said)
        except (OSError, ValueError, TypeError, KeyError):  # as in a pure wheel
            continue
        why = misfit(target, needs)
        if why:
            misfits.append(why)
        else:
            found.append(Place(folder, target, needs))
    return tuple(found)


def places() -> tuple[Place, ...]:
    """All places, the user's own last."""
    return (*beforehand(), Place(cache_root(), host_target(), tuple(sorted(host_features()))))


askers: list[Callable[[], None]] = []
"""Called where code is missing: they may `look_in` more places, as where Spark has put what it sent."""


def find(function: Any, arguments: Any) -> Path | None:
    """The file with a function for arguments of these types."""
    path = _look(function, arguments)
    if path is None and askers:
        known = len(_given)
        for ask in askers:
            ask()
        if len(_given) > known:
            path = _look(function, arguments)
    return path


def _look(function: Any, arguments: Any) -> Path | None:
    for place in places():
        path = place.folder / file_of(function, arguments, place.target)
        if path.exists():
            return path
    return None


# --- reading and writing ---


@lru_cache(1)
def _warn_once() -> None:
    _log.warning(
        "compiled kernels cannot be kept in %s: each process compiles them anew, which takes a minute; "
        "set NUMBA_CACHE_DIR to a folder that can be written",
        cache_root(),
    )


def tell_no_cache(error: Exception) -> None:
    _log.debug("the cache of kernels: %s", error)
    _warn_once()


class Cache:
    """The compiled code of one function, as Numba's dispatchers ask for it.

    A file that cannot be read is as none, and is written anew: it may be damaged, or the disk full.
    """

    def __init__(self, function: Any, allocates: bool) -> None:
        self._function, self._allocates = function, allocates

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Numba's `CompileResult`; None if there is none. Numba would first load all that compiling needs."""
        path = find(self._function, _arguments(signature))
        if path is None:
            return None
        try:
            from numba.core.compiler import CompileResult
            from numba.core.runtime import rtsys

            content = pickle.loads(path.read_bytes())
            if self._allocates:
                rtsys.initialize(context)
            return CompileResult._rebuild(context, *content)
        except Exception as error:  # what is unpickled raises anything
            tell_no_cache(error)
            with suppress(OSError):
                path.unlink()
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        path = cache_root() / file_of(self._function, _arguments(signature), host_target())
        part = path.with_name(f"{path.name}.{uuid4().hex[:8]}")
        try:
            from numba.core.serialize import dumps

            if any(not one.can_cache for one in compiled.lifted) or compiled.library.has_dynamic_globals:
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(dumps(compiled._reduce()))
            part.replace(path)
        except Exception as error:  # the disk may be full, and another version of Numba do it in another way
            tell_no_cache(error)
            with suppress(OSError):
                part.unlink()

    def flush(self) -> None:
        """Nothing: what is stale is not found."""

    enable = disable = flush


def _arguments(signature: Any) -> Any:
    return getattr(signature, "args", signature)


@contextmanager
def locked(function: Any) -> Iterator[None]:
    """Let one process at a time compile a kernel, and the others wait for it: each kernel has its own lock.

    Only the kernel that is called is locked, not what it calls, so a process holds one lock at most and none waits for
    itself. Two processes may both compile a part that their kernels share. Where files cannot be locked, each process
    compiles for itself.
    """
    file = None
    try:
        import fcntl

        folder = cache_root() / folder_of(Path(function.__code__.co_filename))
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"{function.__qualname__}.lock").open("ab")
        fcntl.flock(file, fcntl.LOCK_EX)
    except (ImportError, OSError) as error:
        if not isinstance(error, ImportError):
            tell_no_cache(error)
    try:
        yield
    finally:
        if file is not None:
            file.close()
