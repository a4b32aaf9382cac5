"""pandas and polars frames. Their libraries are not imported here: whoever has a frame has imported its library."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from ceql.errors import DataError, SchemaError


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
        return pa.Table.from_pandas(frame, preserve_index=named).replace_schema_metadata(None)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"a column of the frame has no Arrow type: {'; '.join(map(str, error.args))}") from error
    except ValueError as error:
        raise SchemaError(str(error)) from error


def _is_a(value: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name, ()))
