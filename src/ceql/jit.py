"""Compiles kernels, and keeps the compiled code.

Kernels, and the parts that are inlined into them, are free of Python objects and compiled without reference counts:
Numba would count references to every array taken out of a tuple, which costs more than all else that the loops
do (27 ns against 0.8 ns a step in a loop of ten lines). What is compiled so cannot allocate; the few
kernels that must are `allocating`.

Compiled code is cached on disk. Numba tells a stale cache by the kernel's own file alone, though what is inlined may
stand in another, and does not tell checked code from unchecked. So the cache has a folder for each module that defines
kernels, named after the content of that module and of all modules that it imports: under NUMBA_CACHE_DIR
where that is set, else in the user's cache folder. A change to any other file recompiles nothing.

Several processes that need the same kernel wait for one of them to compile it. If the cache cannot be written or read,
each compiles for itself, and a warning says so once.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import RLock
from typing import IO, Any, TypeVar

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.targetconfig import ConfigStack
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
Array = np.ndarray[Any, np.dtype[Any]]
"""An array of any type and shape: what is in it is said beside its name."""

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(r"^from ceql(?:\.([\w.]+))? import (?:\(([\w\s,]+)\)|([\w ,]+))", re.MULTILINE)
_log = logging.getLogger("ceql")


# --- where compiled code is kept ---


def cache_root() -> Path:
    """The folder of all compiled kernels."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(given or os.path.join(home, "ceql"))


@lru_cache
def _imports(module: Path) -> tuple[Path, ...]:
    """The files of this package that a module's own import statements name."""
    found = []
    for parent, several, few in _IMPORT.findall(module.read_text()):
        place = _PACKAGE.joinpath(*parent.split("."))
        paths = [place, *(place / name.split(" as ")[0].strip() for name in (several or few).split(","))]
        found += [path.with_suffix(".py") for path in paths if path.with_suffix(".py").exists()]
    return tuple(found)


@lru_cache
def _folder(module: Path) -> str:
    """The cache of a module's kernels; "" when it cannot be written, and each process compiles for itself."""
    sources = [module]
    for source in sources:  # grows on the way
        sources += [other for other in _imports(source) if other not in sources]
    digest = hashlib.sha256(f"{numba.__version__} {os.environ.get('NUMBA_BOUNDSCHECK', '')}".encode())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    folder = cache_root() / f"{module.stem}-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # as Numba will
            return str(folder)
    except OSError as error:
        _tell_no_cache(error)
        return ""


@lru_cache(1)
def _warn_once() -> None:
    _log.warning(
        "compiled kernels cannot be kept in %s: each process compiles them anew, which takes a minute; "
        "set NUMBA_CACHE_DIR to a folder that can be written",
        cache_root(),
    )


def _tell_no_cache(error: Exception) -> None:
    _log.debug("the cache of kernels: %s", error)
    _warn_once()


class _Locator:
    """Numba's question where a kernel's code is kept, answered by the content of its sources alone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def get_cache_path(self) -> str:
        return self._folder

    def ensure_cache_path(self) -> None:
        """The folder is there."""

    def get_source_stamp(self) -> str:
        return ""  # the folder's name has it

    def get_disambiguator(self) -> str:
        return ""


class _CacheOfKernels(CompileResultCacheImpl):  # type: ignore[misc]
    """How a kernel is stored: as Numba does it, under a name without the line that it begins at."""

    def __init__(self, function: Any) -> None:
        self._locator = _Locator(_folder(Path(function.__code__.co_filename)))
        self._lineno = function.__code__.co_firstlineno
        self._filename_base = self.get_filename_base(function.__qualname__, "")


class _Cache(FunctionCache):  # type: ignore[misc]
    """The compiled code of a kernel. One that cannot be read or written is as none: its files may be damaged, or the
    disk full."""

    _impl_class = _CacheOfKernels

    def load_overload(self, *given: Any) -> Any:
        try:
            return super().load_overload(*given)
        except Exception as error:  # what Numba unpickles raises anything
            _tell_no_cache(error)
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, *given: Any) -> None:
        try:
            super().save_overload(*given)
        except OSError as error:
            _tell_no_cache(error)


# --- one process compiles, the others wait ---


class _Lock:
    """Held while a kernel is loaded or compiled: by one thread of one process, however deep its kernels call others."""

    def __init__(self) -> None:
        self._threads = RLock()
        self._depth = 0
        self._file: IO[bytes] | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._threads:
            if self._depth == 0:
                self._file = self._open()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0 and self._file is not None:
                    self._file.close()

    @staticmethod
    def _open() -> IO[bytes] | None:
        """The locked file; None where files cannot be locked, and each process compiles for itself."""
        try:
            import fcntl

            file = (cache_root() / "lock").open("ab")
            fcntl.flock(file, fcntl.LOCK_EX)
        except (ImportError, OSError):
            return None
        return file


_lock = _Lock()


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
    """Tells people at a terminal or notebook, once, why the first match takes seconds."""

    told = False

    def on_start(self, event: Any) -> None:
        kernel = event.data["dispatcher"]
        if not kernel.__module__.startswith("ceql."):
            return
        _log.info("compiling %s.%s", kernel.__module__, kernel.__name__)
        if not self.told and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            print("ceql: compiling, once per machine ...", file=sys.stderr, flush=True)
        self.told = True

    def on_end(self, event: Any) -> None:
        """Nothing: Numba asks for both."""


event.register("numba:compile", _Listener())


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


_PART = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _PartCompiler}


def _compile(function: F, **options: Any) -> F:
    compiled: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if hasattr(compiled, "compile"):  # unless Numba is switched off
        if _folder(Path(function.__code__.co_filename)):
            compiled._cache = _Cache(function)
        alone = compiled.compile

        def compile(signature: Any) -> Any:
            with _lock.held(), _no_collections(), _known_signatures(), _interruptible(), _vectors():
                return alone(signature)

        compiled.compile = compile
    return compiled  # type: ignore[no-any-return]


def kernel(function: F) -> F:
    """Compile `function` when it is first called; later processes load it from the cache."""
    return _compile(function, _nrt=False, pipeline_class=_KernelCompiler)


def inlined(function: F) -> F:
    """The same for a part of a kernel, which Python cannot call: wrappers for that would double what is compiled."""
    return _compile(function, forceinline=True, **_PART)


def called(function: F) -> F:
    """A part of a kernel that is compiled once and called, since it is large or asked for seldom."""
    return _compile(function, forceinline=False, **_PART)  # else it is inlined where a part that is inlined calls it


def allocating(function: F) -> F:
    """A kernel that makes arrays of its own. Parts that it calls must be its own, too: found by their names in another
    kernel's code, they would be called in another way."""
    return _compile(function, pipeline_class=_KernelCompiler)


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


def _no_prefetch(array: Array, row: int) -> None:
    """Nothing is near or far to Python."""


prefetch: Callable[[Array, int], None] = _no_prefetch if numba.config.DISABLE_JIT else intrinsic(_prefetch)
