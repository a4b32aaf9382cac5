"""Makes Numba compile in half the time, by what it has no public way for.

Parts of kernels are not optimised before they are linked, kernels know all that calls their parts, and signatures are
remembered. `ways` uses this with the versions of Numba between `TRIED`, and does without in any other.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.targetconfig import ConfigStack


@contextmanager
def in_half_the_time() -> Iterator[None]:
    """While something is compiled."""
    with ExitStack() as stack:
        for patch in (_no_collections, _known_signatures, _vectors):
            stack.enter_context(patch())
        yield


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


PIPELINES = {
    "kernel": _KernelCompiler,
    "allocating": _KernelCompiler,
    "inlined": _PartCompiler,
    "called": _PartCompiler,
}
"""Numba's `pipeline_class` for each way to compile."""
