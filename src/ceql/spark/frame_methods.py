"""Gives a DataFrame other methods, which go over to the DataFrames that are derived from it.

`match` returns what PySpark made, of a class of PySpark's own. To have a say in what is done with it, as refusing a
second watermark or telling why there is no match, the class of that one object is replaced by a subclass. There is
nothing else to hold on to: Spark Connect shows no plans, and nothing of ceql runs on the driver when an action does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from types import MethodType
from typing import Any

from pyspark.sql import DataFrame

Change = Callable[[str, Callable[..., Any]], Callable[..., Any]]
"""From the name of a method and the method to what is called in its place."""
SHOWN = "_show_string"
"""The method that makes the text of `show`, in every kind of DataFrame."""
_CHANGE = "_ceql_change"


def with_methods(frame: DataFrame, change: Change) -> DataFrame:
    """The DataFrame itself, whose public methods are as `change` says from now on."""
    kind: Any = type(frame)
    if not hasattr(kind, _CHANGE):
        frame.__class__ = _changed(kind)
    frame.__dict__[_CHANGE] = change
    return frame


@cache
def _changed(kind: Any) -> Any:
    """The subclass; PySpark has a class for Spark Connect and one without it."""

    def __getattribute__(self: DataFrame, name: str) -> Any:
        value = kind.__getattribute__(self, name)
        if not isinstance(value, MethodType) or (name.startswith("_") and name != SHOWN):
            return value
        change: Change = kind.__getattribute__(self, "__dict__")[_CHANGE]
        method = change(name, value)

        @wraps(value)
        def run(*given: Any, **named: Any) -> Any:
            result = method(*given, **named)
            return with_methods(result, change) if isinstance(result, DataFrame) else result

        return run

    return type(kind.__name__, (kind,), {"__getattribute__": __getattribute__, _CHANGE: None})
