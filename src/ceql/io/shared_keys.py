"""The keys of substreams that several queries have in common: each row's key is read once for all of them.

The rows' keys get numbers here, which all queries share. Each query has numbers of its own besides, since it forgets
substreams as they become empty: they stand for shared ones (`QueryKeys`), so that a row costs two look-ups and no
query keeps keys. When there are far more shared numbers than the queries use, they are given anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from ceql.errors import DataError
from ceql.io.partition_keys import PartitionKeys, state_batch, state_parts
from ceql.jit import Array

_MANY = 1 << 18  # shared numbers, before it is worth giving them anew
_UNREAD = -2

Concerned = Callable[[pa.RecordBatch, int | Array], Array]


class SharedKeys:
    """The shared numbers. `make` gives an empty table of keys; `concerned` the rows that some query will ask for."""

    def __init__(self, make: Callable[[], PartitionKeys], concerned: Concerned, streams: Sequence[str | None]) -> None:
        self._make = make
        self._concerned = concerned
        self._streams = streams
        self._queries: WeakSet[QueryKeys] = WeakSet()
        self.keys = make()
        self._batch: pa.RecordBatch | None = None
        self._numbers: Array = np.zeros(0, np.int32)

    def query(self) -> QueryKeys:
        """The keys of one query."""
        found = QueryKeys(self)
        self._queries.add(found)
        return found

    def numbers(self, batch: pa.RecordBatch, streams: int | Array, rows: Array | None) -> Array:
        """The shared number of each of these rows (all, when None), -1 for none."""
        if self._batch is not batch:
            if self.keys.known > _MANY and self.keys.known > 4 * sum(query.known for query in self._queries):
                self.keys = self._make()  # queries bring theirs along when they look
            self._batch = batch
            self._numbers = np.full(batch.num_rows, _UNREAD, np.int32)
            self._read(batch, streams, self._concerned(batch, streams))
        found = self._numbers if rows is None else self._numbers[rows]
        unread = found == _UNREAD
        if unread.any():
            self._read(batch, streams, np.flatnonzero(unread) if rows is None else rows[unread])
            found = self._numbers if rows is None else self._numbers[rows]
        return found

    def _read(self, batch: pa.RecordBatch, streams: int | Array, rows: Array) -> None:
        wanted = [name for name in self.keys.columns if name in batch.schema.names]
        columns = batch.select(wanted).take(pa.array(rows)) if wanted else batch.slice(0, len(rows)).select([])
        own = streams if isinstance(streams, int) else streams[rows]
        self._numbers[rows] = self.keys.numbers(columns, own, self._streams)


class QueryKeys:
    """The substreams of one query; what `PartitionKeys` is to a query alone."""

    def __init__(self, shared: SharedKeys) -> None:
        self._shared = shared
        self._keys = shared.keys  # what the shared numbers here are numbers of
        self.columns = shared.keys.columns
        self.names = shared.keys.names
        self.reused: list[int] = []  # numbers used again; the caller empties the list
        self._own: Array = np.full(1, -1, np.int32)  # by shared number; the last is for rows without a key
        self._common: Array = np.zeros(0, np.int32)  # the shared number by own number, -2 for none
        self._count = 0  # one more than the greatest own number
        self._free: Array = np.zeros(0, np.int32)  # own numbers without a key, descending

    def __len__(self) -> int:
        return self._count

    @property
    def known(self) -> int:
        """How many substreams have a number now."""
        return self._count - len(self._free)

    @property
    def nbytes(self) -> int:
        """The memory that the keys take besides the shared ones."""
        return int(self._own.nbytes + self._common.nbytes + self._free.nbytes)

    @property
    def used(self) -> Array:
        """The numbers of the known substreams, ascending."""
        return np.flatnonzero(self._common[: self._count] >= 0)

    def numbers_at(self, batch: pa.RecordBatch, streams: int | Array, rows: Array | None) -> Array:
        """The substream of each of these rows (all, when None), -1 for none."""
        common = self._shared.numbers(batch, streams, rows)
        if self._keys is not self._shared.keys:
            self._follow()
        self._make_room()
        numbers = self._own[common]
        unread = numbers == _UNREAD
        if unread.any():
            marked = np.zeros(len(self._keys), np.bool_)
            marked[common[unread]] = True
            self._add(np.flatnonzero(marked))
            numbers = self._own[common]
        return numbers

    def _make_room(self) -> None:
        """Have a place for each shared number."""
        count = len(self._keys)
        if len(self._own) <= count:
            more = np.full(2 * count + 2 - len(self._own), _UNREAD, np.int32)
            self._own = np.concatenate([self._own[:-1], more])
            self._own[-1] = -1

    def _add(self, common: Array) -> None:
        """Give numbers to these shared ones: those that are free, the least first, then new ones."""
        again = self._free[::-1][: len(common)]
        self._free = self._free[: len(self._free) - len(again)]
        self.reused += again.tolist()
        fresh = np.arange(self._count, self._count + len(common) - len(again), dtype=np.int32)
        self._count += len(fresh)
        if self._count > len(self._common):
            more = np.full(max(len(self._common), self._count - len(self._common)), _UNREAD, np.int32)
            self._common = np.concatenate([self._common, more])
        own = np.concatenate([again, fresh])
        self._own[common] = own
        self._common[own] = common

    def release(self, numbers: Array) -> None:
        """Forget these substreams, which are empty."""
        numbers = numbers[numbers < self._count]
        numbers = numbers[self._common[numbers] >= 0]
        if not len(numbers):
            return
        self._own[self._common[numbers]] = _UNREAD
        self._common[numbers] = _UNREAD
        self._free = np.flatnonzero(self._common[: self._count] < 0)[::-1].astype(np.int32)

    def _follow(self) -> None:
        """Go on with the shared numbers that were given anew."""
        used = self.used
        common = self._shared.keys.numbers_of(self._keys.values(self._common[used]))
        self._keys = self._shared.keys
        self._own = np.full(1, -1, np.int32)
        self._make_room()
        self._own[common] = used
        self._common[used] = common

    def key_columns(self, numbers: Sequence[int] | Array) -> pa.RecordBatch:
        """The keys of these substreams, a column for each part."""
        return self._keys.key_columns(self._common[np.asarray(numbers, np.int64)])

    def hashes(self, numbers: Array) -> Array:
        """A hash of the key of each of these substreams: 32 bits that follow from the key alone."""
        return self._keys.hashes(self._common[numbers])

    def state(self) -> pa.RecordBatch:
        """The keys of the known substreams, which are numbered anew in the order of `used`."""
        used = self.used
        return state_batch(np.arange(len(used)), self._keys.values(self._common[used]))

    def restore(self, state: pa.RecordBatch, count: int) -> None:
        """Continue from a `state` with room for `count` substreams."""
        self._keys = self._shared.keys
        numbers, parts = state_parts(state, len(self._keys.parts))
        common = self._keys.numbers_of(parts)
        sound = len(np.unique(numbers)) == len(numbers) == len(np.unique(common)) and not (common < 0).any()
        if not (sound and ((numbers >= 0) & (numbers < count)).all()):
            raise DataError("the snapshot is damaged: a key comes twice or is none, or has the number of another")
        self._own = np.full(1, -1, np.int32)
        self._make_room()
        self._common = np.full(count, _UNREAD, np.int32)
        self._count = count
        self._own[common] = numbers
        self._common[numbers] = common
        self._free = np.flatnonzero(self._common < 0)[::-1].astype(np.int32)
