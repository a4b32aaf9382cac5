"""Refuses events of the same time whose order could change the result (see `swappable`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ceql.engine.common.layout import Events
from ceql.errors import DataError
from ceql.io.sort_keys import decode
from ceql.jit import Array, kernel
from ceql.predicates.symbols import SymbolTable
from ceql.spark.swappable import SwappableSymbols
from ceql.spark.task_spec import ORDER, TIME, own_name

_MOST = 64  # symbols of which it is known with which others they can be swapped


class TieCheck:
    """Looks at the events of a task as they come, and refuses ties that could change the result."""

    def __init__(self, swappable: SwappableSymbols | None, table: SymbolTable, ordered_by: tuple[str, ...]) -> None:
        self._swappable = swappable  # None: no two symbols can be swapped
        self._table = table
        self._ordered_by = ordered_by
        self._partners: Array = np.zeros(_MOST, np.uint64)  # by symbol: those that it can be swapped with, as bits
        self._symbols = 0
        self._group: Array = np.full(1, -1, np.int64)  # by partition: the group of equal times of its last event
        self._seen: Array = np.zeros(1, np.uint64)  # and the symbols that it has had in that group
        self._last: Array = np.zeros(3, np.int64)  # time and order of the last event, and its group

    def check(self, events: Events, batch: pa.RecordBatch, first: int, reused: list[int]) -> None:
        """Look at the next events of a view; `first` is the position of the batch's first row."""
        if not len(events.symbol):
            return
        self._learn()
        partitions = int(events.partition.max()) + 1
        if partitions > len(self._group):
            room = max(0, 2 * partitions - len(self._group))
            self._group = np.concatenate([self._group, np.full(room, -1, np.int64)])
            self._seen = np.concatenate([self._seen, np.zeros(room, np.uint64)])
        self._group[reused] = -1
        order: Array = np.zeros(0, np.int64)
        if self._ordered_by:
            rows = events.position - first
            order = np.require(batch.column(own_name(ORDER)).to_numpy(zero_copy_only=False)[rows], np.int64, ["C", "W"])
        at = first_tie(
            events.time, order, events.partition, events.symbol, self._partners, self._group, self._seen, self._last
        )
        if at >= 0:
            when = decode(events.time[at : at + 1], batch.schema.field(own_name(TIME)).type)[0].as_py()
            by = f" and the same {', '.join(self._ordered_by)}" if self._ordered_by else ""
            raise DataError(
                f"two events of one substream have the same time ({when}){by}, and their order matters to this query; "
                "say what orders them with order_by= (columns that tell such events apart)"
            )

    def _learn(self) -> None:
        """Find out with which symbols the new ones can be swapped."""
        bits = self._table.bits[:_MOST]
        if self._swappable is None or len(bits) == self._symbols:
            return
        for a in range(len(bits)):
            for b in range(max(a, self._symbols), len(bits)):
                if self._swappable.holds(bits[a], bits[b]):
                    self._partners[a] |= np.uint64(1 << b)
                    self._partners[b] |= np.uint64(1 << a)
        self._symbols = len(bits)


@kernel
def first_tie(
    time: Array, order: Array, partition: Array, symbol: Array, partners: Array, group: Array, seen: Array, last: Array
) -> int:
    """The first event that cannot be swapped with one of its partition at the same time; -1 when there is none.

    `partners` has, for each symbol, the symbols that it can be swapped with, as bits. `group` and `seen` have, for each
    partition, the group of equal times of its last event and the symbols it has had in that group. `last` is the time
    and the order of the last event, and its group.
    """
    for i in range(len(time)):
        if time[i] != last[0] or (len(order) > 0 and order[i] != last[1]) or last[2] == 0:
            last[0] = time[i]
            if len(order) > 0:
                last[1] = order[i]
            last[2] += 1
        p = partition[i]
        s = np.uint64(symbol[i])
        if group[p] == last[2]:
            if s >= np.uint64(64) or (seen[p] & ~partners[s]) != np.uint64(0):
                return i
            seen[p] |= np.uint64(1) << s
        else:
            group[p] = last[2]
            # a symbol beyond the first 64 can be swapped with nothing: all bits stand for it
            seen[p] = np.uint64(1) << s if s < np.uint64(64) else ~np.uint64(0)
    return -1
