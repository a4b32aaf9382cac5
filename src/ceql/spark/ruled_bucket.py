"""A bucket whose rules change with the time of its events (see `rules`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ceql.io.sort_keys import encode
from ceql.recognition.changes import Changes
from ceql.spark.bucket import Bucket, CheckpointTerms
from ceql.spark.rules import RuleTable, Ruling
from ceql.spark.task_metrics import COUNTERS
from ceql.spark.task_recognizer import TaskRecognizer
from ceql.spark.task_spec import TIME, SetSpec


class RuledBucket(Bucket):
    """The state of one bucket, and the rules of its division that are in effect."""

    def __init__(self, ruling: Ruling, division: int, table: RuleTable, terms: CheckpointTerms) -> None:
        self._ruling = ruling
        self._division = division
        self._table = table
        self._task = self._in_effect()
        self._before: dict[str, Counter[str]] = {}  # what rules did before others came into effect
        super().__init__(self._task or ruling.templates[division], terms)

    def by_rule(self) -> dict[str, dict[str, int]]:
        found = {name: Counter(own) for name, own in self._before.items()}
        for name, own in super().by_rule().items():
            found.setdefault(name, Counter()).update(own)
        return {name: dict(own) for name, own in found.items()}

    def _in_effect(self) -> SetSpec | None:
        return self._ruling.task_of(self._division, list(self._table.active.values()))

    def _going_on(self, changes: Changes | None) -> frozenset[str]:
        """Those in effect: a rule may read a column that is gone since the blob was written."""
        return frozenset(self._task.names if self._task is not None else ())

    def _recognise(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        times = encode(batch.column(TIME), TIME)
        begin = 0
        for time in self._table.times(int(times[-1])):
            end = int(np.searchsorted(times, time))
            yield from self._feed(batch.slice(begin, end - begin))
            yield from self._change(time)
            begin = end
        yield from self._feed(batch.slice(begin))

    def _compact(self, watermark: int | None) -> Iterator[pa.RecordBatch]:
        """Let changes take effect that the watermark has reached, though no event has; forget what is over."""
        if watermark is not None:
            for time in self._table.times(watermark):
                yield from self._change(time)
        yield from super()._compact(watermark)

    def _feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._task is not None and batch.num_rows:
            yield from super()._recognise(batch)

    def _reject(self, rows: pa.RecordBatch) -> None:
        if self._task is None:
            self.rejected.append(rows)
        else:
            super()._reject(rows)

    def _change(self, time: int) -> Iterator[pa.RecordBatch]:
        """Let the changes up to this time take effect, before its events are recognised."""
        before, old = self._task, self._recognizer
        if old is not None:
            yield from old.compact(time)
        self._table.move_to(time)
        self._task = self._in_effect()
        if self._task is before:
            return
        for name, own in super().by_rule().items():
            self._before.setdefault(name, Counter()).update({counter: own[counter] for counter in COUNTERS})
        self._spec = self._task or self._ruling.templates[self._division]
        self._recognizer = None
        if old is not None and before is not None and self._task is not None and not old.is_idle:
            header, arrays, tables = old.state()
            self._recognizer = TaskRecognizer(self._task, old.schema)
            self._recognizer.restore(header, arrays, tables, self._ruling.kept(before, self._task))
            yield from self._recognizer.compact()
