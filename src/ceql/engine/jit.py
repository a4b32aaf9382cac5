"""Three ways to compile, and where the results are kept.

Kernels, and the parts that are inlined into them, are free of Python objects and compiled without reference counts:
Numba would count references to every array taken out of a tuple, which costs more than all else that the loops
do (27 ns against 0.8 ns a step in a loop of ten lines). What is compiled so cannot allocate; the few
kernels that must are `allocating`.

Compiled code is cached on disk. Numba tells a stale cache by the kernel's own file alone, though what is inlined may
stand in another, and does not tell checked code from unchecked. So each state of this package's sources, and each way
to compile them, has a folder of its own: under NUMBA_CACHE_DIR where that is set, else the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _cache_folder() -> str:
    """The folder for this state of the sources; "" (Numba's own choice) when none can be written."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256(f"{numba.__version__} {os.environ.get('NUMBA_BOUNDSCHECK', '')}".encode())
    for source in sorted(package.rglob("*.py")):
        digest.update(source.read_bytes())
    given = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(given or os.path.join(home, "ceql")) / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(folder) if os.access(folder, os.W_OK) else ""


_FOLDER = _cache_folder()


def _compile(function: F, **options: Any) -> F:
    # Numba reads the folder when a function is decorated: other packages' functions are not concerned
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _FOLDER or before
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)  # type: ignore[no-any-return]
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: F) -> F:
    """Compile `function` when it is first called; later processes load it from the cache."""
    return _compile(function, _nrt=False)


def inlined(function: F) -> F:
    """The same for a part of a kernel, which Python cannot call: wrappers for that would double what is compiled."""
    return _compile(function, _nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def allocating(function: F) -> F:
    """A kernel that makes arrays of its own."""
    return _compile(function)
