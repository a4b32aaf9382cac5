"""Compiles functions with Numba, in four ways.

The patches that make Numba do so in half the time were tried with the versions between `TRIED`. With any other, plain
`numba.njit` compiles, which takes longer and gives the same results. `tests/jit/test_versions.py` says when to raise
`TRIED`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import RLock
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from ceql.jit import RECORDS, told
from ceql.jit.cache import Cache, find, locked
from ceql.jit.records import know
from ceql.jit.signatures import write

TRIED = ((0, 61), (0, 69))
"""The least version of Numba that the patches were tried with, and the first that they were not."""

PIPELINES: dict[str, Any] = {}
in_half_the_time: Callable[[], AbstractContextManager[None]] = nullcontext
if TRIED[0] <= tuple(int(part) for part in numba.__version__.split(".")[:2]) < TRIED[1]:
    from ceql.jit import patches

    PIPELINES, in_half_the_time = patches.PIPELINES, patches.in_half_the_time


# --- while something is compiled ---


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise an interrupt that came while LLVM called back: it takes no exceptions, so Python would report this one as
    ignored, and Numba then miss what it was told there."""
    lost: list[BaseException] = []
    report = sys.unraisablehook

    def keep(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            lost.append(unraisable.exc_value)
        else:
            report(unraisable)

    sys.unraisablehook = keep
    try:
        yield
    except Exception:
        if not lost:
            raise
    finally:
        sys.unraisablehook = report
    if lost:
        raise KeyboardInterrupt


class _Listener(event.Listener):  # type: ignore[misc]
    """Logs what is compiled."""

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"]
        if function.__module__.startswith("ceql."):
            told.log.info("compiling %s.%s", function.__module__, function.__name__)

    def on_end(self, event: Any) -> None:
        """Nothing: Numba asks for both."""


event.register("numba:compile", _Listener())


def _note(function: Callable[..., Any], arguments: Any) -> None:
    """Write what is compiled for Python to the file that CEQL_COMPILED names."""
    noted = os.environ.get("CEQL_COMPILED")
    if noted and function.__module__.startswith("ceql."):
        with open(noted, "a") as file:
            file.write(write(function, arguments) + "\n")


# --- four ways to compile ---

_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_OPTIONS: dict[str, dict[str, Any]] = {
    "kernel": {"_nrt": False},
    "allocating": {},
    "inlined": {"_nrt": False, "forceinline": True, **_PART},
    "called": {"_nrt": False, "forceinline": False, **_PART},
}


class NotCompiledError(BaseException):
    """A kernel would have to be compiled. No `except Exception` on the way may take it for a failure of its own."""


_lock = RLock()  # one thread compiles
_depth = 0  # kernels that call the function that is compiled now
_refused = False


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """Raise `NotCompiledError` where a kernel is called in this block that would have to be compiled."""
    global _refused
    before, _refused = _refused, True
    try:
        yield
    finally:
        _refused = before


def make(function: Callable[..., Any], way: str) -> Any:
    """Numba's dispatcher of a function of ceql, or the intrinsic `prefetch`."""
    if way == "prefetch":
        return _prefetch_intrinsic
    know(RECORDS)
    pipeline = {"pipeline_class": PIPELINES[way]} if way in PIPELINES else {}
    made: Any = numba.njit(nogil=True, error_model="numpy", **_OPTIONS[way], **pipeline)(function)
    made._cache = Cache(function, way == "allocating")
    alone = made.compile

    def compile(signature: Any) -> Any:
        global _depth
        with _lock, _interruptible():
            if _depth or find(function, signature) is not None:
                return alone(signature)
            if _refused:
                raise NotCompiledError(f"{function.__module__}.{function.__qualname__}")
            with told.waiting(function.__module__), locked(function), in_half_the_time():
                if find(function, signature) is None:  # else another process has compiled it meanwhile
                    _note(function, signature)
                _depth += 1
                try:
                    return alone(signature)
                finally:
                    _depth -= 1

    made.compile = compile
    return made


# --- what Numba has no function for ---


def _prefetch(typing: Any, array: Any, row: Any) -> Any:
    """Ask for a row of an array, so that it is near when it is needed. It may be a row that is not there."""
    return types.void(array, row), _prefetched


def _prefetched(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, given[0])
    row = context.cast(builder, given[1], signature.args[1], types.intp)
    rest = [context.get_constant(types.intp, 0)] * (kind.ndim - 1)
    place = cgutils.get_item_pointer(context, builder, kind, array, [row, *rest])
    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    called = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    function = cgutils.get_or_insert_function(builder.module, called, "llvm.prefetch.p0")
    builder.call(function, [builder.bitcast(place, byte), word(0), word(3), word(1)])  # to read, to keep, data
    return context.get_dummy_value()


_prefetch_intrinsic = intrinsic(_prefetch)


def type_of(made: Any) -> Any:
    """What a kernel that names this function is told of it."""
    return made._numba_type_ if hasattr(made, "_numba_type_") else cpu_target.typing_context.resolve_value_type(made)
