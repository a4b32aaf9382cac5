"""Says in sentences why there were no matches: what never came, what never held, what the clauses took away.

In: a diagnosis. Out: the reasons, the most telling first. Of clauses the one that took most away comes first, with what
it would take; the usual mistakes with events (units of time, keys, order) come last, where they are to be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ceql.diagnose.findings import Claims, Diagnosis, Reach, Rung
from ceql.explain.text import number


def reasons(d: Diagnosis) -> tuple[str, ...]:
    """What stood in the way of matches, the most telling first; empty when nothing did."""
    return tuple(_reasons(d))


def _reasons(d: Diagnosis) -> Iterator[str]:
    if d.events == 0:
        yield "There are no events." if not d.late else "There are no events but late ones."
    if d.reach.total == 0:
        prev = d.claims is not None and any("PREV." in c.text for c in d.claims.each)
        why = "PREV is compared at its first event, where it is NULL" if prev else "its conditions exclude each other"
        yield f"The formula can never match: {why}."
    if d.events:
        for missing in d.missing_types:
            hint = f" Did you mean '{missing.suggestion}'?" if missing.suggestion else ""
            if missing.stream and not hint:
                hint = " If the name of the stream is the type of its events, pass type=None."
            yield f"No event has the type '{missing.name}'.{hint}"
        for a in d.attributes:
            if not a.present:
                hint = f" Did you mean '{a.suggestion}'?" if a.suggestion else ""
                yield f"No event has the attribute '{a.name}'.{hint}"
            elif a.values == 0:
                yield f"The attribute '{a.name}' is NULL in every event."
    yield from _never_true(d)
    if d.keys is not None and d.keys.dropped_relevant and d.keys.substreams == 0:
        by = "A condition across events" if d.keys.split else "PARTITION BY"
        yield f"{by}: {number(d.keys.dropped, 'event')}, all of them, have no key (NULL) and take no part."
    if d.unforbidden is not None and d.unforbidden.positions and not d.positions:
        places = number(d.unforbidden.positions, "position")
        yield f"Without NOT, matches would end at {places}: an event that must not come is always there."
    where = d.rungs[0] if d.claims is None else d.rungs[1]
    if where.positions == 0 and d.reach.done > 0:
        yield from _stuck(d.reach, d)
    if where.positions:  # without the clauses after WHERE it would match: they come first
        yield from _blamed(d, None)
        yield from _failing(d.claims, _inside(d)) if d.claims is not None else ()
    else:
        across = list(_failing(d.claims)) if d.claims is not None else []
        yield from across
        yield from _blamed(d, where if across else None)
    if not d.positions:
        yield from _suspects(d)


def _blamed(d: Diagnosis, said: Rung | None) -> Iterator[str]:
    """The clause that left nothing, and those that took away more; the one that took most comes first."""
    taken = [pair for pair in pairwise(d.rungs) if pair[1].positions < pair[0].positions and pair[1] is not said]
    last = next(((below, rung) for below, rung in taken if not rung.positions and rung.all_positions), None)
    if last is None or d.positions:
        return
    gone = last[0].positions
    most = [(b, r) for b, r in taken if b.positions - r.positions > gone]
    for below, rung in sorted([*most, last], key=lambda pair: pair[1].positions - pair[0].positions):
        yield _taken(below, rung, d)


def _suspects(d: Diagnosis) -> Iterator[str]:
    """What is often wrong with events, if it is so here."""
    if d.times is not None and d.times.suspect:
        yield d.times.suspect
    elif d.length is not None and d.length.unit:
        unit = d.length.unit
        yield f"If the times are in '{unit}', the shortest match is within the window: pass time_unit='{unit}'."
    keyed = 0 if d.keys is None else d.events - d.keys.dropped
    if d.keys is not None and not d.keys.split and keyed >= 4 and 2 * d.keys.substreams > keyed:
        yield (
            f"The key is nearly unique: PARTITION BY makes {number(d.keys.substreams, 'substream')} of "
            f"{number(keyed, 'event')}. Use one that the events of a match share."
        )
    if d.late:
        needed = f"lateness={d.times.late} takes them in" if d.times is not None and d.times.late else "raise lateness="
        yield f"{number(d.late, 'event')} came too late and took no part: {needed}, and so does sorting the events."
    if d.other_times and d.events > 1:
        named = " or ".join(f"time='{name}'" for name in d.other_times[:3])
        yield f"No column of times was named, so events are taken as they come; to put them in order, pass {named}."


def _never_true(d: Diagnosis) -> Iterator[str]:
    for guard in d.guards:
        if guard.hits or not guard.events:
            continue
        never = [p for p in guard.predicates if p.depth == 0 and p.true == 0]
        for p in never:
            why = (
                "unknown (NULL)"
                if p.unknown == guard.events
                else "false"
                if not p.unknown
                else "false or unknown (NULL)"
            )
            whom = "the only event" if guard.events == 1 else f"all {guard.events:,} events"
            yield f"'{p.text}' is {why} for {whom} of this type, in '{guard.text}'."
        if not never:
            yield f"No event satisfies all of '{guard.text}' at once, though each condition holds for some."


def _stuck(reach: Reach, d: Diagnosis) -> Iterator[str]:
    for wait in reach.waits:
        if not wait.hits:
            continue  # said already, of the type or of the condition
        if not wait.after:
            yield f"After '{reach.path}' (first at {reach.first}) no '{wait.text}' came any more."
        elif wait.compared:
            at_once = " as the very next event" if wait.immediately else ""
            nulls = f"; {wait.nulls:,} had no value (NULL)" if wait.nulls else ""
            came = f"{number(wait.hits, 'event')} of this kind came{nulls}"
            yield f"After '{reach.path}' no '{wait.text}' with {wait.compared} came{at_once}: {came}."
        elif wait.immediately:
            yield f"After '{reach.path}' a '{wait.text}' never came as the very next event, as ':' asks for."


def _inside(d: Diagnosis) -> str:
    """Where a condition fails that holds without the clauses after WHERE."""
    last = next((rung.clause for below, rung in pairwise(d.rungs) if below.positions and not rung.positions), "")
    return {"PARTITION": " inside a substream", "WITHIN": " inside the window"}.get(last.split(" ")[0], "")


def _failing(claims: Claims, inside: str = "") -> Iterator[str]:
    """The conditions across events that leave no match where there would be some."""
    if claims.all.positions or not claims.none.positions or not claims.all.all_positions:
        return
    places = number(claims.none.positions, "position")
    never = [c for c in claims.each if not c.alone.positions and c.alone.all_positions]
    for c in never:
        yield f"'{c.text}' never holds{inside}: without conditions across events, matches would end at {places}."
    needed = [c for c in claims.each if c.without.positions and c not in never]
    for c in needed:
        yield f"Without '{c.text}', matches would end at {number(c.without.positions, 'position')}."
    if not never and not needed:
        yield (
            f"The conditions across events never hold together{inside}, though each holds for some; without them, "
            f"matches would end at {places}."
        )
        if claims.hardest is not None:
            ruled_out = f"{claims.hardest.ruled_out:,} of {number(claims.groups, 'group')} that events met"
            yield f"'{claims.hardest.text}' ruled out the most partial matches: {ruled_out}."


def _taken(below: Rung, rung: Rung, d: Diagnosis) -> str:
    places = number(below.positions, "position")
    if rung.positions:
        who = "The conditions across events leave" if rung.clause == "WHERE" else f"{rung.clause} leaves"
        return f"{who} {rung.positions:,} of {places} at which matches would end."
    if rung.clause == "WHERE":
        return f"Without the conditions across events, matches would end at {places}."
    if rung.clause.startswith("PARTITION"):
        return f"Without {rung.clause}, matches would end at {places}: no substream has a whole match of its own."
    if rung.clause.startswith("WITHIN"):
        needed = f"the shortest needs WITHIN {d.length.shortest}" if d.length is not None else "the window is too small"
        return f"Without {rung.clause}, matches would end at {places}: {needed}."
    if rung.clause == "STRICT":
        return f"Without STRICT, matches would end at {places}: other events always come in between."
    return f"{rung.clause} leaves none of the matches, which would end at {places}."
