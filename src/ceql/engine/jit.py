"""Two ways to compile: kernels, and the parts that are inlined into them.

Both are cached on disk, free of Python objects, and without reference counts: Numba would count references to every
array taken out of a tuple, which costs more than all else that the loops do (27 ns against 0.8 ns a step
in a loop of ten lines). What is compiled so cannot allocate; the few kernels that must are `allocating`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile `function` when it is first called; later processes load it from the cache."""
    return numba.njit(**_OPTIONS, _nrt=False)(function)  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    """The same for a part of a kernel."""
    return numba.njit(**_OPTIONS, _nrt=False, forceinline=True)(function)  # type: ignore[no-any-return]


def allocating(function: F) -> F:
    """A kernel that makes arrays of its own."""
    return numba.njit(**_OPTIONS)(function)  # type: ignore[no-any-return]
