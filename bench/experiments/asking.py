"""Asking peers: the same events and the same query, their matches compared with ceql's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

import ceql
from bench.figures import Figure, Place, Task, median_figure
from bench.pattern import Pattern
from bench.peers.peer import PATIENCE, Job, Peer, Run
from bench.settings import Settings, read_events

Right = Callable[[int], tuple[int, int]]
"""By the number of events that were read: their matches, and how many of them complete some."""


def asked(
    settings: Settings,
    panel: str,
    x: float | str,
    events: str,
    pattern: Pattern,
    names: Sequence[str] = (),
    memory: bool = False,
) -> Iterator[Task]:
    """A task for each peer, or for those named."""
    for peer in settings.peers:
        if not names or peer.name in names:
            yield Task((Place(panel, peer.name, x),), partial(_alone, settings, peer, events, pattern, memory))


def _alone(settings: Settings, peer: Peer, events: str, pattern: Pattern, memory: bool) -> list[Figure]:
    return [ask(settings, peer, events, pattern, memory)]


def ask(
    settings: Settings,
    peer: Peer,
    events: str,
    pattern: Pattern,
    memory: bool = False,
    wanted: Right | None = None,
    patience: float = PATIENCE,
) -> Figure:
    """The figure of one peer; its note says so if its matches are not those `wanted`, which are ceql's if not given."""
    runs = peer.ask(Job(events, pattern, 1 if memory else settings.runs, settings.seconds, memory), patience)
    done = [run for run in runs if not run.error]
    if not done:
        return Figure(error=runs[0].error)
    last = done[-1]
    figure = median_figure(
        [run.wall for run in done],
        [run.cpu for run in done],
        [run.events for run in done],
        last.matches,
        last.triggers,
        max(run.megabytes for run in done),
        difference(peer, pattern, last, wanted or partial(right, events, pattern.ceql())),
    )
    each = statistics.median(run.engine / max(run.events, 1) for run in done)
    return replace(figure, more={"engine": each}) if each else figure


def difference(peer: Peer, pattern: Pattern, run: Run, wanted: Right) -> str:
    """How a run's matches differ from the right ones on the events that it has read; empty if they do not."""
    matches, triggers = wanted(run.events)
    if peer.first_only and pattern.consume:
        return "" if run.triggers == triggers else f"other matches: at {run.triggers:,} events, not {triggers:,}"
    if (run.matches, run.triggers) == (matches, triggers):
        return ""
    return f"other matches: {run.matches:,} at {run.triggers:,} events, not {matches:,} at {triggers:,}"


@cache
def right(events: str, query: str, count: int) -> tuple[int, int]:
    """ceql's matches, and the events that complete them, in the first `count` events."""
    matches = triggers = 0
    last = -1
    for batch in ceql.compile(query).run(read_events(events).slice(0, count)).to_batches():
        ends = batch["end"].to_numpy()
        matches += len(ends)
        triggers += int(np.count_nonzero(np.diff(ends, prepend=last)))
        last = ends[-1]
    return matches, triggers
