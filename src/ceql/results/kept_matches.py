"""The matches of one query of a set: found with those of the others, and kept (`results.source.MatchSource`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from ceql.analysis.selection import Selection
from ceql.errors import DataError
from ceql.io.schemas import one_batch
from ceql.jit import Array
from ceql.plan import Plan
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.totals_table import Request
from ceql.results.source import RowsKept
from ceql.syntax import tree as t


@dataclass(frozen=True)
class KeptMatches:
    """What gives the matches, and their events."""

    plan: Plan
    schema: pa.Schema
    bound: BoundPlan | None
    """None while the columns of the events are not known."""
    kept: Callable[[], list[pa.RecordBatch]]
    take: Callable[[Array], pa.Table]
    late: Callable[[], pa.Table]
    rows_kept: RowsKept = RowsKept.ALL
    replayable: bool = True
    restarts: bool = True

    @property
    def query(self) -> t.Query:
        return self.plan.query

    @property
    def selection(self) -> Selection:
        return self.plan.selection

    @property
    def type(self) -> str | None:
        return self.bound.type if self.bound is not None else None

    @property
    def time(self) -> str | None:
        return self.bound.time if self.bound is not None else None

    def batches(self, rows: bool = False) -> Iterator[pa.RecordBatch]:
        return iter(self.kept())

    def count(self) -> int:
        return sum(batch.num_rows for batch in self.kept())

    def foreseen(self) -> int | None:
        return None  # they are in memory already

    def aggregation(self, request: Request) -> Aggregation:
        if self.bound is None:
            raise DataError("no events were fed yet, so their columns are not known")
        return Aggregation(request, self.bound)

    def add_up(self, aggregation: Aggregation) -> None:
        for batch in self.kept():
            aggregation.add(batch, lambda positions: one_batch(self.take(positions)))

    def rows(self, positions: Array) -> pa.Table:
        return self.take(positions)
