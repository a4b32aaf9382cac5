"""Loads data for the studio: files by path, uploads, examples, and JSON lines that still arrive."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from ceql.cli.demo.show import SAMPLE
from ceql.cli.inputs import Files
from ceql.cli.json_lines import JsonLines
from ceql.errors import CeqlError, DataError
from ceql.io.formats import format_of
from ceql.studio.data import Columns, Data, from_source, guess_columns

_PAUSE = 0.2  # seconds between two looks at a file that may have grown
_NO_FILES = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
_FIRST_EVENTS = 2.0  # seconds to wait for the first events of a stream, which tell the columns


def regular(path: str, grows: bool = False) -> Path:
    """The path of a file that can be loaded, or followed if it `grows`; an error says why another one cannot.

    Pipes and devices may have no end, so that only files are read, whose size is known before. All events are held in
    memory.
    """
    if not path.strip():
        raise DataError("say which file to load")
    found = os.path.abspath(os.path.expanduser(path))
    try:
        known = os.stat(found)
    except (FileNotFoundError, ValueError):  # the latter for a NUL
        raise DataError(f"no such file: {path}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(known.st_mode):
        kind = next((name for is_one, name in _NO_FILES if is_one(known.st_mode)), "a device")
        raise DataError(f"{path} is {kind}; the studio loads files alone")
    if not known.st_size and not grows:
        raise DataError(f"{path} is empty")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if known.st_size > memory:
        size, room = (f"{bytes >> 30:,} GiB" for bytes in (known.st_size, memory))
        raise DataError(
            f"{path} has {size}, and this computer {room} of memory, where the studio holds all events; "
            "`ceql run` reads a file bit by bit"
        )
    return Path(found)


def load(id: str, path: Path, origin: dict[str, Any], columns: Columns, name: str | None = None) -> Data:
    """The events of a file."""
    found = guess_columns(Files(None, [str(path)]).schema, columns)
    try:
        return from_source(id, name or path.name, origin, Files(None, [str(path)], found.time), found)
    except DataError:
        if found.time is None or found.time == columns.time:
            raise
        # the column was only guessed: without it, the data can be looked at
        plain = Columns(found.type, None, columns.time_unit)
        return from_source(id, name or path.name, origin, Files(None, [str(path)]), plain)


def load_path(id: str, path: str, columns: Columns) -> Data:
    """The events of the file that a user names."""
    found = regular(path)
    return load(id, found, {"path": str(found)}, columns)


def sample(id: str, example: str, columns: Columns) -> Data:
    """The payments that the demonstration has."""
    return load(id, SAMPLE, {"example": example}, columns, "payments")


def follow(id: str, path: str, columns: Columns) -> Data:
    """The events of a file of JSON lines, and those that are written to its end from now on."""
    found = regular(path, grows=True)
    if format_of(found) != "json":
        raise DataError(f"{found.name} is no file of JSON lines, and only these can be followed")
    reading, writing = os.pipe()
    threading.Thread(target=_copy, args=(found, writing), daemon=True, name="ceql-follow").start()
    return arriving(id, found.name, {"path": str(found), "follow": True}, reading, columns)


def _copy(path: Path, descriptor: int) -> None:
    """Write what the file has, and what is added to it, until nobody reads it any more."""
    with suppress(OSError), open(path, "rb") as file:  # nobody reads it, or the file is gone
        while True:
            if block := file.read(1 << 18):
                os.write(descriptor, block)
            else:
                time.sleep(_PAUSE)


def arriving(id: str, name: str, origin: dict[str, Any], descriptor: int, columns: Columns) -> Data:
    """JSON lines that arrive on a file descriptor. The first of them tell the columns."""
    data = Data(id, name, origin, columns, [], live=True)
    known = threading.Event()
    wanted = Columns(columns.type or "type", columns.time or "time", columns.time_unit)

    def tell(schema: pa.Schema) -> None:
        if not known.is_set():
            type = wanted.type if wanted.type in schema.names else None
            data.columns = Columns(type, wanted.time if wanted.time in schema.names else None, wanted.time_unit)
            known.set()

    threading.Thread(target=_read, args=(data, descriptor, wanted, tell), daemon=True, name="ceql-read").start()
    known.wait(_FIRST_EVENTS)
    return data


def _read(data: Data, descriptor: int, columns: Columns, tell: Callable[[pa.Schema], None]) -> None:
    try:
        for block in JsonLines(descriptor, time=columns.time):
            for batch in block.batches():
                tell(batch.schema)
                data.append(batch)
            if not data.live:  # the session has let go of it
                return
        data.end()
    except CeqlError as error:
        data.end(str(error))
    except OSError as error:
        data.end(f"the stream broke off: {error}")
    finally:
        os.close(descriptor)
