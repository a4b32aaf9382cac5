"""The stateful step of rules that change while the stream runs (see `rules`)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues, ValueState

from ceql.recognition.snapshot import to_ipc
from ceql.spark.bucket import CheckpointTerms
from ceql.spark.extras import ERROR, ERRORS
from ceql.spark.packing import DATA, ROWS
from ceql.spark.ruled_bucket import RuledBucket
from ceql.spark.rules import RuleTable, Ruling
from ceql.spark.stream_job import place_of
from ceql.spark.streaming import BucketProcessor, from_ipc, step_row
from ceql.spark.worker_errors import message_alone

_log = logging.getLogger("ceql")


class RuledProcessor(BucketProcessor):
    """The step, with the rules of each bucket in a state of their own; `identities` are those of the divisions."""

    states = ("state", "rules")

    def __init__(
        self,
        ruling: Ruling,
        identities: tuple[int, ...],
        terms: CheckpointTerms,
        kinds: frozenset[int],
        fails: bool,
    ) -> None:
        super().__init__({}, terms, kinds, fails)
        self._ruling = ruling
        self._divisions = {place_of(identity, terms.buckets): k for k, identity in enumerate(identities)}

    def begin(self, handle: StatefulProcessorHandle, *states: ValueState) -> None:
        super().begin(handle, states[0])
        self._rules = states[1]

    def _seal(self, arrived: list[Row]) -> Iterator[Row]:
        """A row for each rule that makes no sense, besides."""
        yield from super()._seal(arrived)
        for change in _changes(arrived):
            why = self._ruling.complaint_of(change)
            if why is not None:
                _log.warning("rule %r is left out: %s", change["name"], why)
                told = {"query": change["name"], "version": change["version"], "error": why}
                batch = pa.RecordBatch.from_pylist([told], ERROR)
                yield step_row(ERRORS, 1, to_ipc([batch]) if ERRORS in self._kinds else None)

    def _run(self, bucket: int, arrived: list[Row], timers: TimerValues) -> Iterator[Row]:
        before = self._rules.get()
        blob = bytes(before[0]) if before is not None else None
        table = RuleTable.from_bytes(blob) if blob is not None else RuleTable()
        clock = timers.getCurrentWatermarkInMs()
        sound = [one for one in _changes(arrived) if self._ruling.complaint_of(one) is None]
        table.add(sound, clock * 1000 if clock > 0 else None)
        with message_alone():
            own = RuledBucket(self._ruling, self._divisions[bucket // self._terms.buckets], table, self._terms)
        yield from self._update(bucket, own, self._kept(), [row for row in arrived if row[ROWS] >= 0], timers)
        after = table.to_bytes()
        if after != blob:
            self._rules.update((after,))


def _changes(arrived: list[Row]) -> list[dict[str, Any]]:
    """The rows of rules among what has arrived, as `packing` marks them."""
    blobs = [bytes(row[DATA]) for row in arrived if row[ROWS] < 0]
    return [change for blob in blobs for batch in from_ipc(blob) for change in batch.to_pylist()]
