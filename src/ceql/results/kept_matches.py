"""The matches of one query of a set: found with those of the others, and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from ceql.io.schemas import one_batch
from ceql.jit import Array
from ceql.plans import Plan
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.together import Round
from ceql.results.source import MatchSource, RowsKept


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
