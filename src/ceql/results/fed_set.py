"""The matches of one feed of a set's recogniser (`results.match_set.MatchSetSource`): all of them are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ceql.errors import SchemaError
from ceql.jit import Array
from ceql.plan import Plan
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.rows import RowStore
from ceql.results.kept_matches import KeptMatches
from ceql.results.match_set import Shown
from ceql.results.source import MatchSource, RowsKept


@dataclass(frozen=True)
class FedSet:
    """The matches, and the rows of their events where these are kept."""

    names: tuple[str, ...]
    plans: Sequence[Plan]
    bounds: Sequence[BoundPlan] | None
    """None while the columns of the events are not known."""
    schemas: list[pa.Schema]
    found: list[Shown]
    store: RowStore | None
    memory: int
    late: Callable[[], pa.Table]
    is_kept: bool = True

    def kept(self) -> list[Shown]:
        return self.found

    def rounds(self, rows: bool = False) -> Iterator[Shown]:
        return iter(self.found)

    def rows(self, positions: Array) -> pa.Table:
        if self.store is None:
            raise SchemaError("this recogniser keeps no rows; make it with keep_rows=True")
        return self.store.take(positions)

    def of_query(self, number: int) -> list[pa.RecordBatch]:
        """The matches of one query."""
        return [batch for shown in self.found for k, batch in shown.found if k == number]

    def counts(self) -> list[int]:
        return [sum(batch.num_rows for batch in self.of_query(number)) for number in range(len(self.names))]

    def source(self, number: int) -> MatchSource:
        bound = self.bounds[number] if self.bounds is not None else None
        kept = RowsKept.NONE if self.store is None else RowsKept.ALL
        return KeptMatches(
            self.plans[number],
            self.schemas[number],
            bound,
            lambda: self.of_query(number),
            self.rows,
            self.late,
            kept,
        )
