"""A diagnosis as bars: how many events satisfy each condition, how far runs get, what each clause leaves."""

from __future__ import annotations

from typing import Any

from ceql.diagnose.findings import Diagnosis


def diagnosis(found: Diagnosis) -> dict[str, Any]:
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
