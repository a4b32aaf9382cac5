"""JSON lines to a table, and what is wrong with a line that is no event."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pyarrow as pa

Numbered = list[tuple[int, bytes]]


def parse(text: bytes, columns: pa.Schema | None = None) -> pa.Table:
    """The table of some lines; `columns` have the types they have there. Errors are Arrow's."""
    from pyarrow import json as arrow_json

    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(f"not UTF-8: {error}") from error
    # as one block of Arrow's, which refuses an object that is larger than a block
    options = arrow_json.ReadOptions(block_size=max(1 << 20, len(text) + 1))
    return arrow_json.read_json(pa.BufferReader(text), options, arrow_json.ParseOptions(explicit_schema=columns))


def numbered(text: bytes, first: int) -> Numbered:
    """The lines that are not blank, with their numbers."""
    return [(first + k, line) for k, line in enumerate(text.split(b"\n")) if line.strip()]


def sifted(lines: Iterable[tuple[int, bytes]]) -> tuple[Numbered, list[tuple[int, str]]]:
    """The lines that are events; and the numbers of the others, with what is wrong with them."""
    good, bad = [], []
    for number, line in lines:
        wrong = what_is_wrong(line)
        if wrong is None:
            good.append((number, line))
        else:
            bad.append((number, f"line {number} is no event: {wrong}"))
    return good, bad


def what_is_wrong(line: bytes) -> str | None:
    """Why a line is not an event, or None.

    >>> what_is_wrong(b'{"a": 1}'), what_is_wrong(b"[1]")
    (None, 'a JSON object is expected, not a list')
    """
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except RecursionError:
        return "it is nested too deeply"
    except json.JSONDecodeError as error:
        return f"{error.msg} at column {error.colno}"
    except ValueError as error:  # a number of more digits than Python reads
        return str(error)
    if isinstance(value, dict):
        return None
    return f"a JSON object is expected, not a {type(value).__name__}"


def with_number(problem: str, lines: Numbered) -> str:
    """Arrow's message about some lines, with the number of the line that it speaks of."""
    row = re.search(r"in row (\d+)", problem)
    if row and int(row[1]) < len(lines):
        return f"line {lines[int(row[1])][0]}: {problem}"
    return f"lines {lines[0][0]} to {lines[-1][0]}: {problem}"
