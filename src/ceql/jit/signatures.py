"""Lists what is compiled beforehand: each kernel in each signature that the tests have met.

`signatures.txt` has a line for each of them, as `ceql.io.sorted_runs.in_order(int64[1C])`. An array is written as its
type, its dimensions and its order, with `!` if it cannot be written to; a named tuple as its class and fields. Named
tuples have lines of their own, `Name = class(fields)`, and stand by that name in the others.

`make tests` fails if something was compiled that the list lacks, and `make signatures` adds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from numba import types

from ceql.jit import RECORDS, Kernel
from ceql.jit.records import Record

LIST = Path(__file__).with_name("signatures.txt")
_ARRAY = re.compile(r"(\w+)\[(\d)([CFA])(!?)\]")
_TOKEN = re.compile(r"[\w.]+(?:\[\d[CFA]!?\])?|[(),=]")


class Job(NamedTuple):
    """A kernel, and the types of the arguments that it is compiled for."""

    kernel: Kernel
    arguments: tuple[Any, ...]


class StaleError(Exception):
    """A line of the list says what the kernels no longer are."""


# --- types to text ---


def write(function: Any, arguments: Iterable[Any]) -> str:
    """A kernel with types of arguments, all in one line."""
    return f"{function.__module__}.{function.__qualname__}({', '.join(map(_text, arguments))})"


def _text(kind: Any) -> str:
    match kind:
        case types.Array():
            return f"{_text(kind.dtype)}[{kind.ndim}{kind.layout}{'' if kind.mutable else '!'}]"
        case Record():
            return f"{_name(kind.owner)}({', '.join(_text(field) for _, field in kind.fields)})"
        case types.BaseNamedTuple():
            return f"{_name(kind.instance_class)}({', '.join(map(_text, kind))})"
        case types.BaseTuple():
            return f"tuple({', '.join(map(_text, kind))})"
        case _:
            return str(kind)


def _name(owner: type) -> str:
    return f"{owner.__module__}.{owner.__qualname__}"


def abridged(lines: Iterable[str]) -> str:
    """The list with these lines: what is long in them has a line of its own."""
    names: dict[str, str] = {}
    short = [_abridge(line, names) for line in sorted(set(lines))]
    defined = [f"{name} = {meaning}" for meaning, name in names.items()]
    return "\n".join([*defined, "", *short, ""])


def _abridge(line: str, names: dict[str, str]) -> str:
    """Replace the classes in a line, innermost first."""
    inner = re.compile(r"(?<!^)\bceql\.[\w.]+\.([A-Z]\w*)\([^()]*\)")
    while found := inner.search(line):
        meaning = found[0]
        if meaning not in names:
            many = sum(name.rstrip("0123456789") == found[1] for name in names.values())
            names[meaning] = f"{found[1]}{many + 1 if many else ''}"
        line = line[: found.start()] + names[meaning] + line[found.end() :]
    return line


# --- text to types ---


def listed(path: Path = LIST) -> list[str]:
    """The lines of the list, each whole in itself, those that take longest to compile first."""
    names: dict[str, str] = {}
    found = []
    for line in path.read_text("utf-8").splitlines():
        name, _, meaning = line.partition(" = ")
        if meaning:
            names[name] = _written_out(meaning, names)
        elif line:
            found.append(_written_out(line, names))
    return sorted(found, key=lambda line: (not line.partition("(")[0].endswith(".advance"), -len(line), line))


def _written_out(line: str, names: dict[str, str]) -> str:
    return re.sub(r"(?<![\w.])[A-Z]\w*(?![\w.(\[])", lambda found: names.get(found[0], found[0]), line)


def read(line: str) -> Job:
    """
    >>> job = read("ceql.io.sorted_runs.in_order(int64[1C])")
    >>> job.kernel.__name__, job.arguments
    ('in_order', (Array(int64, 1, 'C', False, aligned=True),))
    """
    name, _, rest = line.partition("(")
    kernel = _named(name)
    if not isinstance(kernel, Kernel) or kernel.way not in ("kernel", "allocating"):
        raise StaleError(f"{name} is no kernel")
    tokens = iter(_TOKEN.findall(rest))
    arguments = tuple(_types(tokens))
    count = kernel.function.__code__.co_argcount
    if len(arguments) != count:
        raise StaleError(f"{name} takes {count} arguments, not {len(arguments)}")
    return Job(kernel, arguments)


def read_all() -> list[Job]:
    """The kernels of the list; without what is stale, as in a checkout where kernels have changed: the tests tell."""
    found = []
    for line in listed():
        with suppress(StaleError):
            found.append(read(line))
    return found


def _named(name: str) -> Any:
    module, _, last = name.rpartition(".")
    try:
        return getattr(import_module(module), last)
    except (ImportError, AttributeError, ValueError) as error:
        raise StaleError(f"there is no {name}") from error


def _types(tokens: Iterator[str]) -> Iterator[Any]:
    """The types up to the closing bracket."""
    last = ""
    for token in tokens:
        if token == "(":
            yield _whole(last, list(_types(tokens)))
            last = ""
        elif token in ",)":
            if last:
                yield _simple(last)
            last = ""
            if token == ")":
                return
        else:
            last = token


def _simple(word: str) -> Any:
    array = _ARRAY.fullmatch(word)
    if array:
        return types.Array(_simple(array[1]), int(array[2]), array[3], readonly=bool(array[4]))
    kind = getattr(types, {"bool": "boolean"}.get(word, word), None)
    if not isinstance(kind, types.Type):
        raise StaleError(f"there is no type {word}")
    return kind


def _whole(name: str, fields: list[Any]) -> Any:
    if name == "tuple":
        return types.BaseTuple.from_types(fields)
    owner = _named(name)
    names = getattr(owner, "_fields", ())
    if len(names) != len(fields):
        raise StaleError(f"{name} has {len(names)} fields, not {len(fields)}")
    if owner in RECORDS:
        return Record(owner, tuple(zip(names, fields, strict=True)))
    return types.BaseTuple.from_types(fields, owner)
