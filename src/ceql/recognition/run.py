"""Drives queries over an input: one pass for each reading, for all queries at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any
from weakref import finalize

import pyarrow as pa

from ceql.io.ordering import put_in_order
from ceql.io.source import Source
from ceql.io.sources import open_streams
from ceql.plans import Plan
from ceql.recognition.aggregation import Aggregation
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.file_scan import FileScan
from ceql.recognition.frame import Recognition
from ceql.recognition.graph_totals import listen
from ceql.recognition.input import Input, Merged
from ceql.recognition.kept_rows import KeptRows
from ceql.recognition.match_source import MatchSource, Positions
from ceql.recognition.options import BATCH_ROWS, Options, over_all
from ceql.recognition.recognise import recognise
from ceql.recognition.result_columns import renumbered
from ceql.recognition.together import Round, Share, bound_together, in_rounds, needed_columns, rounds
from ceql.recognition.types_seen import TypesSeen

Bounds = Sequence[BoundPlan]
_LARGE_BATCH_ROWS = 1 << 20  # where substreams are many: each batch has several events of most


class Run(MatchSource):
    """Queries over an input, in which matches name their events by the caller's rows."""

    def __init__(self, plans: Mapping[str, Plan], sources: list[Source], bounds: Bounds) -> None:
        first = bounds[0]
        self._bounds = bounds
        self._sources = put_in_order(sources, first.time, first.options.max_buffered_rows)
        self._types = TypesSeen(first, plans)

    @classmethod
    def over(cls, plans: Mapping[str, Plan], events: Any, options: Options, known: list[Bounds]) -> Run:
        """The queries over whatever holds events; `known` are they as they were bound to the last input, to be kept by
        the caller for the next run."""
        dotted = tuple(dict.fromkeys(name for plan in plans.values() for name in plan.dotted))
        streams = next(iter(plans.values())).query.streams
        rows = options.batch_rows
        if rows == BATCH_ROWS and any(plan.partition for plan in plans.values()):
            rows = _LARGE_BATCH_ROWS
        sources = open_streams(events, streams, rows, options.time, options.nested(dotted))
        if all(source.replayable for source in sources):
            options = over_all(options)
        bounds = _taken(known)
        if bounds is None or not bounds[0].fits(sources, options):
            bounds = bound_together(plans, lambda plan, sharing: BoundPlan.over(plan, sources, options, sharing))
        run = cls(plans, sources, bounds)
        if bounds[0].sharing is None:
            _put_back(known, bounds)
        else:  # what queries share is changed by whoever reads
            finalize(run, _put_back, known, bounds).atexit = False
        return run

    @property
    def plans(self) -> list[Plan]:
        return [bound.plan for bound in self._bounds]

    @property
    def bounds(self) -> Bounds:
        return self._bounds

    @cached_property
    def replayable(self) -> bool:
        return all(source.replayable for source in self._sources)

    @cached_property
    def _input(self) -> Input:
        """What a scan leaves out for one query, another may want; so several read whole files."""
        scan = FileScan.over(self._bounds[0], self._sources, self._types) if len(self._bounds) == 1 else None
        return Merged(self._bounds[0], self._sources, self._types) if scan is None else scan

    def rounds(self, rows: bool = False) -> Iterator[Round]:
        recognitions = [recognise(bound) for bound in self._bounds]
        if len(recognitions) == 1 and not rows and self.replayable:
            recognitions[0].holds_back = True
        events = self._input
        for batch in events.batches(None if rows and not events.prunes else needed_columns(self._bounds), rows):
            yield from map(self._by_caller_rows, rounds(recognitions, batch, flush=rows))
            if rows:
                events.forget_before(min(one.oldest_position() for one in recognitions))
        yield from map(self._by_caller_rows, in_rounds([recognition.finish() for recognition in recognitions]))
        for recognition in recognitions:
            recognition.leave()

    def _by_caller_rows(self, found: Round) -> Round:
        """The matches with the caller's rows in place of positions; their order is that of positions."""
        order = self._input.order
        return found if order is None else Round([(k, renumbered(one, order)) for k, one in found.found], found.order)

    def counts(self) -> list[int]:
        return self._counted([recognise(bound, counting=True) for bound in self._bounds])

    def foreseen(self) -> int | None:
        recognition = recognise(self._bounds[0], counting=True)
        return None if recognition.enumerates or not self.replayable else self._counted([recognition])[0]

    def _counted(self, recognitions: list[Recognition]) -> list[int]:
        for batch in self._input.batches(needed_columns(self._bounds)):
            for recognition in recognitions:
                for _ in recognition.feed(batch):
                    pass
        found = [recognition.counted for recognition in recognitions]
        for recognition in recognitions:
            recognition.leave()
        return found

    def add_up(self, aggregation: Aggregation) -> None:
        recognition = recognise(self._bounds[0])
        listen(aggregation, recognition)
        columns = sorted({*needed_columns(self._bounds), *aggregation.request.attributes})
        for batch in self._input.batches(columns):
            for _ in recognition.feed(batch):
                pass
        for _ in recognition.finish():
            pass
        recognition.leave()

    def late(self) -> pa.Table:
        return self._input.late()

    def rows(self, positions: Positions) -> pa.Table:
        return self._input.rows(positions)

    def rows_again(self, found: Sequence[pa.RecordBatch]) -> KeptRows:
        kept = KeptRows()
        kept.read(found, self._input.batches(None), self._input.order, self._bounds[0].schema)
        return kept


def _taken(known: list[Bounds]) -> Bounds | None:
    """The queries as they were bound last, if no other thread has taken them."""
    with suppress(IndexError):
        return known.pop()
    return None


def _put_back(known: list[Bounds], bounds: Bounds) -> None:
    """Let the next run have these."""
    if isinstance(bounds[0].sharing, Share):
        bounds[0].sharing.forget()
    known[:] = [bounds]
