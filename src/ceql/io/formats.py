"""The format of a file: what the caller says, else by its suffix, else by its first bytes."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from ceql.errors import DataError

FORMATS = ("csv", "tsv", "json", "parquet", "arrow")
_SUFFIXES = {
    ".parquet": "parquet", ".csv": "csv", ".tsv": "tsv", ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
_GZIP = b"\x1f\x8b"
_HEAD = 1 << 16


def format_of(path: Path) -> str:
    """The format of a file, one of `FORMATS`: by its suffix, else by its content."""
    zipped = is_gzipped(path)
    found = format_of_name(path)
    if found is None:
        with open(path, "rb") as file:
            found = format_of_bytes((gzip.GzipFile(fileobj=file) if zipped else file).read(_HEAD))
    if found is None:
        known = ", ".join(_SUFFIXES)
        raise DataError(
            f"cannot tell the format of {path.name}: known are {known}, and other files that begin with a JSON object, "
            "the header of a CSV file, or the marks of Parquet or Arrow"
        )
    if (zipped or path.suffix.lower() == ".gz") and found in ("parquet", "arrow"):
        raise DataError(f"cannot read {path.name}: only CSV and JSON lines may be gzipped")
    return found


def format_of_name(path: Path) -> str | None:
    """The format that the suffix of a file stands for, also before `.gz`; None if it stands for none."""
    suffix = path.suffix.lower()
    return _SUFFIXES.get(Path(path.stem).suffix.lower() if suffix == ".gz" else suffix)


def format_of_bytes(head: bytes) -> str | None:
    """The format of a file that begins so.

    >>> format_of_bytes(b'{"type": "A"}'), format_of_bytes(b"type,user\\nA,1\\n"), format_of_bytes(b"Hello, world\\n")
    ('json', 'csv', None)
    """
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    lines = head.removeprefix(b"\xef\xbb\xbf").strip().splitlines()
    if not lines or lines[0].startswith((b"{", b"[")):
        return "json" if lines else None
    for format, delimiter in (("tsv", b"\t"), ("csv", b",")):
        # a header has a name in every field; the line after it has as many fields, unless some are quoted
        names = lines[0].split(delimiter)
        fields = lines[1].count(delimiter) if len(lines) > 1 and b'"' not in lines[1] else len(names) - 1
        if len(names) > 1 and fields == len(names) - 1 and all(name and name == name.strip() for name in names):
            return format
    return None


def is_gzipped(path: Path) -> bool:
    """Whether the file holds gzipped data, whatever its name."""
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


def is_pipe(path: Path) -> bool:
    """Whether the path is a pipe, such as the shell's `<(command)`, which can be read only once."""
    mode = path.stat().st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def copied(pipe: IO[bytes], head: bytes = b"") -> Path:
    """A temporary file with `head` and all that comes from the pipe. The caller removes it."""
    with NamedTemporaryFile(prefix="ceql-", delete=False) as copy:
        try:
            copy.write(head)
            shutil.copyfileobj(pipe, copy, 1 << 20)
        except BaseException:
            os.unlink(copy.name)
            raise
    return Path(copy.name)
