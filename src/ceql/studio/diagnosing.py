"""Diagnoses a query over the events of a session, one query at a time.

A diagnosis reads all events several times over, so that many at once would take the memory and the time of all others.
A new one cancels the one before; one that nobody waits for any more, since the page has gone or has taken its question
back, is cancelled too. It may take as long as a run.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from ceql.diagnose.findings import Diagnosis
from ceql.query import compile
from ceql.studio.asked import Body
from ceql.studio.checking import fit
from ceql.studio.data import Data
from ceql.studio.limited import Stop, Watched
from ceql.studio.streams import for_query, to_input

_LOOK = 0.2  # seconds between two looks whether somebody still waits


class Diagnosing:
    """Who diagnoses, and who waits for a turn. Those who wait take no thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._latest = Stop(seconds)

    async def answer(self, request: Request, query: str, data: Data) -> Body:
        """The diagnosis, as the page draws it."""
        self._latest.cancel("another diagnosis was asked for, and there is one at a time")
        stop = self._latest = Stop(self._seconds)
        async with self._turn:
            work = asyncio.ensure_future(run_in_threadpool(_diagnose, query, data, stop))
            try:
                while not (await asyncio.wait([work], timeout=_LOOK))[0]:
                    if await request.is_disconnected():
                        stop.cancel("nobody waits for it")
            finally:
                stop.cancel("the studio ends")
            return work.result()


def _diagnose(text: str, data: Data, stop: Stop) -> Body:
    stop.check()
    query = compile(text)
    fit(query, data)
    data = for_query(data, query.plan.query.streams)
    events = to_input(data, lambda table, name: Watched(table, name, stop.check))
    return _shown(query.diagnose(events, **data.columns.options))


def _shown(found: Diagnosis) -> dict[str, Any]:
    """What the page draws, and the whole as text."""
    return {
        "events": found.events,
        "reasons": list(found.reasons),
        "conditions": [
            {
                "text": guard.text,
                "events": guard.events,
                "hits": guard.hits,
                "parts": [
                    {"text": part.text, "depth": part.depth, "true": part.true, "false": part.false}
                    for part in guard.predicates
                ],
            }
            for guard in found.guards
        ],
        "reach": {"done": found.reach.done, "total": found.reach.total, "path": found.reach.path},
        "clauses": [
            {"text": rung.clause, "positions": rung.positions, "matches": rung.matches, "all": rung.counted_all}
            for rung in found.rungs
        ],
        "claims": []
        if found.claims is None
        else [{"text": claim.text, "ruled_out": claim.ruled_out} for claim in found.claims.each],
        "text": str(found),
    }
