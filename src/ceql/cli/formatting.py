"""Values as JSON."""

from __future__ import annotations

import json
import math
from typing import Any


def to_json(value: Any) -> str:
    """One line of JSON. NaN and infinity, which JSON lacks, become null; decimals become text.

    >>> to_json({"a": [1, float("nan")], "b": b"x"})
    '{"a": [1, null], "b": "78"}'
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_other)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=_other)


def _other(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value
