"""A query whose matches are so many events in a row, at work: the loop that shifts bits (`engine.straight`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ceql.automata.cea import NO_LABEL
from ceql.engine.common.chunk import Chunk
from ceql.engine.common.layout import COUNT, ENUMERATE, W_GIVEN
from ceql.engine.straight.loop import Settings, Steps
from ceql.engine.straight.machine import StraightMachine
from ceql.jit import Array
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.frame import Recognition
from ceql.recognition.result_columns import to_record_batch
from ceql.syntax import tree as t


class StraightRecognition(Recognition):
    """Symbols in, matches out."""

    def __init__(self, bound: BoundPlan, counting: bool = False) -> None:
        super().__init__(bound, counting)
        assert bound.plan.straight is not None
        self._steps = bound.plan.straight
        self._keep_rows([], bound.schema)

    @cached_property
    def machine(self) -> StraightMachine:
        """The machine, made when the first events come."""
        window, plan = self.bound.window, self.bound.plan
        settings = Settings(
            window=window.kind,
            width=window.width,
            mode=COUNT if self.counting else ENUMERATE,
            windowed=window.kind != W_GIVEN or window.size is not None,
            consumes=plan.query.consume is t.Consume.PARTITION,
        )
        timed, memory = self.bound.time is not None, self.bound.options.memory
        machine = StraightMachine(self._arrays, settings, timed, memory, **(self._buffers | {"nodes": 1}))
        if self.keys is None:
            machine.room_for_partitions(1)
        return machine

    @property
    def _arrays(self) -> Steps:
        accepts = np.array([self._steps.accepts(bits) for bits in self.table.bits], np.int64)
        return Steps(accepts, np.array([bool(label) for label in self._steps.labels], np.uint8))

    def _room_for_symbols(self) -> None:
        if len(self.machine.steps.accepts) < len(self.table.bits):
            self.machine.steps = self._arrays

    def _divide(self) -> None:
        raise AssertionError("this machine is not divided")

    @property
    def sums(self) -> bool:
        """Whether the graph tells all that totals need: there is none, and few matches."""
        return False

    @cached_property
    def _labels(self) -> list[frozenset[str]]:
        """Those of events that are part of the match."""
        return sorted({*self._steps.labels} - {NO_LABEL}, key=sorted)

    @cached_property
    def _pattern(self) -> Array:
        """The labels of every match."""
        return np.array([self._labels.index(label) for label in self._steps.labels if label], np.int32)

    @cached_property
    def label_masks(self) -> Array:
        """Which variables each label binds."""
        columns = self.bound.plan.columns
        masks: Array = np.zeros((max(1, len(self._labels)), len(columns)), np.bool_)
        for k, label in enumerate(self._labels):
            masks[k] = [variable in label for variable in columns]
        return masks

    def _to_batch(self, chunk: Chunk, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        return to_record_batch(chunk, self.bound.result, self.label_masks, keys, self._pattern)

    def _restore_machine(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        self._room_for_symbols()
        self.machine.position = self.position
        self.machine.restore(arrays)
