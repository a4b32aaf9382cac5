"""The matches of several queries over one input: all of them in one table, or those of each query by its name.

Like `Matches`, the result is lazy. What asks for all matches (`to_arrow`, `matches["fraud"]`) makes one pass for all
queries and keeps what it finds, within the limit `memory`; what gives them piece by piece (`to_batches`, iteration)
keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa

from ceql.errors import ResourceError, did_you_mean
from ceql.io.schemas import one_batch
from ceql.jit import Array
from ceql.plans import Plan
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.kept_rows import KeptRows
from ceql.recognition.match_source import MatchSource, RowsKept
from ceql.recognition.result_columns import positions_of
from ceql.recognition.together import Round
from ceql.results.combined import Combined
from ceql.results.match import EventRows, Match, to_matches
from ceql.results.matches import Matches

if TYPE_CHECKING:
    import pandas
    import polars

_SHOWN = 5


class MatchSet:
    """The matches of a `QuerySet` over an input. `matches["name"]` are those of one query.

    Iterating gives (name, `Match`), in order of where the matches end; those that end at the same event come in the
    order of the queries in the set.
    """

    def __init__(self, names: Iterable[str], source: MatchSource, memory: int = 4 << 30) -> None:
        self._names = tuple(names)
        self._source = source
        self._memory = memory
        self._found: list[Round] | None = None  # all of them
        self._rows: KeptRows | None = None  # their events
        self._matches: dict[str, Matches] = {}
        self._counts: dict[str, int] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queries, in the order of the set."""
        return self._names

    def keys(self) -> tuple[str, ...]:
        """The names of the queries: with this, `dict(matches)` has the matches of each query."""
        return self.names

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Matches:
        if name not in self.names:
            hint = did_you_mean(str(name), list(self.names)) or f"These are: {', '.join(self.names) or 'none'}."
            raise KeyError(f"the set has no query '{name}'. {hint}")
        if name not in self._matches:
            kept = KeptMatches(self._source, self.names.index(name), self._kept, self._rows_of_kept)
            self._matches[name] = Matches(kept, self._memory, name)
        return self._matches[name]

    def items(self) -> Iterator[tuple[str, Matches]]:
        """Each query's name with its matches."""
        return ((name, self[name]) for name in self.names)

    @cached_property
    def _combined(self) -> Combined:
        return Combined(self.names, self._source.schemas)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table of all matches; see `to_arrow`."""
        return self._combined.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matches of all queries as record batches of bounded size, found as they are asked for."""
        rounds = self._source.rounds() if self._found is None else iter(self._found)
        return map(self._combined.batch, rounds)

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as a reader, for whatever takes one."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """All matches of all queries as one table, in the order of iteration.

        Columns: `query` (the name), `start`, `end`; `start_time`, `end_time` where there is time; one for each
        attribute that some query's PARTITION BY names (NULL for other queries; as text where queries differ in its
        type); `events`; `bindings`, a map from each selected variable to its rows; `measures`, a map from each measure
        to its value as text. `matches["name"].to_arrow()` has a query's own columns.
        """
        self._kept()
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        """All matches as a pandas.DataFrame, with the columns of `to_arrow`."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """All matches as a polars.DataFrame, with the columns of `to_arrow`."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __iter__(self) -> Iterator[tuple[str, Match]]:
        rounds = self._source.rounds(rows=True) if self._found is None else iter(self._found)
        for found in rounds:
            yield from self._objects(found)

    def _objects(self, found: Round) -> Iterator[tuple[str, Match]]:
        matches: list[tuple[str, Match]] = []
        for number, batch in found.found:
            positions = np.unique(positions_of(batch))
            load = partial(self._source.rows if self._found is None else self._rows_of_kept, positions)
            if self._found is None and self._source.rows_kept is RowsKept.LAST:
                load = partial(pa.table, load())  # the source is about to move on
            events = EventRows(positions, load, self._source.plans[number].selection)
            matches += ((self.names[number], match) for match in to_matches(batch, events))
        return iter(matches if found.order is None else [matches[row] for row in found.order.tolist()])

    # --- what is kept ---

    def _kept(self) -> list[Round]:
        """All matches, by one pass."""
        if self._found is None:
            source, found, kept, held = self._source, list[Round](), KeptRows(), 0
            once = source.rows_kept is RowsKept.LAST and not source.replayable
            for one in source.rounds(rows=once):
                found.append(one)
                held += one.nbytes
                if once:
                    held += kept.add([batch for _, batch in one.found], source.rows)
                if held > self._memory:
                    raise ResourceError(
                        f"all matches together take more than {self._memory:,} bytes: count() counts them, "
                        "to_batches() and iteration give them piece by piece; or raise memory=",
                        limit="memory",
                    )
            self._found = found
            self._rows = kept if once else None
        return self._found

    def _rows_of_kept(self, positions: Array) -> pa.Table:
        """The events of matches that are kept. If the input can be read again, it is, for all of them at once."""
        if self._source.rows_kept is not RowsKept.LAST:
            return self._source.rows(positions)
        if self._rows is None:
            self._rows = self._source.rows_again([batch for one in self._kept() for _, batch in one.found])
        return self._rows.take(positions)

    def __len__(self) -> NoReturn:
        raise TypeError("matches are found as they are read, so that they have no len(): write matches.count()")

    def __bool__(self) -> bool:
        """True if any query has matches."""
        return any(batch.num_rows for batch in self.to_batches())

    def count(self) -> dict[str, int]:
        """Count the matches of each query, without enumerating them where that is possible."""
        if self._counts is None:
            source, found = self._source, self._found
            counts = source.counts() if found is None else [self[name].count() for name in self.names]
            self._counts = dict(zip(self.names, counts, strict=True))
        return self._counts

    def late(self) -> pa.Table:
        """The events that came later than the lateness allows, and took no part."""
        return self._source.late()

    def __repr__(self) -> str:
        names = [*self.names[:_SHOWN], *(["…"] if len(self.names) > _SHOWN else [])]
        parts = [f"{len(self.names)} quer{'y' if len(self.names) == 1 else 'ies'}: {', '.join(names)}"]
        if self._counts is not None:
            parts.append(f"{sum(self._counts.values()):,} matches")
        return f"<MatchSet of {'; '.join(parts)}>"


class KeptMatches(MatchSource):
    """One query of a source, whose matches `kept` has and whose events `take` gives."""

    replayable = True
    restarts = True

    def __init__(
        self, source: MatchSource, number: int, kept: Callable[[], list[Round]], take: Callable[[Array], pa.Table]
    ) -> None:
        self._source = source
        self._number = number
        self._kept = kept
        self._take = take

    @property
    def rows_kept(self) -> RowsKept:
        return RowsKept.NONE if self._source.rows_kept is RowsKept.NONE else RowsKept.ALL

    @property
    def plans(self) -> list[Plan]:
        return [self._source.plans[self._number]]

    @property
    def bounds(self) -> list[BoundPlan] | None:
        bounds = self._source.bounds
        return None if bounds is None else [bounds[self._number]]

    def rounds(self, rows: bool = False) -> Iterator[Round]:
        return (Round([(0, batch)]) for one in self._kept() for number, batch in one.found if number == self._number)

    def counts(self) -> list[int]:
        return [sum(batch.num_rows for batch in self.batches())]

    def add_up(self, aggregation: Aggregation) -> None:
        for batch in self.batches():
            aggregation.add(batch, lambda positions: one_batch(self.rows(positions)))

    def late(self) -> pa.Table:
        return self._source.late()

    def rows(self, positions: Array) -> pa.Table:
        return self._take(positions)
