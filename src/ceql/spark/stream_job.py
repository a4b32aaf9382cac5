"""The job of a streaming query, or of a set: the rows, what recognises them, what comes out."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import DataType, StructType

from ceql.spark.batch import Way, divide
from ceql.spark.bucket import CheckpointTerms
from ceql.spark.prepare import Prepared
from ceql.spark.task_spec import Specs


@dataclass(frozen=True)
class RowGroup:
    """Rows that are shipped and divided in one way, and the query or queries that look at them."""

    carrier: Prepared
    """The rows."""
    spec: Specs

    @property
    def is_keyed(self) -> bool:
        """Whether the rows are divided among buckets; if not, there is one."""
        return divide(self.carrier).way is Way.KEYED


@dataclass(frozen=True)
class StreamJob:
    """A streaming query. All its groups go through one stateful step: each has bucket numbers of its own."""

    groups: tuple[RowGroup, ...]
    terms: CheckpointTerms
    schema: StructType
    """The columns of the result."""
    event_type: DataType
    """The type of an event in the result."""

    @property
    def specs(self) -> tuple[Specs, ...]:
        """What recognises the rows of a bucket; see `spec_of`."""
        return tuple(group.spec for group in self.groups)

    def buckets_of(self, number: int) -> tuple[int, int]:
        """The first bucket of a group, and how many it has."""
        buckets = self.terms.buckets
        return number * buckets, buckets if self.groups[number].is_keyed else 1

    @property
    def buckets(self) -> int:
        """How many buckets all groups have."""
        return sum(self.buckets_of(number)[1] for number in range(len(self.groups)))


def spec_of(bucket: int, specs: tuple[Specs, ...], terms: CheckpointTerms) -> Specs:
    """What recognises the rows of a bucket: groups of rows have as many numbers of buckets, one after the other."""
    return specs[bucket // terms.buckets]


def job_of(prepared: Prepared, buckets: int) -> StreamJob:
    """The job of one query."""
    group = RowGroup(prepared, prepared.spec)
    terms = terms_of((group,), prepared.plan.fingerprint, prepared.plan.source.strip(), buckets)
    return StreamJob((group,), terms, prepared.schema, prepared.event_type)


def terms_of(
    groups: tuple[RowGroup, ...],
    fingerprint: str,
    text: str,
    buckets: int,
    queries: tuple[tuple[str, str], ...] = (),
) -> CheckpointTerms:
    """The terms that a checkpoint sets; what they say of rows is the same for all groups."""
    prepared, spec = groups[0].carrier, groups[0].spec.first
    return CheckpointTerms(
        fingerprint=fingerprint,
        query=text,
        buckets=buckets if any(group.is_keyed for group in groups) else 1,
        type=spec.options.type,
        time=spec.options.time,
        order_by=spec.ordered_by,
        shown=spec.kept,
        order=prepared.order,
        queries=queries,
    )
