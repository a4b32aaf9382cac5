"""The job of a streaming query, or of a set: the rows, what recognises them, what comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from ceql.errors import ArgumentError
from ceql.spark.batch import Division, divide
from ceql.spark.bucket import CheckpointTerms
from ceql.spark.prepare import Prepared
from ceql.spark.rules import Ruling
from ceql.spark.task_spec import Specs

_NUMBERS = 1 << 31
"""The count of numbers for buckets."""


@dataclass(frozen=True)
class RowGroup:
    """Rows that are shipped and divided in one way, and the query or queries that look at them."""

    carrier: Prepared
    """The rows."""
    spec: Specs
    identity: int = 0
    """What tells the group from others, now and in later runs from a checkpoint, by what its rows are divided by."""

    @property
    def is_keyed(self) -> bool:
        """Whether the rows are divided among buckets; if not, there is one."""
        return divide(self.carrier)[0] is Division.KEYED


@dataclass(frozen=True)
class StreamJob:
    """A streaming query. All its groups go through one stateful step: each has bucket numbers of its own."""

    groups: tuple[RowGroup, ...]
    terms: CheckpointTerms
    schema: StructType
    """The columns of the result."""
    event_type: DataType
    """The type of an event in the result."""
    waits: bool = False
    """Whether matches may be decided after their last event: their `end_time` may be far behind the watermark."""
    ruling: Ruling | None = None
    """What makes tasks of rules that change while the stream runs."""
    rules: DataFrame | None = None
    """The stream that says so."""

    @property
    def identities(self) -> tuple[int, ...]:
        """Those of the groups."""
        return tuple(group.identity for group in self.groups)

    @property
    def specs(self) -> dict[int, Specs]:
        """What recognises the rows of each group; see `spec_of`."""
        return {group.identity: group.spec for group in self.groups}

    def buckets_of(self, number: int) -> tuple[int, int]:
        """The first bucket of a group, and how many it has."""
        buckets, group = self.terms.buckets, self.groups[number]
        return place_of(group.identity, buckets) * buckets, buckets if group.is_keyed else 1

    @property
    def buckets(self) -> int:
        """How many buckets all groups have."""
        return sum(self.buckets_of(number)[1] for number in range(len(self.groups)))


def place_of(identity: int, buckets: int) -> int:
    """The place of a group among those that the numbers of buckets are divided into."""
    return identity % (_NUMBERS // buckets)


def spec_of(bucket: int, specs: Mapping[int, Specs], terms: CheckpointTerms) -> Specs | None:
    """What recognises the rows of a bucket; None if it is of a group that is gone."""
    place = bucket // terms.buckets
    return next((spec for identity, spec in specs.items() if place_of(identity, terms.buckets) == place), None)


def job_of(prepared: Prepared, buckets: int) -> StreamJob:
    """The job of one query."""
    group = RowGroup(prepared, prepared.spec)
    buckets = buckets if group.is_keyed else 1
    terms = terms_of((group,), prepared.plan.fingerprint, prepared.plan.source.strip(), buckets)
    return StreamJob((group,), terms, prepared.schema, prepared.event_type, prepared.plan.waits)


def digest(told: object, size: int) -> bytes:
    """Bytes that follow from what is told."""
    return blake2b(json.dumps(told).encode(), digest_size=size).digest()


def identity_of(told: object) -> int:
    """A number for a group that follows from what divides its rows."""
    return int.from_bytes(digest(told, 8))


def recognising_now(job: StreamJob) -> StreamJob:
    """The same job, whose events are recognised as they come (`emit="now"`)."""
    if job.waits:
        raise ArgumentError(
            "emit='now' is for matches that their last event decides; NOT at the end and AFTER MATCH are decided by "
            "time passing, of which the watermark tells: leave emit out, or match such queries by themselves"
        )
    groups = tuple(replace(group, spec=group.spec.recognising_now()) for group in job.groups)
    return replace(job, groups=groups, terms=replace(job.terms, now=True))


def terms_of(
    groups: tuple[RowGroup, ...],
    fingerprint: str,
    text: str,
    buckets: int,
    queries: tuple[tuple[str, str, str], ...] = (),
) -> CheckpointTerms:
    """The terms that a checkpoint sets; what they say of rows is the same for all groups."""
    if len({place_of(group.identity, buckets) for group in groups}) < len(groups):
        raise ArgumentError(
            f"the numbers of buckets of two kinds of keys clash, unless keys= has one twice: pass another number than "
            f"{buckets=}"
        )
    prepared, spec = groups[0].carrier, groups[0].spec.first
    return CheckpointTerms(
        fingerprint=fingerprint,
        query=text,
        buckets=buckets,
        type=spec.options.type,
        time=spec.options.time,
        order_by=spec.ordered_by,
        shown=spec.kept,
        order=prepared.order,
        queries=queries,
        columns=tuple(dict.fromkeys(name for df in prepared.streams for name in df.columns)),
        ids=spec.ids,
    )
