"""Finds which variables an event of a match is bound to, from the columns of a result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ceql.engine.common.chunk import Int64s
from ceql.jit import Array, allocating
from ceql.recognition.result_columns import as_lists

Bools = npt.NDArray[np.bool_]


def bindings(events: pa.Array, variables: Sequence[pa.Array]) -> Bools:
    """`[k, v]`: whether event k of all the matches' `events` in a row is bound to variable v."""
    found = np.zeros((len(events.flatten()), len(variables)), np.bool_)
    for v, column in enumerate(map(as_lists, variables)):
        find_bound(_offsets(events), _values(events), _offsets(column), _values(column), found[:, v])
    return found


def names_column(found: Bools, names: Sequence[str]) -> pa.Array:
    """The names of the variables that are true in each row, as list<string>."""
    offsets = np.zeros(len(found) + 1, np.int32)
    for bound in found.T:  # there are few variables: much quicker than a sum along the rows
        offsets[1:] += bound
    np.cumsum(offsets, out=offsets)
    values = pa.array(names, pa.string()).take(pa.array(np.flatnonzero(found) % max(1, len(names))))
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def project(
    rows: pa.RecordBatch,
    found: Bools,
    variables: Sequence[str],
    projections: Mapping[str, Sequence[str]],
    keys: Collection[str] = (),
) -> pa.RecordBatch:
    """`rows` with NULL where no variable of the event shows the attribute, unless it is one of `keys`.

    A variable without a projection shows all attributes, one with it those it names.
    """
    if not projections:
        return rows
    columns = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        showing = [v for v, variable in enumerate(variables) if name in projections.get(variable, (name,))]
        shown: Bools = np.any(found[:, showing], axis=1)
        if name not in keys and not shown.all():
            # take with NULL indices works for every type, unlike if_else
            column = column.take(pa.array(np.arange(len(found)), mask=~shown))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _offsets(lists: pa.Array) -> Int64s:
    offsets: Int64s = np.asarray(lists.offsets).astype(np.int64)
    offsets -= offsets[0]
    return offsets


def _values(lists: pa.Array) -> Int64s:
    values: Int64s = np.asarray(lists.flatten())
    return values


@allocating
def find_bound(offsets: Array, events: Array, var_offsets: Array, bound: Array, out: Array) -> None:
    """Marks the events that are bound; a variable's list has its events in the order of the match."""
    for match in range(len(offsets) - 1):
        j = var_offsets[match]
        stop = var_offsets[match + 1]
        for k in range(offsets[match], offsets[match + 1]):
            if j < stop and bound[j] == events[k]:
                out[k] = True
                j += 1
