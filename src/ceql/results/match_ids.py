"""Identifies matches: 128 bits that are the same in every run, batching, time zone and process, on Spark or not.

A match is told by the query (its name in a set, else its meaning), the keys, and the events of each variable. An event
is told by the columns that identify it, or else by all of its own values, at full precision. Values count, not how a
column holds them: 5, 5.0 and a decimal 5.00 are one value, and so is an instant in any unit and time zone. A NULL says
nothing, so that a new column that is NULL in old events leaves their ids what they are. The events of a variable are a
set: those of one time may come in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError, did_you_mean
from ceql.io.sort_keys import PER_SECOND
from ceql.jit import Array
from ceql.recognition.result_columns import as_lists, true_name, variable_fields
from ceql.results.combined import key_fields

_BYTES = 16
_DAY = 86_400_000


class MatchIds:
    """Gives the ids of a query's matches. `name` is that of the query in its set, or the fingerprint of its plan."""

    def __init__(self, name: str, columns: Sequence[str] = ()) -> None:
        self._name = name
        self._columns = tuple(columns)

    def of(
        self,
        matches: pa.RecordBatch,
        take: Callable[[Array], pa.Table],
        keys: Sequence[pa.Array] | None = None,
    ) -> pa.Array:
        """The ids of these matches as 32 hexadecimal digits each; `take` gives the events at ascending positions.

        `keys` are the partition keys, where the matches do not have them as columns of their own.
        """
        lists = {true_name(field): as_lists(matches.column(field.name)) for field in variable_fields(matches.schema)}
        lists = dict(sorted(lists.items())) | {"": matches.column("events")}
        head = self._digest("\0".join([self._name, *lists]).encode())
        positions = np.unique(np.concatenate([np.asarray(one.flatten()) for one in lists.values()]))
        events = digests(take(positions), self._columns)
        own = [matches.column(field.name) for field in key_fields(matches.schema)] if keys is None else keys
        names = [str(k) for k in range(len(own))]
        keyed = digests(pa.table(own, names=names)) if own else np.zeros(matches.num_rows, f"V{_BYTES}")
        parts = [list(_sets(one, positions, events)) for one in lists.values()]
        ids = [self._digest(head, key, *one) for key, *one in zip(_each(keyed), *parts, strict=True)]
        return pa.array([one.hex() for one in ids], pa.string())

    @staticmethod
    def _digest(*parts: bytes) -> bytes:
        hash = blake2b(digest_size=_BYTES)
        for part in parts:
            hash.update(part)
        return hash.digest()


def digests(rows: pa.Table, columns: Sequence[str] = ()) -> Array:
    """128 bits for each row, from these columns, or from all of them."""
    for name in columns:
        if name not in rows.schema.names:
            hint = did_you_mean(name, rows.schema.names) or ""
            raise DataError(f"the events have no column '{name}' (given as id=). {hint}".strip())
    texts = []
    for name in sorted(columns or rows.schema.names):
        text = _texts(rows.column(name).combine_chunks())
        length = pc.cast(pc.binary_length(text), pa.large_string())
        texts.append(pc.binary_join_element_wise(_scalar(name), length, text, _scalar(":")))
    if not texts:
        return np.zeros(rows.num_rows, f"V{_BYTES}")
    first = pa.repeat(_scalar(""), rows.num_rows)  # Arrow loses rows of which all parts are skipped
    whole = pc.binary_join_element_wise(first, *texts, _scalar("\n"), null_handling="skip")
    found = b"".join(blake2b(one.encode(), digest_size=_BYTES).digest() for one in whole.to_pylist())
    return np.frombuffer(found, f"V{_BYTES}")


def _each(found: Array) -> Iterator[bytes]:
    whole = found.tobytes()
    return (whole[at : at + _BYTES] for at in range(0, len(whole), _BYTES))


def _sets(lists: pa.Array, positions: Array, events: Array) -> Iterator[bytes]:
    """The events of each list: how many they are, and what tells them, in an order that does not depend on theirs."""
    known = list(_each(events))
    numbers = np.searchsorted(positions, np.asarray(lists.flatten())).tolist()
    ends = np.cumsum(np.asarray(lists.value_lengths().fill_null(0))).tolist()
    begin = 0
    for end in ends:
        yield b"%d:" % (end - begin) + b"".join(sorted(known[number] for number in numbers[begin:end]))
        begin = end


def _texts(column: pa.Array) -> pa.Array:
    """Values as texts, which are the same for the same value in another type; NULL for NULL."""
    if isinstance(column, pa.ChunkedArray):  # of no chunk
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _texts(column.storage)
    if pa.types.is_dictionary(kind):
        return _texts(column.dictionary_decode())
    if pa.types.is_null(kind):
        return column.cast(pa.large_string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _tagged("s", column)
    if pa.types.is_integer(kind):
        return _tagged("n", column)
    if pa.types.is_boolean(kind):
        return _tagged("b", column)
    return pa.array([None if one is None else _text(one, kind) for one in _values(column)], pa.large_string())


def _tagged(mark: str, column: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_scalar(mark), column.cast(pa.large_string()), _scalar(""))


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _values(column: pa.Array) -> list[object]:
    """The values as Python has them; times as the integers that they are."""
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        wide = kind.bit_width == 64
        column = column.view(pa.int64() if wide else pa.int32())
    elif pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_struct(kind):
        fields = {field.name: _texts(pc.struct_field(column, [k])).to_pylist() for k, field in enumerate(kind)}
        valid = column.is_valid().to_pylist()
        return [{n: own[k] for n, own in fields.items()} if there else None for k, there in enumerate(valid)]
    elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind) or _is_fixed(kind):
        if _is_fixed(kind) or pa.types.is_map(kind):
            column = column.cast(pa.large_list(kind.value_type if _is_fixed(kind) else _entry(kind)))
        inner = _texts(column.flatten()).to_pylist()
        lengths = [0 if length is None else length for length in column.value_lengths().to_pylist()]
        ends = np.cumsum([0, *lengths]).tolist()
        valid = column.is_valid().to_pylist()
        return [inner[ends[k] : ends[k + 1]] if there else None for k, there in enumerate(valid)]
    found: list[object] = column.to_pylist()
    return found


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _entry(kind: pa.MapType) -> pa.DataType:
    return pa.struct([pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)])


def _text(value: object, kind: pa.DataType) -> str:
    match value:
        case float():
            return f"n{int(value)}" if value.is_integer() and abs(value) < 2**63 else f"n{value!r}"
        case dict():
            return "m" + _joined([f"{name}={one}" for name, one in sorted(value.items()) if one is not None])
        case list():
            inner = ["" if one is None else str(one) for one in value]
            return "l" + _joined(sorted(inner) if pa.types.is_map(kind) else inner)
        case bytes():
            return f"x{value.hex()}"
        case int() if pa.types.is_date(kind):
            return f"d{value // _DAY if kind.bit_width == 64 else value}"
        case int():
            mark = "t" if pa.types.is_timestamp(kind) else "h" if pa.types.is_time(kind) else "i"
            return f"{mark}{value * 10**9 // PER_SECOND[kind.unit]}"
    if pa.types.is_decimal(kind):
        digits = format(value, "f")
        return f"n{digits.rstrip('0').rstrip('.') if '.' in digits else digits}"
    return f"o{value}"


def _joined(parts: Sequence[str]) -> str:
    return "".join(f"{len(part)}:{part}" for part in parts)


def names_of(id: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns that identify an event, as users give them."""
    return () if id is None else (id,) if isinstance(id, str) else tuple(id)


def with_ids(
    pieces: Iterator[tuple[pa.RecordBatch, pa.Table]], schema: pa.Schema, ids: MatchIds, called: str
) -> pa.Table:
    """Matches with the rows of their events, as a table with their ids before their other columns."""
    field = pa.field(called, pa.string())
    if called in schema.names:
        raise DataError(f"the matches have a column '{called}'; give the ids another name")
    whole = pa.schema([field, *schema])
    batches = []
    for batch, rows in pieces:
        known, places = np.unique(np.asarray(batch.column("events").flatten()), return_index=True)
        take = partial(_rows_at, rows, known, places)
        batches.append(pa.RecordBatch.from_arrays([ids.of(batch, take), *batch.columns], schema=whole))
    return pa.Table.from_batches(batches, whole)


def _rows_at(rows: pa.Table, known: Array, places: Array, wanted: Array) -> pa.Table:
    return rows.take(pa.array(places[np.searchsorted(known, wanted)]))
