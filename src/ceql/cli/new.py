"""`ceql new`: writes a query to begin with from a file of events: what is in them, and an example that has matches.

In: a file. Out: a text whose comments list the types and columns with what they hold, and a sequence of two events. The
sequence is tried on the events: of the keys and windows that suggest themselves, the first is taken that has matches.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ceql.cli.exit_codes import UsageError, say
from ceql.cli.inputs import Files
from ceql.errors import CeqlError
from ceql.io.guess import time_column, type_column
from ceql.io.schemas import conform, is_text, unify_schemas
from ceql.query import compile
from ceql.results.text import cell, to_python
from ceql.syntax.printer import print_name

_ROWS = 200_000  # that are looked at
_TYPES, _VALUES = 12, 6
_WINDOWS = ("1 MINUTE", "10 MINUTES", "1 HOUR", "1 DAY", "30 DAYS")
_KEYS = ("user", "card", "account", "customer", "session", "device", "sensor", "host", "symbol", "client", "key", "id")
_STREAM = "events"


@dataclass(frozen=True)
class Sample:
    """The first events of a file, and which columns have their types and times."""

    path: str
    events: pa.Table
    whole: bool
    type: str | None
    time: str | None
    unit: str | None


def new(path: str, out: Path | None, type: str | None, time: str | None, unit: str | None) -> None:
    """Write the query to `out`, which must be new (`-` prints it); by default, to the name of the file with `.ceql`."""
    sample = _look(path, type, time, unit)
    query, matches = _example(sample)
    target = out or Path(Path(path).name.split(".")[0] + ".ceql")
    run = shlex.join(["ceql", "run", "QUERY" if str(target) == "-" else str(target), *_arguments(sample)])
    text = "\n".join([*(f"-- {line}".rstrip() for line in [*_described(sample), "", f"Run it:  {run}"]), "", query, ""])
    if str(target) == "-":
        print(text, end="")
        return
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{target} is there already: name another file with -o") from None
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    found = "no match yet" if not matches else f"{matches:,} match{'es' * (matches != 1)}"
    say(f"wrote {target}, whose example has {found} in {sample.events.num_rows:,} events. Run it: {run}")


def _look(path: str, type: str | None, time: str | None, unit: str | None) -> Sample:
    schema = Files(None, [path]).schema
    type = type_column(schema) if type is None else type or None
    time = time_column(schema) if time is None else time or None
    for name in (type, time):
        if name is not None and name not in schema.names:
            raise UsageError(f"{path} has no column '{name}': its columns are {', '.join(schema.names)}")
    source = Files(None, [path], time)
    batches, rows = list[pa.RecordBatch](), 0
    for batch in source.batches():
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            break
    found = unify_schemas(batch.schema for batch in batches) if batches else source.schema
    events = pa.Table.from_batches([conform(batch, found) for batch in batches], found).slice(0, _ROWS)
    if not events.num_rows:
        raise UsageError(f"{path} has no events")
    return Sample(path, events, rows < _ROWS, type, time, unit)


def _arguments(sample: Sample) -> Iterator[str]:
    """What `ceql run` needs after the query."""
    yield sample.path if sample.type is not None else f"{_STREAM}={sample.path}"
    for option, name, usual in (("--type", sample.type, "type"), ("--time", sample.time, "time")):
        if name != usual and not (option == "--type" and name is None):
            yield from (option, name or "")
    if sample.unit is not None:
        yield from ("--time-unit", sample.unit)


def _described(sample: Sample) -> Iterator[str]:
    """What is in the events, in lines."""
    rows = sample.events.num_rows
    yield f"{Path(sample.path).name}: {'' if sample.whole else 'the first '}{rows:,} events"
    if sample.type is not None:
        counts = _counts(sample)
        listed = ", ".join(f"{print_name(cell(name))} ({count:,})" for name, count in counts[:_TYPES])
        more = f", and {len(counts) - _TYPES} more" if len(counts) > _TYPES else ""
        yield f"types, in column {sample.type}: {listed}{more}"
    width = max(map(len, sample.events.column_names))
    kinds = [str(field.type) if not pa.types.is_nested(field.type) else "nested" for field in sample.events.schema]
    for name, kind, column in zip(sample.events.column_names, kinds, sample.events.columns, strict=True):
        if name != sample.type:
            yield f"  {cell(name):<{width}}  {kind:<{max(map(len, kinds))}}  {_values(column)}"


def _counts(sample: Sample) -> list[tuple[str, int]]:
    """The types, the most frequent first."""
    counts = pc.value_counts(_plain(sample.events[sample.type])).to_pylist()
    found = [(str(each["values"]), each["counts"]) for each in counts if each["values"] is not None]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _values(column: pa.ChunkedArray) -> str:
    """The range of a column, or some of its values."""
    column, kind = _plain(column), _plain(column).type
    if pa.types.is_struct(kind):
        return "fields: " + ", ".join(field.name for field in kind)
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return ""
    nulls = f", {column.null_count:,} NULL" if column.null_count else ""
    if is_text(kind) or pa.types.is_boolean(kind):
        few = pc.unique(column).drop_null()
        shown = ", ".join(f"'{cell(value)}'" if is_text(kind) else str(value) for value in few[:_VALUES].to_pylist())
        return shown + (f", … {len(few):,} in all" if len(few) > _VALUES else "") + nulls
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return ""
    ends = pc.min_max(column)
    low, high = (cell(to_python(pa.array([ends[end].as_py()], kind), " ")[0]) for end in ("min", "max"))
    return f"{low} .. {high}{nulls}"


def _example(sample: Sample) -> tuple[str, int]:
    """The first candidate that has matches, and how many; if none has, the simplest."""
    query, tried = "", ""
    for tried in islice(_candidates(sample), 60):
        try:
            source = sample.events if sample.type is not None else {_STREAM: sample.events}
            found = compile(tried).run(source, type=sample.type, time=sample.time, time_unit=sample.unit).count()
        except CeqlError:  # times that cannot be read, for example: the next one may do without them
            continue
        query = tried
        if found:
            return tried, found
    return query or tried, 0


def _candidates(sample: Sample) -> Iterator[str]:
    """Sequences of two events, the most telling first: of two types, by a key, in a short window."""
    names = [name for name, _ in _counts(sample)[:3]] if sample.type is not None else [_STREAM]
    pairs = [(a, b) for a in names for b in names if a != b] or [(names[0], names[0])]
    windows = [f"\nWITHIN {window}" for window in _WINDOWS] if _has_times(sample) else ["\nWITHIN 100 EVENTS"]
    source = "" if sample.type is not None else f"\nFROM {_STREAM}"
    shown = _shown(sample)
    for key in (*_keys(sample), None):
        by = f"\nPARTITION BY {print_name(key)}" if key is not None else ""
        for window in windows:
            for first, second in pairs:
                sequence = f"{print_name(first)} AS a -> {print_name(second)} AS b"
                yield f"SELECT a{shown}, b{shown}{source}\nWHERE {sequence}{by}{window}"
    yield f"SELECT a{shown}{source}\nWHERE {print_name(names[0])} AS a"


def _has_times(sample: Sample) -> bool:
    if sample.time is None:
        return False
    return pa.types.is_temporal(sample.events.schema.field(sample.time).type) or sample.unit is not None


def _keys(sample: Sample) -> list[str]:
    """The columns that may say whom an event is about: whole numbers or text with repeated values."""
    found = list[tuple[int, str]]()
    for name, column in zip(sample.events.column_names, sample.events.columns, strict=True):
        kind = _plain(column).type
        if name in (sample.type, sample.time) or not (is_text(kind) or pa.types.is_integer(kind)):
            continue
        distinct = pc.count_distinct(_plain(column)).as_py()
        if 1 < distinct <= max(2, sample.events.num_rows // 2):
            words = [k for k, word in enumerate(_KEYS) if word in name.lower()]
            found.append((words[0] if words else len(_KEYS), name))
    return [name for _, name in sorted(found, key=lambda pair: pair[0])][:4]


def _shown(sample: Sample) -> str:
    """The attributes that the example shows: those that are neither types nor times nor nested."""
    fields = [field for field in sample.events.schema if field.name not in (sample.type, sample.time)]
    names = [print_name(field.name) for field in fields if not pa.types.is_nested(field.type)]
    return f"[{', '.join(names[:4])}]" if names else ""
