"""A pass over Parquet files that are in order of time: piece by piece, read ahead in a thread, in time order.

If the statistics of the time column say that no piece begins before the one before it has ended, the pass needs no look
through all times first: each piece is checked when it is read, and one whose own rows are not in order is sorted by
itself. Pieces in which no event can matter are left out: by their statistics before anything is read, then by the
dictionaries of their text columns, which are read before the other columns. Where these columns leave few rows of a
piece in question, only these rows of the other columns are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from ceql.errors import DataError
from ceql.io.files import Parquet
from ceql.io.ordering import ascend, together
from ceql.io.parquet_pieces import Bounds, Picking, Piece
from ceql.io.plain_types import plain_type
from ceql.io.schemas import conform, is_text, take_rows
from ceql.io.sort_keys import Int64s, encode
from ceql.io.soundness import check_fully
from ceql.io.times import called, time_keys
from ceql.jit import Array

_SPARSE = 4  # where no more than one row in so many is wanted, rows are read one by one


class Sieve(Protocol):
    """Says which events can matter."""

    @property
    def leaves_out(self) -> bool:
        """Whether pieces may be left out, not only rows of them."""

    def may_matter(self, bounds: Callable[[str], Bounds]) -> bool:
        """Whether an event with such columns can matter."""

    def rows(self, batch: pa.RecordBatch) -> Int64s | None:
        """The rows that can, by the columns that there are; None if that is not known."""


Looking = Callable[[], "Sieve | None"]
"""What decides now; None, if all events are wanted."""


class Wanted(NamedTuple):
    """What a pass is to read."""

    columns: list[str]
    coded: frozenset[str]
    """Those of them that come as codes into dictionaries, one for each batch."""
    early: frozenset[str] = frozenset()
    """Those that are read first, since they say of many events that they cannot matter."""


class Read(NamedTuple):
    """What was read of a piece, in the order of the file."""

    batches: list[pa.RecordBatch]
    rows: Int64s | None = None
    """The rows of the piece that were read; None for all."""
    seen: Sequence[pa.RecordBatch] = ()
    """The early columns of all rows, where a piece was left out whose types somebody wants to know."""


class Held(NamedTuple):
    """What a pass has read of a piece, in order of time."""

    piece: Piece
    batches: list[pa.RecordBatch]
    order: Int64s | None
    """The row of the piece that each event is; None where they are the same."""
    rows: Int64s | None = None
    """The rows of the piece that were read; None for all."""
    seen: Sequence[pa.RecordBatch] = ()


class ParquetScan:
    """The events of Parquet files in order of the column `time`, if they can be had so piece by piece."""

    def __init__(self, reader: Parquet, time: str | None, stream: str | None) -> None:
        self._reader = reader
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

    def wanted(self, columns: Iterable[str], codable: Iterable[str] = (), telling: Iterable[str] = ()) -> Wanted:
        """These columns, in the files' order, the codable ones of them as codes if the files have them so.

        Those that come as codes are read first; if none does, those that are `telling`.
        """
        names = {*columns, *([self._time] if self._time is not None else [])}
        found = [name for name in self.schema.names if name in names] or self.schema.names[:1]
        coded = self.pieces.coded([n for n in found if n in set(codable) and n != self._time])
        return Wanted(found, coded, coded or frozenset(telling) & frozenset(found))

    def read(self, wanted: Wanted, looking: Looking) -> Iterator[Held | Piece]:
        """The pieces, one after the other: what was read of each, or the piece itself where it was left out."""
        last: int | None = None
        for piece, found in self._ahead(wanted, looking):
            self._reader.done = (piece.first + piece.rows) / self.pieces.rows
            if found is None:
                yield piece
                continue
            held, first, final = self._in_order(piece, found, wanted)
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

    def pick(self, picking: Picking, columns: Sequence[str], rows: Int64s) -> pa.RecordBatch | None:
        """These rows of a piece, which ascend; None if they cannot be read one by one."""
        picked = picking.take(columns, rows)
        if picked is None:
            return None
        return conform(check_fully(picked), pa.schema([self.schema.field(name) for name in columns]))

    def _ahead(self, wanted: Wanted, looking: Looking) -> Iterator[tuple[Piece, Read | None]]:
        """Each piece with what was read of it, None if it is left out; the next one is read meanwhile."""
        pieces = self.pieces.pieces
        if len(pieces) < 2:
            for piece in pieces:
                yield piece, self._read(piece, wanted, looking())
            return
        with ThreadPoolExecutor(1, "ceql-parquet") as reader:
            coming: Future[Read | None] = reader.submit(self._read, pieces[0], wanted, looking())
            for k, piece in enumerate(pieces):
                found = coming.result()
                if k + 1 < len(pieces):
                    coming = reader.submit(self._read, pieces[k + 1], wanted, looking())
                yield piece, found

    def _read(self, piece: Piece, wanted: Wanted, sieve: Sieve | None) -> Read | None:
        if sieve is not None and sieve.leaves_out and not sieve.may_matter(piece.bounds):
            return None
        early = [name for name in wanted.columns if name in wanted.early]
        late = [name for name in wanted.columns if name not in wanted.early]
        if sieve is None or not early or not late:
            return Read(self.load(piece, wanted))
        codes = [name for name in early if name in wanted.coded]
        found = self._sifted(piece, codes, [*early, *late], sieve) if codes == early else None
        if found is not None:
            seen = [] if sieve.leaves_out else self.load(piece, Wanted(early, wanted.coded))
            return self._told(found, seen, wanted, sieve)
        seen = self.load(piece, Wanted(early, wanted.coded))
        values = {name: _values([batch.column(name) for batch in seen]) for name in codes}
        if sieve.leaves_out and not sieve.may_matter(lambda n: values[n] if n in values else piece.bounds(n)):
            return None
        found = self._few(piece, seen, late, sieve)
        if found is not None:
            return self._told(found, seen, wanted, sieve)
        return Read(side_by_side(seen, self.load(piece, Wanted(late, frozenset())), wanted.columns))

    def _told(self, found: Read, seen: list[pa.RecordBatch], wanted: Wanted, sieve: Sieve) -> Read | None:
        """What was found, with its columns in order; None if it is nothing. Others may have to be told of all rows."""
        found = found._replace(batches=[batch.select(wanted.columns) for batch in found.batches])
        if sieve.leaves_out:
            return found if found.batches else None
        return found._replace(seen=seen)

    def _sifted(self, piece: Piece, codes: list[str], names: list[str], sieve: Sieve) -> Read | None:
        """The rows that can matter, by their codes; None if they are not few, or cannot be picked.

        The codes of one column leave some rows, which all later columns are read at.
        """
        if not all(map(piece.can_pick, names)):
            return None
        picking = piece.picking()
        shares = {name: picking.share(name, partial(_wanted, sieve, name)) for name in codes}
        first = min(shares, key=shares.__getitem__)
        if shares[first] * _SPARSE > 1:
            return None
        rows = picking.sift(first, partial(_wanted, sieve, first))
        if rows is None or len(rows) * _SPARSE > piece.rows:
            return None
        if not len(rows):
            return Read([], rows)
        known = self.pick(picking, codes, rows)
        some = None if known is None else sieve.rows(known)
        if known is None or some is None:
            return None
        return self._completed(picking, take_rows(known, pa.array(some)), rows[some], names[len(codes) :])

    def _few(self, piece: Piece, seen: list[pa.RecordBatch], late: list[str], sieve: Sieve) -> Read | None:
        """The rows that can matter, by the columns that were read; None if they are not few, or cannot be picked."""
        rows = [found for batch in seen if (found := sieve.rows(batch)) is not None]
        if len(rows) < len(seen) or sum(map(len, rows)) * _SPARSE > piece.rows or not all(map(piece.can_pick, late)):
            return None
        starts = np.cumsum([0, *(batch.num_rows for batch in seen)])
        here = np.concatenate([found + start for found, start in zip(rows, starts, strict=False)])
        known = together([take_rows(batch, pa.array(own)) for batch, own in zip(seen, rows, strict=True)])
        return self._completed(piece.picking(), known, here, late)

    def _completed(self, picking: Picking, known: pa.RecordBatch, rows: Int64s, late: list[str]) -> Read | None:
        """These rows, of which some columns are known, with further columns; None if these cannot be picked."""
        if not len(rows):
            return Read([], rows)
        others = self.pick(picking, late, rows)
        return None if others is None else Read(side_by_side([known], [others], [*known.schema.names, *late]), rows)

    def _in_order(self, piece: Piece, found: Read, wanted: Wanted) -> tuple[Held, int | None, int | None]:
        """The events of a piece by time, and their first and last time."""
        batches, rows, seen = found
        if self._time is None or not batches:
            return Held(piece, batches, None, rows, seen), None, None
        if rows is not None and any(batch.column(self._time).null_count for batch in batches):
            return self._in_order(piece, Read(self.load(piece, wanted)), wanted)  # the error names the event
        keys, passed = [], piece.first
        for batch in batches:
            keys.append(time_keys(batch, self._time, None, self._stream, passed)[1])
            passed += batch.num_rows
        if ascend(keys):
            return Held(piece, batches, None, rows, seen), int(keys[0][0]), int(keys[-1][-1])
        if rows is not None:
            return self._in_order(piece, Read(self.load(piece, wanted)), wanted)
        self.check_room(piece.rows)
        all_keys = np.concatenate(keys)
        order = np.argsort(all_keys, kind="stable")
        sorted_rows = take_rows(together(batches), pa.array(order))
        return Held(piece, [sorted_rows], order), int(all_keys[order[0]]), int(all_keys[order[-1]])


def side_by_side(
    some: Sequence[pa.RecordBatch], others: Sequence[pa.RecordBatch], names: Sequence[str]
) -> list[pa.RecordBatch]:
    """The columns of the same rows from two readings of them, in the order of `names`."""
    table = pa.Table.from_batches(some)
    for field, column in zip(others[0].schema, pa.Table.from_batches(others).columns, strict=True):
        table = table.append_column(field, column)
    found: list[pa.RecordBatch] = table.select(list(names)).to_batches()
    return found


def _wanted(sieve: Sieve, name: str, texts: pa.Array) -> Array:
    """Which of these values of a column can matter, and at last, whether NULL can."""
    every = pa.concat_arrays([texts, pa.nulls(1, texts.type)])
    rows = sieve.rows(pa.record_batch({name: every}))
    wanted = np.full(len(every), rows is None, np.bool_)
    if rows is not None:
        wanted[rows] = True
    return wanted


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
