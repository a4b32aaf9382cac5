"""A pass over Parquet files that are in order of time: piece by piece, read ahead in a thread, in time order.

If the statistics of the time column say that no piece begins before the one before it has ended, the pass needs no look
through all times first: each piece is checked when it is read, and one whose own rows are not in order is sorted by
itself. Pieces in which no event can matter are left out: by their statistics before anything is read, then by the
dictionaries of their text columns, which are read before the other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ceql.errors import DataError
from ceql.io.files import Parquet
from ceql.io.ordering import ascend, by_time
from ceql.io.parquet_pieces import Bounds, Piece
from ceql.io.plain_types import plain_type
from ceql.io.schemas import conform, is_text
from ceql.io.sort_keys import Int64s, encode
from ceql.io.soundness import check_fully
from ceql.io.times import called, time_keys


class Sieve(NamedTuple):
    """Says which pieces can be left out."""

    may_matter: Callable[[Callable[[str], Bounds]], bool]
    """Whether any event whose columns have such values can matter."""
    unseen: bool
    """Whether a piece may be left out of which nothing was read."""


Looking = Callable[[], Sieve | None]
"""Returns the sieve that decides now; None, if all events are wanted."""


class Wanted(NamedTuple):
    """What a pass is to read."""

    columns: list[str]
    coded: frozenset[str]
    """Those of them that come as codes into dictionaries, one for each batch; they are read first."""


class Held(NamedTuple):
    """What a pass has read of a piece, in order of time."""

    piece: Piece
    batches: list[pa.RecordBatch]
    order: Int64s | None
    """The row of the piece that each event is; None where they are the same."""


class Left(NamedTuple):
    """A piece that a pass has left out."""

    piece: Piece
    seen: Sequence[pa.RecordBatch] = ()
    """The columns that were read before that was known."""


class ParquetScan:
    """The events of Parquet files in order of the column `time`, if they can be had so piece by piece."""

    def __init__(self, reader: Parquet, time: str | None, stream: str | None, batch_rows: int) -> None:
        self._reader = reader
        self._batch_rows = batch_rows
        self.check_room: Callable[[int], None] = lambda rows: None
        """Is called before so many rows are sorted."""
        self.pieces = reader.pieces
        self.schema = pa.schema([(field.name, plain_type(field.type)) for field in self.pieces.schema])
        self._time = time
        self._stream = called(stream)

    def says_sorted(self) -> bool:
        """Whether the pieces are in order of time among each other, by their statistics."""
        if self._time is None:
            return True
        type = self.schema.field(self._time).type
        # a NaN is in no statistics
        if pa.types.is_floating(type) or is_text(type):
            return False
        keys: list[Int64s] = []
        for piece in self.pieces.pieces:
            bounds = piece.bounds(self._time)
            if bounds.nulls or bounds.ends is None:
                return False
            keys.append(encode(bounds.ends, self._time))
        return ascend(keys)

    def wanted(self, columns: Iterable[str], codable: Iterable[str]) -> Wanted:
        """These columns, in the files' order, the codable ones of them as codes if the files have them so."""
        names = {*columns, *([self._time] if self._time is not None else [])}
        found = [name for name in self.schema.names if name in names] or self.schema.names[:1]
        return Wanted(found, self.pieces.coded([n for n in found if n in set(codable) and n != self._time]))

    def read(self, wanted: Wanted, looking: Looking) -> Iterator[Held | Left]:
        """The pieces, one after the other."""
        last: int | None = None
        for piece, found in self._ahead(wanted, looking):
            self._reader.done = (piece.first + piece.rows) / self.pieces.rows
            if isinstance(found, Left):
                yield found
                continue
            held, first, final = self._in_order(piece, found)
            if last is not None and first is not None and first < last:
                raise DataError(
                    f"{self._stream} is not in order of '{self._time}' where its statistics say so, or has changed "
                    f"while it was read (from row {piece.first} on); write the file anew"
                )
            last = final if final is not None else last
            yield held

    def load(self, piece: Piece, wanted: Wanted) -> list[pa.RecordBatch]:
        """The rows of a piece."""
        coded = wanted.coded
        fields = [f if f.name not in coded else _coded(f.name) for f in self.schema if f.name in wanted.columns]
        batches = piece.read(wanted.columns, coded).to_batches()
        return [conform(check_fully(batch), pa.schema(fields)) for batch in batches]

    def _ahead(self, wanted: Wanted, looking: Looking) -> Iterator[tuple[Piece, list[pa.RecordBatch] | Left]]:
        """Each piece with what was read of it; the next one is read meanwhile."""
        pieces = self.pieces.pieces
        if len(pieces) < 2:
            for piece in pieces:
                yield piece, self._read(piece, wanted, looking())
            return
        with ThreadPoolExecutor(1, "ceql-parquet") as reader:
            coming: Future[list[pa.RecordBatch] | Left] = reader.submit(self._read, pieces[0], wanted, looking())
            for k, piece in enumerate(pieces):
                found = coming.result()
                if k + 1 < len(pieces):
                    coming = reader.submit(self._read, pieces[k + 1], wanted, looking())
                yield piece, found

    def _read(self, piece: Piece, wanted: Wanted, sieve: Sieve | None) -> list[pa.RecordBatch] | Left:
        if sieve is not None and sieve.unseen and not sieve.may_matter(piece.bounds):
            return Left(piece)
        early = [name for name in wanted.columns if name in wanted.coded]
        late = [name for name in wanted.columns if name not in wanted.coded]
        if sieve is None or not early or not late:
            return self.load(piece, wanted)
        seen = self.load(piece, Wanted(early, wanted.coded))
        values = {name: _values([batch.column(name) for batch in seen]) for name in early}
        if not sieve.may_matter(lambda name: values[name] if name in values else piece.bounds(name)):
            return Left(piece, seen)
        return _side_by_side(seen, self.load(piece, Wanted(late, frozenset())), wanted.columns)

    def _in_order(self, piece: Piece, found: list[pa.RecordBatch]) -> tuple[Held, int | None, int | None]:
        """The events of a piece by time, and their first and last time."""
        if self._time is None:
            return Held(piece, found, None), None, None
        keys, passed = [], piece.first
        for batch in found:
            keys.append(time_keys(batch, self._time, None, self._stream, passed)[1])
            passed += batch.num_rows
        if ascend(keys):
            return Held(piece, found, None), int(keys[0][0]), int(keys[-1][-1])
        self.check_room(piece.rows)
        order, batches = by_time(found, keys, self._batch_rows)
        times = np.concatenate(keys)
        return Held(piece, list(batches), order), int(times.min()), int(times.max())


def _side_by_side(
    some: Sequence[pa.RecordBatch], others: Sequence[pa.RecordBatch], names: Sequence[str]
) -> list[pa.RecordBatch]:
    """The columns of the same rows from two readings of them, in the order of `names`."""
    table = pa.Table.from_batches(some)
    for field, column in zip(others[0].schema, pa.Table.from_batches(others).columns, strict=True):
        table = table.append_column(field, column)
    found: list[pa.RecordBatch] = table.select(list(names)).to_batches()
    return found


def _coded(name: str) -> pa.Field:
    return pa.field(name, pa.dictionary(pa.int32(), pa.string()))


def _values(columns: list[pa.DictionaryArray]) -> Bounds:
    """The values in the dictionaries of a column; most batches share theirs."""
    nulls = any(column.null_count for column in columns)
    dictionaries: list[pa.Array] = []
    for column in columns:
        if not any(column.dictionary.equals(known) for known in dictionaries[-1:]):
            dictionaries.append(column.dictionary)
    return Bounds(None, nulls, pa.concat_arrays(dictionaries))
