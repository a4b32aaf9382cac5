"""Measures what each condition across events takes away: the query with none of them, one alone, all but one, and all.

In: a plan, and the first events of a stream. Out: how many matches each trial has, and at how many positions they end.
The trials keep PARTITION BY and WITHIN, so that they have little to do, and leave out the clauses that choose among
matches. Where `all but one` has matches and `all` has none, that one condition is what failed.
"""

from __future__ import annotations

from dataclasses import replace

from ceql.diagnose.counting import Counter, counter
from ceql.diagnose.findings import ClaimFinding, Claims
from ceql.diagnose.following import CorrelatedFollowing, UnaryFollowing
from ceql.explain.claims import Judged, claim_text, claims, judged
from ceql.io.sorted_runs import EventBatch
from ceql.plan import plan_query
from ceql.recognition.bound_plan import BoundPlan
from ceql.syntax import tree as t

MOST_EVENTS = 1 << 16
MOST_CLAIMS = 12


class ClaimTrials:
    """All trials of a query, over the first events of a stream."""

    def __init__(self, bound: BoundPlan) -> None:
        plan = bound.plan
        query = replace(plan.query, strategy=None, limit=None, consume=t.Consume.NONE)
        self._numbers: dict[tuple[str, object], set[int]] = {}
        for claim in claims(plan):
            self._numbers.setdefault((claim_text(claim), claim.span), set()).add(claim.number)
        every = frozenset(number for group in self._numbers.values() for number in group)
        self._trials: dict[frozenset[int], Counter] = {}
        self._seen = 0
        self._events = 0

        def trial(dropped: frozenset[int]) -> Counter:
            if dropped not in self._trials:
                version = plan_query(query, plan.source, dropped, prefers_unary=True)
                self._trials[dropped] = counter(replace(bound, plan=version))
            return self._trials[dropped]

        self._none, self._all = trial(every), trial(frozenset())
        self._each = []
        for j in judged(plan)[:MOST_CLAIMS]:
            own = frozenset(self._numbers[j.text, j.claim.span])
            self._each.append((j, trial(every - own), trial(own)))

    def feed(self, batch: EventBatch) -> None:
        self._events += batch.data.num_rows
        rows = min(batch.data.num_rows, MOST_EVENTS - self._seen)
        if rows <= 0:
            return
        self._seen += rows
        for trial in self._trials.values():
            trial.feed(batch.slice(0, rows))

    def conclude(self, last: EventBatch) -> None:
        """Count what the end of the events decides."""
        for trial in self._trials.values():
            trial.feed(last)

    def findings(self, following: UnaryFollowing | CorrelatedFollowing) -> Claims:
        """What was found, with what `following` knows of groups that conditions ruled out."""
        ruled_out: dict[int, int] = {}
        groups, followed = 0, None
        if isinstance(following, CorrelatedFollowing):
            ruled_out, groups = following.ruled_out, following.groups
            followed = following.seen if following.seen < self._events else None
        return Claims(
            events=self._seen if self._seen < self._events else None,
            none=self._none.tally(),
            all=self._all.tally(),
            each=tuple(
                ClaimFinding(
                    j.text, j.line, j.column, j.how.value, alone.tally(), without.tally(), self._count(j, ruled_out)
                )
                for j, alone, without in self._each
            ),
            groups=groups,
            followed=followed,
        )

    def _count(self, claim: Judged, ruled_out: dict[int, int]) -> int | None:
        """The groups that a claim ruled out, all its copies together."""
        found = [ruled_out[n] for n in self._numbers[claim.text, claim.claim.span] if n in ruled_out]
        return sum(found) if found else None
