"""Compiles kernels: the functions under `kernel`, `inlined`, `called` and `allocating`.

Kernels, and the parts that are inlined into them, are free of Python objects and compiled without reference counts:
Numba would count references to every array taken out of a tuple, which costs more than all else that the loops
do (27 ns against 0.8 ns a step in a loop of ten lines). What is compiled so cannot allocate; the few
kernels that must are `allocating`.

Numba is imported when the first kernel is called, as it takes longer than all of ceql. Until then a kernel is a name:
`ways` has the four ways to compile, `cache` keeps the compiled code, `told` says when somebody has to wait,
`signatures` lists what is compiled beforehand, and `records` passes named tuples to kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
Array = np.ndarray[Any, np.dtype[Any]]
"""An array of any type and shape: what is in it is said beside its name."""

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""True if kernels run as plain Python."""

RECORDS: list[type] = []
"""The classes under `record`."""

_lock = RLock()


class Kernel:
    """A function that is compiled, or loaded, when it is first called, or a part of such a function."""

    def __init__(self, function: Callable[..., Any], way: str) -> None:
        self.function, self.way = function, way
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__
        self.__wrapped__ = function
        self._made: Any = None

    def __call__(self, *given: Any) -> Any:
        return (self._made or self.dispatcher)(*given)

    @property
    def dispatcher(self) -> Any:
        """What Numba makes of the function."""
        if self._made is None:
            with _lock:
                from ceql.jit.ways import make

                self._made = self._made or make(self.function, self.way)
        return self._made

    @property
    def _numba_type_(self) -> Any:
        """Numba asks for this where a kernel names another function."""
        from ceql.jit.ways import type_of

        return type_of(self.dispatcher)


def _in(way: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        return function if INTERPRETED else Kernel(function, way)  # type: ignore[return-value]

    return decorate


def kernel(function: F) -> F:
    """Compile `function` when it is first called; later processes load it from the cache."""
    return _in("kernel")(function)


def inlined(function: F) -> F:
    """The same for a part of a kernel, which Python cannot call: wrappers for that would double what is compiled."""
    return _in("inlined")(function)


def called(function: F) -> F:
    """A part of a kernel that is compiled once and called, since it is large or asked for seldom."""
    return _in("called")(function)  # else it is inlined where a part that is inlined calls it


def allocating(function: F) -> F:
    """A kernel that makes arrays of its own. Parts that it calls must be its own, too: found by their names in another
    kernel's code, they would be called in another way."""
    return _in("allocating")(function)


def record(owner: C) -> C:
    """Let kernels take the instances of a named tuple by their address; its fields are arrays, numbers and records."""
    RECORDS.append(owner)
    return owner


# --- what kernels of several packages call ---

Word = Any
"""An int64, whatever NumPy's types say of what is done with it."""

LOWER = 0xFFFFFFFF  # the lower half of a word
FACTOR = -0x61C8864680B583EB  # odd, without pattern: the golden ratio's bits


@inlined
def mix(h: int, word: int) -> Word:
    """A hash of what `h` is a hash of, and one word more."""
    h = (h ^ word) * FACTOR
    return h ^ ((h >> 32) & LOWER)


@_in("prefetch")
def prefetch(array: Array, row: int) -> None:
    """Ask for a row of an array, so that it is near when it is needed. It may be a row that is not there."""
