"""The options of `match` that say how it goes about its work: in a batch, in a stream, with rules that change.

Each concerns some of these. One that does not fit the call is refused: without effect it would be a surprise later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import Observation

from ceql.errors import ArgumentError
from ceql.recognition.options import OnBad, check_names
from ceql.spark.extras import Extras
from ceql.spark.match_options import DEFAULTS, MatchArguments, MatchOptions, read_match
from ceql.spark.rule_stream import Keys
from ceql.spark.streaming import Seed

BUCKETS = 16


class CallOptions(MatchOptions, total=False):
    """All options of `match`."""

    partitions: int | None
    """Batch: how many tasks to divide the work into; Spark chooses by default."""
    skewed: bool
    """Batch: a few keys have most of the events; the stream is cut by time, where the window allows it."""
    buckets: int
    """Streaming: how many states the keys are divided into; it cannot change under a checkpoint."""
    late: str | None
    """Streaming: the name of a further column that holds the events that came too late; the other columns are NULL in
    such a row. Without it they are only counted."""
    rejects: str | None
    """Streaming: the name of a further column that holds the events that make no sense, as a struct of `reason` and
    `event`: those without a time, as a record has that could not be read. Without it they are only counted."""
    on_bad: OnBad
    """Streaming: 'reject', or 'fail', which ends the query at an event that makes no sense."""
    emit: str
    """Streaming: 'watermark': events are recognised when the watermark has passed them, whatever order they come in;
    'now': as they come, if they come in order of time by key. One that is behind another of its key is late then."""
    seed: Seed | None
    """Streaming: what `state_of` gave for history, from which the stream goes on."""
    strict: bool
    """Streaming: refuse to go on from a checkpoint of another set of queries. Without it, queries of the same name and
    meaning go on with their states, those that are gone are dropped, new and changed ones begin."""
    keys: Keys | None
    """With `rules`: the columns by which events are divided (a list: several ways). Each rule's PARTITION BY must have
    those of one way."""
    errors: str | None
    """With `rules`: the name of a further column, the message about a rule that makes no sense."""
    observe: str | Observation | None
    """What the tasks count, as Spark's observed metrics. Batch: an `Observation`, whose `get` has it after an action.
    Streaming: the progress reports have it always (see `metrics`), under "ceql_" and this name or a number."""


@dataclass(frozen=True)
class Call:
    """The options of a call of `match`, but for those that go to tasks; `CallOptions` says what they are."""

    partitions: int | None = None
    skewed: bool = False
    buckets: int = BUCKETS
    late: str | None = None
    rejects: str | None = None
    on_bad: OnBad = "reject"
    emit: str = "watermark"
    seed: Seed | None = None
    strict: bool = False
    keys: Keys | None = None
    errors: str | None = None
    observe: str | Observation | None = None

    @property
    def extras(self) -> Extras:
        """What a stream gives besides matches."""
        observe = self.observe if isinstance(self.observe, str) else None
        return Extras(self.late, self.rejects, self.errors, self.on_bad, observe)

    def check_batch(self, several: bool) -> None:
        """Refuse what a batch of one query, or of several, does not take."""
        self._refuse(_STREAMING, "is for streaming: {}")
        self._refuse(_RULES, "goes with rules=")
        if several and self.observe is not None:
            raise ArgumentError("observe= in a batch is for one query, not for several")

    def check_stream(self, ruled: bool) -> None:
        """Refuse what a stream does not take, of queries or (`ruled`) of rules that change."""
        self._refuse(_BATCH, "is for batch; a stream has buckets=")
        self._refuse(_NO_RULES if ruled else _RULES, "does not go with rules=: {}" if ruled else "goes with rules=")
        if self.buckets < 1:
            raise ArgumentError("buckets must be at least 1")
        if self.observe is not None and not isinstance(self.observe, str):
            raise ArgumentError("a stream's metrics are in its progress reports: observe= is a name, no Observation")

    def _refuse(self, options: Mapping[str, str], why: str) -> None:
        for name, reason in options.items():
            if getattr(self, name) != _CALL[name]:
                raise ArgumentError(f"{name}= {why.format(reason)}")


_CALL: dict[str, Any] = {field.name: field.default for field in fields(Call)}
CALL_DEFAULTS = DEFAULTS | _CALL
_BATCH = dict.fromkeys(("partitions", "skewed"), "")
_RULES = dict.fromkeys(("keys", "errors"), "")
_STREAMING = {
    "late": "in a batch no event comes too late",
    "rejects": "of a batch, filter such rows out",
    "emit": "a batch has all events before it begins",
    "seed": "it is what state_of() gives for the events before the stream",
    "strict": "a batch has no checkpoint",
}
_NO_RULES = {
    "seed": "rules come and go by the watermark",
    "emit": "rules come and go by the watermark",
    "strict": "they are there to change",
}


def read_call(given: Mapping[str, Any]) -> tuple[MatchArguments, Call]:
    """The options of a call of `match`: those that go to tasks, and the others."""
    check_names(given, CallOptions)
    call = Call(**{name: value for name, value in given.items() if name in _CALL})
    return read_match({name: value for name, value in given.items() if name not in _CALL}), call
