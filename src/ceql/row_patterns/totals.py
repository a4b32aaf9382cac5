"""Aggregates over the rows of matches: COUNT, SUM, AVG, MIN, MAX along the rows, the others over lists of them.

In: the argument's value at each member, the matched rows of the aggregate's variables; and for each result the range
of members that it sums over. A running aggregate is one pass along the members that begins anew at each match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ceql.jit import Array
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.kernels import HIGHEST, LOWEST, along, sums_along
from ceql.row_patterns.problem import Refused

if TYPE_CHECKING:
    from ceql.row_patterns.navigation import Total

_GROUPED = {
    exp.Stddev: ("stddev", pc.VarianceOptions(ddof=1)),
    exp.StddevSamp: ("stddev", pc.VarianceOptions(ddof=1)),
    exp.StddevPop: ("stddev", pc.VarianceOptions(ddof=0)),
    exp.Variance: ("variance", pc.VarianceOptions(ddof=1)),
    exp.VariancePop: ("variance", pc.VarianceOptions(ddof=0)),
    exp.LogicalAnd: ("all", pc.ScalarAggregateOptions(min_count=1)),
    exp.LogicalOr: ("any", pc.ScalarAggregateOptions(min_count=1)),
    exp.Sum: ("sum", pc.ScalarAggregateOptions(min_count=1)),
    exp.Avg: ("mean", pc.ScalarAggregateOptions(min_count=1)),
}
_TEXTS = (exp.GroupConcat,)


class Members(Protocol):
    """The members of all matches, one match after the other."""

    @property
    def first(self) -> Array:
        """Of each of them: the number of the first one in its match."""


def aggregate(total: Total, arguments: list[pa.Array], members: Members, low: Array, high: Array) -> pa.Array:
    """The aggregate of each result."""
    kind = total.function
    if not arguments:
        if kind is exp.Count:
            return pa.array(high - low)
        raise Refused(f"{kind.key.upper()} needs an argument", span_of(total.node))
    values = arguments[0]
    if total.distinct:
        return _distinct(total, arguments, low, high)
    if kind is exp.Count:
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(_known(values))])
        return pa.array(before[high] - before[low])
    if kind in (exp.Min, exp.Max) and len(arguments) == 1:
        return _extreme(values, members, low, high, kind is exp.Max)
    if kind in (exp.Sum, exp.Avg) and (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        found = _sum(values, members, low, high, kind is exp.Avg)
        whole = kind is exp.Avg and total.whole and pa.types.is_integer(values.type)
        return pc.trunc(found).cast(pa.int64()) if whole else found
    if kind is exp.AnyValue:
        return _any(values, low, high)
    return _listed(total, arguments, low, high)


def _known(values: pa.Array) -> Array:
    return np.asarray(pc.is_valid(values))


def _sum(values: pa.Array, members: Members, low: Array, high: Array, mean: bool) -> pa.Array:
    known = _known(values)
    filled = pc.fill_null(values, 0)
    whole = pa.types.is_integer(values.type)
    numbers: Array = np.array(filled.cast(pa.int64() if whole else pa.float64()))
    result = np.zeros(len(numbers), np.int64 if whole else np.float64)
    counts = np.zeros(len(numbers), np.int64)
    sums_along(numbers, known, members.first, result, counts)
    some = high > low
    last = np.where(some, high - 1, 0)
    if not len(numbers):
        return pa.nulls(len(low), pa.float64() if mean or not whole else pa.int64())
    count = np.where(some, counts[last], 0)
    found: Array = result[last]
    if mean:
        found = found / np.maximum(count, 1)
    return pa.array(found, mask=count == 0)


def _extreme(values: pa.Array, members: Members, low: Array, high: Array, most: bool) -> pa.Array:
    known = _known(values)
    ranks = pc.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    at = np.full(len(ranks), -1)
    along(HIGHEST if most else LOWEST, ranks, known, members.first, at)
    return _at_last(values, at, low, high)


def _any(values: pa.Array, low: Array, high: Array) -> pa.Array:
    """The first value that is not NULL."""
    following = np.concatenate([np.where(_known(values), np.arange(len(values)), len(values)), [len(values)]])
    at = np.minimum.accumulate(following[::-1])[::-1][low]
    known = at < high
    if not len(values):
        return pa.nulls(len(low), values.type)
    return values.take(pa.array(np.where(known, at, 0), mask=~known))


def _at_last(values: pa.Array, at: Array, low: Array, high: Array) -> pa.Array:
    """The values at the places that a pass has noted for the last member of each result."""
    if not len(values):
        return pa.nulls(len(low), values.type)
    place = np.where(high > low, at[np.where(high > low, high - 1, 0)], -1)
    return values.take(pa.array(np.maximum(place, 0), mask=place < 0))


def _pairs(low: Array, high: Array) -> tuple[Array, Array]:
    """Each result with each of its members."""
    count = high - low
    result = np.repeat(np.arange(len(low)), count)
    member = np.arange(len(result)) - np.repeat(np.cumsum(count) - count - low, count)
    return result, member


def _distinct(total: Total, arguments: list[pa.Array], low: Array, high: Array) -> pa.Array:
    """The aggregate of the different values of each result, in the order in which they come first."""
    result, member = _pairs(low, high)
    values = arguments[0].take(pa.array(member))
    codes = values.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    table = pa.table({"result": result, "code": codes, "at": np.arange(len(result))})
    first = table.group_by(["result", "code"]).aggregate([("at", "min")])["at_min"].to_numpy()
    first = np.sort(first)
    kept = result[first]
    bounds = np.searchsorted(kept, np.arange(len(low) + 1))
    return _of_lists(total, [each.take(pa.array(member[first])) for each in arguments], kept, bounds)


def _listed(total: Total, arguments: list[pa.Array], low: Array, high: Array) -> pa.Array:
    result, member = _pairs(low, high)
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(high - low)])
    return _of_lists(total, [each.take(pa.array(member)) for each in arguments], result, bounds)


def _of_lists(total: Total, values: list[pa.Array], result: Array, bounds: Array) -> pa.Array:
    """The aggregate of lists; `bounds` says where each result's begins, `result` whose each value is."""
    kind = total.function
    some = np.diff(bounds) > 0
    if kind is exp.Count:
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(_known(values[0]))])
        return pa.array(before[bounds[1:]] - before[bounds[:-1]])
    if kind is exp.ArrayAgg:
        return _lists(values[0], bounds, some)
    if kind in _TEXTS:
        separator = values[1][0].as_py() if len(values) > 1 and len(values[1]) else ","
        known = _known(values[0])
        kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)])[bounds]
        return pc.binary_join(_lists(values[0].filter(pa.array(known)), kept, np.diff(kept) > 0), separator)
    if kind in (exp.ArgMax, exp.ArgMin) and len(values) == 2:
        return _by(values[0], values[1], bounds, kind is exp.ArgMax)
    if kind in (exp.Min, exp.Max) and len(values) == 1:
        return _by(values[0], values[0], bounds, kind is exp.Max)
    if kind in _GROUPED and len(values) == 1:
        return _grouped(*_GROUPED[kind], values[0], result, len(some))
    name = total.node.sql("trino").split("(")[0].upper()
    raise Refused(f"the aggregate {name} of {len(values)} arguments is not evaluated", span_of(total.node))


def _lists(values: pa.Array, bounds: Array, some: Array) -> pa.Array:
    lists = pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), values)
    return lists if some.all() else lists.take(pa.array(np.arange(len(some)), mask=~some))


def _grouped(name: str, options: Any, values: pa.Array, result: Array, count: int) -> pa.Array:
    table = pa.table({"result": result, "value": values})
    found = table.group_by("result").aggregate([("value", name, options)])
    column = found[f"value_{name}"].combine_chunks()
    at = np.full(count, -1)
    at[found["result"].to_numpy()] = np.arange(len(column))
    if not len(column):
        return pa.nulls(count, column.type)
    return column.take(pa.array(np.maximum(at, 0), mask=at < 0))


def _by(values: pa.Array, keys: pa.Array, bounds: Array, most: bool) -> pa.Array:
    """The value where the key is greatest or least, of each list."""
    ranks = pc.rank(keys, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    first = np.repeat(bounds[:-1], np.diff(bounds))
    at = np.full(len(ranks), -1)
    along(HIGHEST if most else LOWEST, ranks, _known(keys), first, at)
    return _at_last(values, at, bounds[:-1], bounds[1:])
