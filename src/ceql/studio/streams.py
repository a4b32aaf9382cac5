"""Several streams as the data of one view: they are merged by time, as `FROM S, T` merges them.

In: data that were loaded one by one, each under the name of a stream. Out: data whose rows are those of all streams in
order of time, so that a position of a match is a row here too. At equal times the order of FROM decides: `for_query`
puts the streams in the order of a query, and leaves out those that it does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.engine.common.chunk import Int64s
from ceql.errors import DataError, QueryError, did_you_mean
from ceql.io.schemas import conform, unify_schemas
from ceql.studio.data import Columns, Data

NAME = "stream"  # the column that says which stream a row is of
_NUMBER = "\0number"
Source = TypeVar("Source")


def join(id: str, parts: dict[str, Data]) -> Data:
    """One view of several streams, by their names."""
    first = next(iter(parts.values()))
    time = first.columns.time
    for name, part in parts.items():
        if part.live:
            raise DataError("a stream that is followed is shown alone; open its file without following it")
        if time is None or time not in part.table.schema.names:
            wanted = f"no column '{time}'" if time is not None else "no column of times"
            raise DataError(f"streams are merged by time, and '{name}' has {wanted}; choose or rename one")
    tables = {name: part.table for name, part in parts.items()}
    types = [part.columns.type for part in parts.values() if part.columns.type is not None]
    columns = Columns(types[0] if types else None, time, first.columns.time_unit)
    origin: dict[str, Any] = {"streams": {name: part.origin.get("path") for name, part in parts.items()}}
    if any(part.origin.get("path") is None for part in parts.values()):
        origin = {"upload": True}
    table, stream = _merged(tables, columns)
    return Data(id, ", ".join(parts), origin, columns, table.to_batches(), parts=tables, stream=stream)


def _merged(tables: dict[str, pa.Table], columns: Columns) -> tuple[pa.Table, Int64s]:
    """The rows of all streams in order of time, and the number of the stream of each."""
    assert columns.time is not None
    named = []
    for number, (name, table) in enumerate(tables.items()):
        if NAME not in table.schema.names:
            table = table.add_column(0, NAME, pa.repeat(pa.scalar(name), table.num_rows))
        if columns.type is not None and columns.type not in table.schema.names:
            table = table.append_column(columns.type, pa.repeat(pa.scalar(name), table.num_rows))
        named.append(table.append_column(_NUMBER, pa.repeat(pa.scalar(number, pa.int64()), table.num_rows)))
    try:
        schema = unify_schemas(table.schema for table in named)
        batches = [conform(batch, schema) for table in named for batch in table.to_batches()]
    except pa.ArrowInvalid as error:
        raise DataError(f"the streams do not fit together: {error}") from error
    whole = pa.Table.from_batches(batches, schema)
    # the sort is stable: rows of one stream keep their order
    order = pc.sort_indices(whole, [(columns.time, "ascending"), (_NUMBER, "ascending")])
    whole = whole.take(order)
    return whole.drop_columns([_NUMBER]).combine_chunks(), np.asarray(whole[_NUMBER]).astype(np.int64)


def for_query(data: Data, streams: Sequence[str]) -> Data:
    """The data with the streams of a query, in the order of its FROM; an error if they are not there."""
    if not data.parts:
        if len(streams) > 1:
            raise QueryError(
                f"the query reads FROM {', '.join(streams)}, and one stream is loaded",
                suggestion="Open the files of the others as further streams.",
            )
        return data
    if not streams:
        named = ", ".join(data.parts)
        raise QueryError(f"several streams are loaded: {named}", suggestion=f"Write FROM {named} before WHERE.")
    for name in streams:
        if name not in data.parts:
            raise QueryError(f"no stream '{name}' is loaded", suggestion=did_you_mean(name, list(data.parts)))
    if list(streams) == list(data.parts):
        return data
    chosen = {name: data.parts[name] for name in streams}
    table, stream = _merged(chosen, data.columns)
    return Data(data.id, data.name, data.origin, data.columns, table.to_batches(), parts=chosen, stream=stream)


def to_input(
    data: Data, made: Callable[[pa.Table, str | None], Source], rows: Int64s | None = None
) -> Source | dict[str, Source]:
    """What a query takes as its events: `made` of the table, or of the table of each stream and its name.

    With `rows`, of these rows alone, which are in order.
    """
    if not data.parts:
        return made(data.table if rows is None else data.table.take(pa.array(rows)), None)
    found = {}
    for number, (name, table) in enumerate(data.parts.items()):
        assert data.stream is not None
        if rows is not None:
            own = np.cumsum(data.stream == number) - 1  # the number that a row has in its stream
            table = table.take(pa.array(own[rows[data.stream[rows] == number]]))
        found[name] = made(table, name)
    return found
