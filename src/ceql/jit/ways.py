"""Compiles functions with Numba, in four ways, and makes Numba do so in half the time.

What Numba has no public way for stands here and nowhere else: libraries that are not optimised twice, signatures that
are remembered. It was tried with the versions between `TRIED`; with any other, functions are compiled by plain
`numba.njit`, which takes longer and gives the same results. `tests/jit/test_versions.py` says when to raise `TRIED`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.extending import intrinsic

from ceql.jit import RECORDS, told
from ceql.jit.cache import Cache, find, locked
from ceql.jit.records import know
from ceql.jit.signatures import write

TRIED = ((0, 61), (0, 69))
"""The least version of Numba that the patches were tried with, and the first that they were not."""

_patched = TRIED[0] <= tuple(int(part) for part in numba.__version__.split(".")[:2]) < TRIED[1]


# --- while something is compiled ---


@contextmanager
def _no_collections() -> Iterator[None]:
    """Let Python look for no garbage meanwhile: Numba makes millions of objects that it keeps to the end, and looking
    through them again and again takes an eighth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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


_find_signature = types.Function.get_call_type


def _signature(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature of an operator or built-in function for operands of these types, looked up once."""
    known = function.__dict__.setdefault("_ceql_known", {})
    key = context, args, tuple(kws.items()), ConfigStack.top_or_none().nrt
    if key not in known:
        known[key] = _find_signature(function, context, args, kws)
    return known[key]


@contextmanager
def _known_signatures() -> Iterator[None]:
    """Let Numba remember meanwhile what operators give: it tries some ten rules wherever one stands, each time it comes
    by. That is a tenth of what the first condition between events takes to compile (26.0 and 23.6 s of CPU)."""
    before = types.Function.get_call_type
    types.Function.get_call_type = _signature
    try:
        yield
    finally:
        types.Function.get_call_type = before


@contextmanager
def _vectors() -> Iterator[None]:
    """Let LLVM make vectors of numbers that are treated alike: the eight lanes in which matches are counted."""
    before, numba.config.SLP_VECTORIZE = numba.config.SLP_VECTORIZE, 1
    try:
        yield
    finally:
        numba.config.SLP_VECTORIZE = before


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


# --- parts of kernels ---


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a part of kernels, in LLVM's language alone.

    Numba would optimise each part and make machine code of it, though only the kernels that it is linked into are ever
    called. They optimise it once more, with all else that they have.
    """

    def _optimize_final_module(self) -> None:
        """Not here; each function by itself was made shorter when it was added, which pays."""

    def _finalize_final_module(self) -> None:
        self._finalized = True  # what is asked for next has to be final
        self._get_module_for_linking()
        self._finalized = False
        # Numba writes to the variables of environments, one for each function, before any kernel has them
        whole: Any = self._final_module
        names = [variable.name for variable in whole.global_variables if variable.name.startswith("_ZN08NumbaEnv")]
        variables = "\n".join(f'@"{name}" = common global i64 0' for name in names)
        self._final_module: Any = llvm.parse_assembly(f'target triple = "{whole.triple}"\n{variables}')
        super()._finalize_final_module()


class _PartCompiler(Compiler):  # type: ignore[misc]
    """Compiles to a `_PartLibrary`."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        library = targetctx.codegen().create_library("part")
        library.__class__ = _PartLibrary
        library.enable_object_caching()  # so that it can be stored
        super().__init__(typingctx, targetctx, library, *rest)


class _KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel, which its parts are linked into.

    A part is given some hundred words, as each array is seven or more of them. LLVM saves that where it knows that the
    kernel alone calls the part.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = "internal"
        super()._optimize_final_module()


class _KernelCompiler(Compiler):  # type: ignore[misc]
    """Compiles to a `_KernelLibrary`."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        library = targetctx.codegen().create_library("kernel")
        library.__class__ = _KernelLibrary
        library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, *rest)


# --- four ways to compile ---

_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_WAYS: dict[str, tuple[dict[str, Any], type[Compiler]]] = {
    "kernel": ({"_nrt": False}, _KernelCompiler),
    "allocating": ({}, _KernelCompiler),
    "inlined": ({"_nrt": False, "forceinline": True, **_PART}, _PartCompiler),
    "called": ({"_nrt": False, "forceinline": False, **_PART}, _PartCompiler),
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
    options, pipeline = _WAYS[way]
    patches: dict[str, Any] = {"pipeline_class": pipeline} if _patched else {}
    made: Any = numba.njit(nogil=True, error_model="numpy", **options, **patches)(function)
    made._cache = Cache(function, way == "allocating")
    alone = made.compile

    def compile(signature: Any) -> Any:
        global _depth
        with _lock:
            if _depth or find(function, signature) is not None:
                return alone(signature)
            if _refused:
                raise NotCompiledError(f"{function.__module__}.{function.__qualname__}")
            with ExitStack() as stack:
                stack.enter_context(told.waiting(function.__module__))
                stack.enter_context(locked(function))
                stack.enter_context(_interruptible())
                if _patched:
                    stack.enter_context(_no_collections())
                    stack.enter_context(_known_signatures())
                    stack.enter_context(_vectors())
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
