"""Defines what a recogniser has taken in, and puts it into a snapshot and out again.

A snapshot has one form, however many queries are fed: one that is fed by itself is a set of one, and has no name.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from ceql.engine.common.check import require
from ceql.errors import DataError
from ceql.io.growing import Growing
from ceql.io.sequencer import Sequencer
from ceql.plans import Plan
from ceql.recognition import snapshot
from ceql.recognition.bound_plan import BoundPlan, Sharing
from ceql.recognition.changes import Changes
from ceql.recognition.journal import Journal
from ceql.recognition.options import Options, Threads
from ceql.recognition.recognise import recognise
from ceql.recognition.rejected import Rejected
from ceql.recognition.rows import RowStore
from ceql.recognition.together import bound_together
from ceql.recognition.types_seen import TypesSeen

Streams = tuple[str | None, ...]
_KIND = "recogniser"
_log = logging.getLogger("ceql")


class Intake(NamedTuple):
    """What a recogniser has taken in. A feed makes a new one; nothing that the old one needs is changed."""

    rows: RowStore
    """The events that matches may name."""
    schemas: dict[int, pa.Schema]
    """The columns of each stream that events have come of."""
    waiting: Growing[tuple[pa.RecordBatch, int]]
    """Fed before every stream's columns were known."""
    waiting_rows: int = 0
    open: bool = False
    """Whether later events may have further columns."""
    sequencer: Sequencer | None = None
    """Puts events in order; None until all columns are known."""
    journal: Journal | None = None
    types: TypesSeen | None = None
    finished: bool = False
    """Whether no events will come."""
    rejected: Growing[Rejected] = Growing()
    """The events that made no sense, and that nobody has taken."""
    feeds: int = 0
    """How many feeds brought events in order; the journal's number of the next one."""
    last: Any = None
    """The matches of the last feed (`recognition.fed.Fed`)."""

    @property
    def fed(self) -> int:
        """How many events were taken in."""
        return self.waiting_rows + (self.sequencer.seen_rows if self.sequencer is not None else 0)

    @property
    def bounds(self) -> list[BoundPlan] | None:
        """The queries over the columns of the events; None until these are known."""
        return [one.bound for one in self.journal.recognitions] if self.journal is not None else None


def empty() -> Intake:
    """What a new recogniser has taken in."""
    return Intake(RowStore(pa.schema([])), {}, Growing(), rejected=Growing())


def bound_to(
    intake: Intake, schema: pa.Schema, plans: Mapping[str, Plan], streams: Streams, options: Options
) -> list[BoundPlan]:
    """The queries over the columns of the events, which have this schema."""
    untyped = options.untyped([intake.schemas.get(k, pa.schema([])) for k in range(len(streams))])

    def bind(plan: Plan, sharing: Sharing | None) -> BoundPlan:
        return BoundPlan(plan, schema, streams, options, intake.open, untyped, sharing=sharing)

    return bound_together(plans, bind)


def written(intake: Intake, plans: Mapping[str, Plan], options: Options) -> bytes:
    """The snapshot of a recogniser."""
    header: dict[str, Any] = {
        "kind": _KIND,
        "queries": [[name, plan.fingerprint, plan.state_fingerprint] for name, plan in plans.items()],
        "options": options.to_json(),
        "finished": intake.finished,
        "open": intake.open,
        "schemas": {str(k): snapshot.schema_to_text(schema) for k, schema in intake.schemas.items()},
        "waiting": [stream for _, stream in intake.waiting],
    }
    arrays: dict[str, Any] = {}
    tables = {f"waiting.{k}": [batch] for k, (batch, _) in enumerate(intake.waiting)}
    if intake.journal is not None and intake.sequencer is not None:
        header["sequencer"], tables["sequencer"] = intake.sequencer.state()
        header["schema"] = snapshot.schema_to_text(intake.journal.recognitions[0].bound.schema)
        header["rows"] = [intake.rows.first, len(intake.rows.batches)]
        tables |= {f"rows.{k}": [batch] for k, batch in enumerate(intake.rows.batches)}
        header["recognitions"], arrays, own = snapshot.joined(intake.journal.states(intake.feeds))
        tables |= own
    return snapshot.write(header, arrays, tables)


def restored(
    blob: bytes, plans: Mapping[str, Plan], streams: Streams, threads: Threads, strict: bool = True
) -> tuple[Options, Intake]:
    """The options and the intake of the recogniser that a snapshot was taken of; `DataError` if it makes no sense.

    Unless `strict`, a set may have other queries than were taken: those of the same name and meaning go on.
    """
    header, arrays, tables = snapshot.read(blob)
    with snapshot.guarded():
        changes = _check_queries(header, plans, strict)
        flags = header["open"], header["finished"]
        require(all(type(flag) is bool for flag in flags), "it is unsaid whether events will come")
        options = Options.from_json(header["options"], threads)
        schemas = {int(k): snapshot.schema_from_text(text) for k, text in header["schemas"].items()}
        known = all(stream in range(len(streams)) for stream in [*schemas, *header["waiting"]])
        require(known, "there is no such stream")
        waiting = [(tables[f"waiting.{k}"][0], stream) for k, stream in enumerate(header["waiting"])]
        intake = empty()._replace(
            schemas=schemas,
            waiting=Growing(waiting),
            waiting_rows=sum(batch.num_rows for batch, _ in waiting),
            open=header["open"],
            finished=header["finished"],
        )
        if "recognitions" not in header:
            return options, intake
        schema = snapshot.schema_from_text(header["schema"])
        bounds = bound_to(intake, schema, plans, streams, options)
        states = snapshot.parted(header["recognitions"], arrays, tables)
        require(len(states) == len(header["queries"]), "a query has no state")
        if changes is not None:
            _log.warning("a recogniser goes on with another set of queries: %s", changes)
            before = {name: state for (name, *_), state in zip(header["queries"], states, strict=True)}
            at = states[0][0]["position"]
            states = [
                before[name] if name in changes.kept else _begun(bound, at)
                for name, bound in zip(plans, bounds, strict=True)
            ]
        journal = Journal(bounds, states)
        same = all(one.position == journal.position for one in journal.recognitions)
        require(same, "its queries are not at the same place")
        sequencer = Sequencer.from_state(header["sequencer"], tables["sequencer"])
        require((sequencer.streams, sequencer.time) == (streams, bounds[0].time), "events of other streams wait")
        first, count = header["rows"]
        rows = RowStore(bounds[0].schema, first)
        for k in range(count):
            rows.add(tables[f"rows.{k}"][0])
        following = journal.position if options.keep_rows else first
        require(first >= 0 and rows.following == following, "rows are missing")
        # a snapshot does not tell which types came before it: `types` stays None
        return options, intake._replace(journal=journal, sequencer=sequencer, rows=rows)


def _begun(bound: BoundPlan, position: int) -> snapshot.State:
    """The state of a query that begins with the event at this position."""
    recognition = recognise(bound)
    recognition.begin_at(position)
    return recognition.state()


def _check_queries(header: dict[str, Any], plans: Mapping[str, Plan], strict: bool) -> Changes | None:
    """Refuse a snapshot of other queries; what changed, if sets may differ, and do."""
    if header.get("kind") != _KIND:
        raise DataError("the snapshot is not that of a recogniser")
    asked = [(name, plan.fingerprint, plan.state_fingerprint) for name, plan in plans.items()]
    taken = [tuple(query) for query in header["queries"]]
    if taken == asked:
        return None
    if not strict and "" not in plans and taken[0][0] != "":
        return Changes.between(taken, asked)
    if ("" in plans) == (taken[0][0] == ""):
        what = "another query; restore it with the query" if "" in plans else "other queries; restore it with the set"
        raise DataError(f"the snapshot is of {what} it was taken of")
    if "" in plans:
        raise DataError("the snapshot is that of a set of queries; restore it with the set it was taken of")
    raise DataError("the snapshot is not that of a set of queries; restore it with the query it was taken of")
