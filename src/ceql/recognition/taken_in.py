"""Puts what a recogniser has taken in and not recognised into a snapshot, and takes it out again."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from ceql.engine.common.check import require
from ceql.io.growing import Growing
from ceql.io.sequencer import Sequencer
from ceql.recognition import snapshot
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.rows import RowStore

Header = dict[str, Any]
Tables = dict[str, list[pa.RecordBatch]]


class TakenIn(Protocol):
    """What is written of either."""

    @property
    def rows(self) -> RowStore:
        """The events that matches may name."""

    @property
    def schemas(self) -> dict[int, pa.Schema]:
        """The columns of each stream that events have come of."""

    @property
    def waiting(self) -> Growing[tuple[pa.RecordBatch, int]]:
        """Fed before every stream's columns were known."""

    @property
    def open(self) -> bool:
        """Whether later events may have further columns."""

    @property
    def sequencer(self) -> Sequencer | None:
        """Puts events in order; None until all columns are known."""

    @property
    def finished(self) -> bool:
        """Whether no events will come."""


def written(intake: TakenIn, keep_rows: bool, bound: BoundPlan | None) -> tuple[Header, Tables]:
    """For a snapshot; `bound` is (one of) the plans that the events go to, if they are known."""
    header: Header = {
        "keep_rows": keep_rows,
        "finished": intake.finished,
        "open": intake.open,
        "schemas": {str(k): snapshot.schema_to_text(schema) for k, schema in intake.schemas.items()},
        "waiting": [stream for _, stream in intake.waiting],
    }
    tables: Tables = {f"waiting.{k}": [batch] for k, (batch, _) in enumerate(intake.waiting)}
    if bound is not None and intake.sequencer is not None:
        header["sequencer"], tables["sequencer"] = intake.sequencer.state()
        header["schema"] = snapshot.schema_to_text(bound.schema)
        header["rows"] = [intake.rows.first, len(intake.rows.batches)]
        tables |= {f"rows.{k}": [batch] for k, batch in enumerate(intake.rows.batches)}
    return header, tables


def check_flags(header: Header) -> None:
    """Refuse truth values that are none."""
    flags = header["keep_rows"], header["open"], header["finished"]
    require(all(type(flag) is bool for flag in flags), "a truth value is none")


def waiting_in(
    header: Header, tables: Tables, streams: tuple[str | None, ...]
) -> tuple[dict[int, pa.Schema], Growing[tuple[pa.RecordBatch, int]]]:
    """The columns of the streams, and the events that wait until all of them are known."""
    schemas = {int(k): snapshot.schema_from_text(text) for k, text in header["schemas"].items()}
    require(all(stream in range(len(streams)) for stream in [*schemas, *header["waiting"]]), "there is no such stream")
    return schemas, Growing([(tables[f"waiting.{k}"][0], stream) for k, stream in enumerate(header["waiting"])])


def ordered_in(
    header: Header, tables: Tables, streams: tuple[str | None, ...], bound: BoundPlan, position: int
) -> tuple[Sequencer, RowStore]:
    """What puts events in order, and the rows that matches may name, where recognition is at `position`."""
    sequencer = Sequencer.from_state(header["sequencer"], tables["sequencer"])
    require((sequencer.streams, sequencer.time) == (streams, bound.time), "events of other streams wait")
    first, count = header["rows"]
    rows = RowStore(bound.schema, first)
    for k in range(count):
        rows.add(tables[f"rows.{k}"][0])
    require(first >= 0 and rows.following == (position if header["keep_rows"] else first), "rows are missing")
    return sequencer, rows
