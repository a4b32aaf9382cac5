"""Shows Python objects for which there is no Arrow type: mixed ones, integers beyond 64 bits.

Most such columns are in the data by chance, and no query names them. They become text inside of a struct, which is
shown with the events of matches. No condition can compare a struct, so a query that names the column is an error: plain
text would be compared, and 1 would equal '1'.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

_FIELD = "objects as text"  # messages show it with the type


def as_text(values: Iterable[Any]) -> pa.Array:
    """The objects as text.

    >>> as_text([10**20, "one", None]).to_pylist()
    [{'objects as text': '100000000000000000000'}, {'objects as text': 'one'}, None]
    """
    texts = [None if value is None else str(value).encode(errors="backslashreplace").decode() for value in values]
    column = pa.array(texts, pa.large_string())
    return pa.StructArray.from_arrays([column], [_FIELD], mask=column.is_null())
