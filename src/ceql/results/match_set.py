"""The matches of several queries over one input: all of them in one table, or those of each query by its name.

Like `Matches`, the result is lazy. What asks for all matches (`to_arrow`, `matches["fraud"]`) makes one pass for all
queries and keeps what it finds, within the limit `memory`; what gives them piece by piece (`to_batches`, iteration)
keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

import numpy as np
import pyarrow as pa

from ceql.errors import did_you_mean
from ceql.jit import Array
from ceql.recognition.together import Round
from ceql.results.combined import Combined
from ceql.results.match import EventRows, Match, to_matches
from ceql.results.matches import Matches
from ceql.results.reader import positions_of
from ceql.results.source import MatchSource

if TYPE_CHECKING:
    import pandas
    import polars

_SHOWN = 5


class Shown(NamedTuple):
    """Matches of some queries, numbered as the caller's rows are, and the order in which their rows come."""

    found: Round
    order: Array


class MatchSetSource(Protocol):
    """Several queries with their input, which finds the matches."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def schemas(self) -> list[pa.Schema]:
        """The columns of each query's matches."""

    @property
    def memory(self) -> int: ...

    def rounds(self, rows: bool = False) -> Iterator[Shown]:
        """A pass over the input; with `rows`, one whose events can be asked for until the next round."""

    def rows(self, positions: Array) -> pa.Table:
        """The events at these positions, of the last round."""

    def kept(self) -> list[Shown]:
        """All rounds of one pass, which are kept."""

    @property
    def is_kept(self) -> bool:
        """Whether all matches are known."""

    def counts(self) -> list[int]:
        """The number of each query's matches, by a pass that does not enumerate them."""

    def source(self, number: int) -> MatchSource:
        """The matches of one query."""

    def late(self) -> pa.Table:
        """The events of the last pass that came too late."""


class MatchSet:
    """The matches of a `QuerySet` over an input. `matches["name"]` are those of one query.

    Iterating gives (name, `Match`), in order of where the matches end; those that end at the same event come in the
    order of the queries in the set.
    """

    def __init__(self, source: MatchSetSource) -> None:
        self._source = source
        self._matches: dict[str, Matches] = {}
        self._counts: dict[str, int] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queries, in the order of the set."""
        return self._source.names

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
            source = self._source.source(self.names.index(name))
            self._matches[name] = Matches(source, self._source.memory)
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
        rounds = iter(self._source.kept()) if self._source.is_kept else self._source.rounds()
        return (self._combined.batch(*shown) for shown in rounds)

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
        self._source.kept()
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
        sources = [self._source.source(number) for number in range(len(self.names))]
        if self._source.is_kept:
            for shown in self._source.kept():
                yield from self._objects(shown, [source.rows for source in sources], sources)
            return
        for shown in self._source.rounds(rows=True):
            yield from self._objects(shown, [self._source.rows] * len(sources), sources)

    def _objects(
        self, shown: Shown, take: list[Callable[[Array], pa.Table]], sources: list[MatchSource]
    ) -> Iterator[tuple[str, Match]]:
        matches: list[tuple[str, Match]] = []
        for number, batch in shown.found:
            positions = np.unique(positions_of(batch))
            rows = take[number](positions)
            events = EventRows(positions, lambda rows=rows: rows, sources[number].selection)  # type: ignore[misc]
            matches += ((self.names[number], match) for match in to_matches(batch, events))
        return (matches[row] for row in shown.order.tolist())

    def __len__(self) -> NoReturn:
        raise TypeError("matches are found as they are read, so that they have no len(): write matches.count()")

    def __bool__(self) -> bool:
        """Whether any query has matches."""
        if self._source.is_kept:
            return bool(self._source.kept())
        return any(True for _ in self.to_batches())

    def count(self) -> dict[str, int]:
        """How many matches each query has; they are counted without being enumerated where that is possible."""
        if self._counts is None:
            self._counts = dict(zip(self.names, self._source.counts(), strict=True))
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
