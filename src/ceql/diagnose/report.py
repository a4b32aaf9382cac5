"""A diagnosis as text: first the reasons in a few sentences, then the numbers behind them."""

from __future__ import annotations

from collections.abc import Iterator

from ceql.diagnose.findings import Claims, Diagnosis, GuardFinding, Reach, Rung, Tally, TimeFinding, Wait
from ceql.diagnose.timing import spelled
from ceql.explain.text import number, pairs, section, table, wrapped


def report(d: Diagnosis) -> str:
    """The whole text."""
    parts = [
        section("Diagnosis", [*wrapped(_verdict(d)), *(line for r in d.reasons for line in wrapped(r, "- ", "  "))]),
        section("Events", _events(d)),
        section("Conditions (of the events of each type)", _conditions(d)),
        section("How far it got", _progress(d)),
        section("What each clause leaves", _rungs(d)),
    ]
    absent = _attributes(d)
    if absent:
        parts.insert(3, section("Attributes", absent))
    if d.claims is not None:
        parts.append(section("What each condition across events leaves", _claims(d.claims)))
    if d.notes:
        parts.append(section("Notes", [line for note in d.notes for line in wrapped(note, "- ", "  ")]))
    return "\n\n".join(parts) + "\n"


def _verdict(d: Diagnosis) -> str:
    found = d.rungs[-1]
    if not d.positions:
        looked = "" if found.all_positions else ", as far as they were looked at"
        return f"No match in {number(d.events, 'event')}{looked}."
    more = "" if found.all_positions else "more than "
    where = f"at {more}{number(found.positions, 'position')} of {d.events:,}"
    return f"{_matches(found)} matches, ending {where}." if found.matches != 1 else f"1 match, ending {where}."


def _matches(rung: Rung | Tally) -> str:
    if rung.matches is None:
        return "?"
    return f"{rung.matches:,}" if rung.counted_all else f"> {rung.matches:,}"


def _positions(rung: Rung | Tally) -> str:
    return f"{rung.positions:,}" if rung.all_positions else f"> {rung.positions:,}"


def _events(d: Diagnosis) -> list[str]:
    lines = [f"{number(d.events, 'event')} read" + (f", {number(d.late, 'event')} too late" if d.late else "")]
    if d.times is not None:
        lines += wrapped(_when(d.times))
    if d.types:
        rows = [[s.name, f"{s.events:,}", "yes" if s.named else "no"] for s in d.types]
        lines += table(["type", "events", "named by the query"], rows, right=(1,))
    if d.more_types:
        lines.append(f"… and {number(d.more_types, 'type')} that the query does not name")
    if d.untyped:
        lines.append(f"{number(d.untyped, 'event')} without a type (NULL)")
    for missing in d.missing_types:
        hint = f" (did you mean '{missing.suggestion}'?)" if missing.suggestion else ""
        lines += wrapped(f"never came: '{missing.name}'{hint}")
    if d.keys is not None:
        by = "what conditions across events compare" if d.keys.split else "PARTITION BY"
        lines.append(f"{number(d.keys.substreams, 'substream')} by {by}")
        if d.keys.dropped:
            lines += wrapped(
                f"{number(d.keys.dropped, 'event')} in none, for want of a key (NULL), "
                f"{d.keys.dropped_relevant:,} of them of use to the formula"
            )
    return lines


def _when(times: TimeFinding) -> str:
    text = f"from {times.first} to {times.last}" if times.first != times.last else f"all at {times.first}"
    if times.seconds:
        text += f": {spelled(times.seconds)}"
    return text + (f", {times.rate}" if times.rate else "")


def _conditions(d: Diagnosis) -> list[str]:
    rows = [row for k, guard in enumerate(d.guards, 1) for row in _guard_rows(k, guard)]
    if not rows:
        return ["none"]
    return table(["", "condition", "events", "true", "false", "unknown"], rows, right=(2, 3, 4, 5))


def _guard_rows(k: int, guard: GuardFinding) -> Iterator[list[str]]:
    yield [f"g{k}", _short(guard.text), f"{guard.events:,}", f"{guard.hits:,}", "", ""]
    if len(guard.predicates) > 1 or any(p.unknown or p.false for p in guard.predicates):
        for p in guard.predicates:
            yield ["", _short("  " * (1 + p.depth) + p.text), "", f"{p.true:,}", f"{p.false:,}", f"{p.unknown:,}"]


def _short(text: str, room: int = 48) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _attributes(d: Diagnosis) -> list[str]:
    rows = []
    for a in d.attributes:
        if not a.present:
            hint = f" (did you mean '{a.suggestion}'?)" if a.suggestion else ""
            rows.append((a.name, f"no event has it{hint}"))
        elif a.values < d.events:
            rows.append((a.name, f"NULL in {number(d.events - a.values, 'event')} of {d.events:,}"))
    return pairs(rows)


def _progress(d: Diagnosis) -> list[str]:
    lines = _reach(d.reach, d)
    if d.reach_in_window is not None and d.reach_in_window.done < d.reach.done:
        lines.append("With the window, no further than:")
        lines += _reach(d.reach_in_window, d, window=True)
    if d.length is not None:
        what = "the shortest match without the window" if d.length.complete else "the shortest run that got so far"
        lines += wrapped(f"{what} takes {d.length.shortest}; the window is {d.length.window}")
    return lines


def _reach(reach: Reach, d: Diagnosis, window: bool = False) -> list[str]:
    own = "  " if window else ""
    if reach.total == 0:
        return [f"{own}there is no way to a match"]
    steps = number(reach.total, "step")
    if reach.first is None:
        lines = [f"{own}0 of {steps}: no event could be the first of a match"]
    else:
        lines = wrapped(f"{reach.done} of {steps}: reached after {reach.path}", own, f"{own}  ")
        where = f"{number(reach.times, 'time')}, first at {reach.first}; last at {reach.last}"
        lines += wrapped(where, f"{own}  ", f"{own}    ")
    if reach.complete:
        return lines
    for wait in reach.waits:
        came = f"{number(wait.hits, 'event')} of this kind came"
        if reach.first is not None and wait.hits:
            came += ", but none after that" if not wait.after else _missed(wait, window, d)
        asked = f"{wait.text} with {wait.compared}" if wait.compared else wait.text
        said = f"waiting for {asked}: {came if wait.hits else 'no event of this kind came'}"
        lines += wrapped(said, f"{own}  ", f"{own}    ")
    return lines


def _missed(wait: Wait, window: bool, d: Diagnosis) -> str:
    where = " in the same substream" if d.keys is not None else ""
    if wait.compared:
        nulls = f"; {wait.nulls:,} had no value (NULL)" if wait.nulls else ""
        at_once = " as the very next event" if wait.immediately else ""
        return f", but none with that{at_once}{' in time' * window}{nulls}"
    if wait.immediately:
        return ", but never as the very next event"
    if window:
        return f", but not in time{where}"
    return f", but not{where}" if where else ""


def _claims(claims: Claims) -> list[str]:
    def row(name: str, tally: Tally) -> list[str]:
        return [_short(name, 60), _positions(tally), _matches(tally)]

    rows = [row("none of them", claims.none)]
    if len(claims.each) > 1:
        for c in claims.each:
            rows += [row(f"{c.text}, alone", c.alone), row(f"all but {c.text}", c.without)]
    rows.append(row("all of them" if len(claims.each) > 1 else claims.each[0].text, claims.all))
    lines = table(["asked", "positions with matches", "matches"], rows, right=(1, 2))
    for c in claims.each:
        ruled_out = "" if c.ruled_out is None else f"; it ruled out {number(c.ruled_out, 'group')}"
        lines += wrapped(f"{c.text}: {c.how}{ruled_out}", "", "  ")
    if claims.hardest is not None:
        where = "" if claims.followed is None else f", in the first {claims.followed:,} events"
        said = f"of {number(claims.groups, 'group')} of partial matches that events met{where}"
        lines += wrapped(f"{said}, '{claims.hardest.text}' ruled out the most", "", "  ")
    if claims.events is not None:
        lines.append(f"in the first {claims.events:,} events")
    return lines


def _rungs(d: Diagnosis) -> list[str]:
    rows = [[_short(r.clause, 60), _positions(r), _matches(r)] for r in d.rungs]
    lines = table(["up to", "positions with matches", "matches"], rows, right=(1, 2))
    if any(not r.counted_all and r.matches is not None for r in d.rungs):
        lines.append("> counting stopped there")
    return lines
