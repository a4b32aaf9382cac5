"""Rules that change while a stream runs: a second stream says which rules there are, and from when on.

A row of that stream is a change: from the time `valid_from` on, the rule `name` has this text and version, or is off
(`enabled` is false). Every bucket gets every change (`packing`). The change takes effect at events of that time or
later; if the watermark has passed it when the change comes, at all events behind the watermark. So what a rule finds
does not depend on how events arrive, and a micro-batch that is run again gives what it gave before.

A bucket keeps the rules that are in effect, and the changes to come (`RuleTable`). At a change, rules of the same name
and meaning go on with their states; the others begin (`ruled_bucket`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from ceql.analysis.first_event import never_begins
from ceql.errors import ArgumentError, CeqlError
from ceql.plan import make_plan
from ceql.plans import Plan
from ceql.recognition.bound_plan import BoundPlan
from ceql.recognition.options import Options
from ceql.recognition.snapshot import schema_from_text
from ceql.spark.collations import refuse_collations
from ceql.spark.match_options import MatchArguments
from ceql.spark.task_spec import SetSpec, TaskSpec, key_column
from ceql.syntax import tree as t

ALWAYS = -(1 << 62)
"""The time of a rule that is in effect from the beginning."""
_MOST_SETS = 64
_log = logging.getLogger("ceql")


class Change(NamedTuple):
    """A rule from a time on."""

    since: int
    """The key of the time: microseconds."""
    name: str
    version: str | None
    text: str | None
    """None if the rule is off."""


class RuleTable:
    """The rules in effect, and the changes to come."""

    def __init__(self, active: Sequence[Change] = (), coming: Sequence[Change] = ()) -> None:
        self.active = {change.name: change for change in active}
        self.coming = sorted(coming, key=_order)

    def add(self, rows: Sequence[dict[str, Any]], watermark: int | None) -> None:
        """Take changes in, which come when the watermark (in microseconds; None before the first) is this."""
        lowest = ALWAYS if watermark is None else watermark + 1
        for row in rows:
            since = lowest if row["valid_from"] is None else max(lowest, row["valid_from"])
            text = row["text"] if row["enabled"] else None
            self.coming.append(Change(since, row["name"], row["version"], text))
        self.coming.sort(key=_order)
        if watermark is None:  # no event was recognised yet
            self.move_to(ALWAYS)

    def times(self, until: int) -> list[int]:
        """When rules change, up to a time."""
        return sorted({change.since for change in self.coming if change.since <= until})

    def move_to(self, time: int) -> None:
        """Let the changes up to this time take effect."""
        while self.coming and self.coming[0].since <= time:
            change = self.coming.pop(0)
            if change.text is None:
                self.active.pop(change.name, None)
            else:
                self.active[change.name] = change

    def to_bytes(self) -> bytes:
        """The table as a state has it."""
        return json.dumps([list(self.active.values()), self.coming]).encode()

    @classmethod
    def from_bytes(cls, blob: bytes) -> RuleTable:
        """The table of a state."""
        active, coming = json.loads(blob)
        return cls([Change(*one) for one in active], [Change(*one) for one in coming])


def _order(change: Change) -> tuple[int, str, tuple[int, str], str]:
    version = change.version or ""
    return change.since, change.name, (int(version) if version.isdigit() else -1, version), change.text or ""


@dataclass(frozen=True)
class Ruling:
    """What makes tasks of rules: how events are divided, and what is shipped of them. Plain data, for the workers."""

    templates: tuple[TaskSpec, ...]
    """For each division of the events, a task that has its columns."""
    divisions: tuple[tuple[str, ...], ...]
    """The columns by which each division is made; none where all events are together."""
    columns: str
    """The columns of the events, as the text of a schema."""
    options: Options
    collated: tuple[tuple[str, str], ...]
    compared_keys: tuple[tuple[str, pa.DataType], ...]
    """The keys that the result shows."""
    arguments: MatchArguments
    """The options of `match`."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the events."""
        return schema_from_text(self.columns)

    @cached_property
    def _plans(self) -> dict[str, Plan | str]:
        return {}

    @cached_property
    def _sets(self) -> dict[tuple[int, tuple[Change, ...]], SetSpec | None]:
        return {}

    def complaint_of(self, change: dict[str, Any]) -> str | None:
        """Why a row of rules makes none; None if it does."""
        if not change["name"]:
            return "the row has no name, as a line has none that is no JSON"
        if change["wrong"]:
            return str(change["wrong"])
        if not change["enabled"]:
            return None
        if not change["text"]:
            return "a rule that is on has a text"
        found = self._checked(change["text"])
        return found if isinstance(found, str) else None

    def _checked(self, text: str) -> Plan | str:
        if text not in self._plans:
            try:
                plan = make_plan(text)
                if plan.query.streams:
                    raise ArgumentError("a rule of rules= has no FROM: there is one stream")
                if why := never_begins(plan.whole, text):
                    raise ArgumentError(why)
                bound = BoundPlan(plan, self.schema, (None,), self.options)
                refuse_collations(dict(self.collated), bound)
                self._division(plan)
                self.arguments.suppressing(plan)
                self._plans[text] = plan
            except CeqlError as error:
                self._plans[text] = str(error)
        return self._plans[text]

    def _division(self, plan: Plan) -> int:
        """The first division whose keys are all among those of the rule."""
        own = set(_key_columns(plan))
        alone = plan.query.consume is t.Consume.ANY
        for number, keys in enumerate(self.divisions):
            if set(keys) <= own and not (alone and keys):
                return number
        ways = " or ".join(f"({', '.join(keys)})" for keys in self.divisions)
        raise ArgumentError(f"the stream is divided by {ways}: PARTITION BY must have all of these columns")

    def task_of(self, division: int, changes: Sequence[Change]) -> SetSpec | None:
        """The task of those of these rules that belong to a division; None if there are none."""
        key = division, tuple(changes)
        if key not in self._sets:
            if len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            self._sets[key] = self._made(division, changes)
        return self._sets[key]

    def _made(self, division: int, changes: Sequence[Change]) -> SetSpec | None:
        rules: list[tuple[Change, Plan]] = []
        for change in sorted(changes, key=lambda change: change.name):
            plan = self._checked(change.text or "")
            if isinstance(plan, str):  # it made sense when it came
                _log.warning("rule %r does not fit the stream any more, and is left out: %s", change.name, plan)
            elif self._division(plan) == division:
                rules.append((change, plan))
        if not rules:
            return None
        specs = tuple(self._spec(division, change.name, plan) for change, plan in rules)
        versions = tuple(change.version for change, _ in rules)
        return SetSpec(tuple(change.name for change, _ in rules), specs, self.compared_keys, versions)

    def _spec(self, division: int, name: str, plan: Plan) -> TaskSpec:
        template, keys = self.templates[division], self.divisions[division]
        own = template.of_set(plan, name, self.columns, self.arguments.suppressing(plan, name))
        columns = (
            key_column(keys.index(column)) if column in keys else template.place[column]
            for column in _key_columns(plan)
        )
        return replace(own, key_columns=tuple(columns))

    def kept(self, before: SetSpec, now: SetSpec) -> frozenset[str]:
        """The rules that go on with their states from one task to the next."""
        old, new = (
            {name: self._state_of(own.query) for name, own in zip(one.names, one.specs, strict=True)}
            for one in (before, now)
        )
        return frozenset(name for name in new if old.get(name) == new[name])

    def _state_of(self, text: str) -> str:
        plan = self._checked(text)
        return plan if isinstance(plan, str) else plan.state_fingerprint


def _key_columns(plan: Plan) -> list[str]:
    """The attributes that substreams are made by."""
    for part in plan.partition:
        if len(part.refs) != 1 or part.refs[0].name is not None:
            raise ArgumentError("a rule of rules= has one column for each key, the same for all types")
    return [part.refs[0].attribute for part in plan.partition]
