"""pandas and polars frames. Their libraries are not imported here: whoever has a frame has imported its library."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from ceql.errors import DataError, SchemaError
from ceql.io.dicts import as_text


def is_pandas(value: Any) -> bool:
    """Whether `value` is a pandas.DataFrame."""
    return _is_a(value, "pandas", "DataFrame")


def is_lazy(value: Any) -> bool:
    """Whether `value` is a polars.LazyFrame."""
    return _is_a(value, "polars", "LazyFrame")


def from_pandas(frame: Any) -> pa.Table:
    """The frame as a table. A named index becomes a column; an unnamed one is left out."""
    named = any(name is not None for name in frame.index.names)
    sparse = [k for k, dtype in enumerate(frame.dtypes) if dtype.__class__.__name__ == "SparseDtype"]
    try:
        if sparse:
            frame = frame.copy(deep=False)
            for k in sparse:
                frame.isetitem(k, frame.iloc[:, k].sparse.to_dense())
        try:
            return _table(frame, named)
        except (pa.ArrowException, TypeError, OverflowError):
            odd = {k: column for k in range(frame.shape[1]) if (column := _odd(frame.iloc[:, k])) is not None}
            table = _table(frame.iloc[:, [k for k in range(frame.shape[1]) if k not in odd]], named)
        for k, column in odd.items():
            table = table.add_column(k, str(frame.columns[k]), column)
        return table
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise DataError(f"a column of the frame has no Arrow type: {'; '.join(map(str, error.args))}") from error
    except ValueError as error:
        raise SchemaError(str(error)) from error


def _table(frame: Any, named: bool) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=named).replace_schema_metadata(None)


def _odd(column: Any) -> pa.Array | None:
    """The column as text, if it holds objects for which there is no Arrow type."""
    if column.dtype != object:
        return None
    try:
        pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, OverflowError):
        return as_text(column.where(column.notna(), None))
    return None


def _is_a(value: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name, ()))
