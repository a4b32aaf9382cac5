"""Refusing events of the same time whose order could change the result (see `commutation`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ceql.engine.common.machine import Events
from ceql.errors import DataError
from ceql.io.sort_keys import decode
from ceql.jit import Array, kernel
from ceql.predicates.symbols import SymbolTable
from ceql.spark.commutation import Commutation
from ceql.spark.shipment import ORDER, TIME

_MOST = 64  # symbols that commutation is worked out for


class Ties:
    """Refuses ties that could change the result."""

    def __init__(self, commutation: Commutation | None, table: SymbolTable, ordered_by: tuple[str, ...]) -> None:
        self._commutation = commutation  # None: nothing commutes
        self._table = table
        self._ordered_by = ordered_by
        self._commutes: Array = np.zeros(_MOST, np.uint64)
        self._symbols = 0
        self._group: Array = np.full(1, -1, np.int64)  # by partition: the group of equal times of its last event
        self._seen: Array = np.zeros(1, np.uint64)  # and the symbols that it has had in that group
        self._last: Array = np.zeros(3, np.int64)  # time and order of the last event, and its group

    def check(self, events: Events, batch: pa.RecordBatch, first: int, reused: list[int]) -> None:
        """Look at the next events; `first` is the position of the batch's first row."""
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
            order = np.require(batch.column(ORDER).to_numpy(zero_copy_only=False)[rows], np.int64, ["C", "W"])
        at = _first_tie(
            events.time, order, events.partition, events.symbol, self._commutes, self._group, self._seen, self._last
        )
        if at >= 0:
            when = decode(events.time[at : at + 1], batch.schema.field(TIME).type)[0].as_py()
            by = f" and the same {', '.join(self._ordered_by)}" if self._ordered_by else ""
            raise DataError(
                f"two events of one substream have the same time ({when}){by}, and their order matters to this query; "
                "say what orders them with order_by= (columns that tell such events apart)"
            )

    def _learn(self) -> None:
        """Work out what commutes with symbols that are new."""
        bits = self._table.bits[:_MOST]
        if self._commutation is None or len(bits) == self._symbols:
            return
        for a in range(len(bits)):
            for b in range(max(a, self._symbols), len(bits)):
                if self._commutation.holds(bits[a], bits[b]):
                    self._commutes[a] |= np.uint64(1 << b)
                    self._commutes[b] |= np.uint64(1 << a)
        self._symbols = len(bits)


@kernel
def _first_tie(
    time: Array, order: Array, partition: Array, symbol: Array, commutes: Array, group: Array, seen: Array, last: Array
) -> int:
    """The first event that does not commute with one of its partition's at the same time; -1 when there is none."""
    for i in range(len(time)):
        if time[i] != last[0] or (len(order) > 0 and order[i] != last[1]) or last[2] == 0:
            last[0] = time[i]
            if len(order) > 0:
                last[1] = order[i]
            last[2] += 1
        p = partition[i]
        s = np.uint64(symbol[i])
        if group[p] == last[2]:
            if s >= np.uint64(64) or (seen[p] & ~commutes[s]) != np.uint64(0):
                return i
            seen[p] |= np.uint64(1) << s
        else:
            group[p] = last[2]
            # a symbol beyond those worked out commutes with nothing: all bits stand for it
            seen[p] = np.uint64(1) << s if s < np.uint64(64) else ~np.uint64(0)
    return -1
