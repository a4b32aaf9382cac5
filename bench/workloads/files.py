"""Real data sets in the shape of the generated ones, for users who have the files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

TIME = pa.timestamp("ms")


def read(
    path: str | Path,
    columns: Mapping[str, pa.DataType],
    times: Mapping[str, int],
    others: Mapping[str, str] | None = None,
    type: str | None = None,
) -> pa.Table:
    """The `columns` and the time of a CSV or Parquet file, in order of time; events of equal time stay as they stand.

    `times` are the names that the column of times may have and, where it holds numbers, the milliseconds in a unit of
    each. `others` are names by which the file may call a column. `type` is that of all events in a file without types.
    Columns that are not asked for are left out; no row is.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
    else:
        texts = {name: kind for name, kind in columns.items() if pa.types.is_string(kind)}  # '007' is not 7
        table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=texts))
    found = table.column_names
    table = table.rename_columns([(others or {}).get(name, name) for name in found])
    if type is not None and "type" not in table.column_names:
        table = table.append_column("type", pa.repeat(type, table.num_rows))
    time = next((name for name in times if name in table.column_names), None)
    missing = [name for name in columns if name not in table.column_names]
    if time is None:
        missing.append(" or ".join(times))
    if missing or time is None:
        needed = [*columns, " or ".join(times)]
        raise ValueError(
            f"{path}: no column {', '.join(missing)}. Needed are {', '.join(needed)}; there are {', '.join(found)}"
        )
    shaped = {name: _cast(table[name], kind, name, path) for name, kind in columns.items()}
    made = pa.table({**shaped, "time": _times(table[time], times[time], time, path)})
    return made.take(pc.sort_indices(made, [("time", "ascending")]))  # stable


def _times(column: pa.ChunkedArray, unit: int, name: str, path: Path) -> pa.ChunkedArray:
    if column.null_count:
        raise ValueError(f"{path}: {column.null_count:,} rows have no {name}")
    if pa.types.is_temporal(column.type):
        return pc.cast(column, TIME, safe=False)  # finer times are cut to milliseconds
    return pc.cast(pc.multiply(_cast(column, pa.int64(), name, path), unit), TIME)


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str, path: Path) -> pa.ChunkedArray:
    try:
        return pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"{path}: column {name} is {column.type} and cannot be read as {kind}: {error}") from error
