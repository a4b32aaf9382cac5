"""A search for cases on which the engine and the oracle differ: `make fuzz SECONDS=600 FUZZ="--kind rules --seed 5"`.

Random queries run over random streams on every execution path, until the time is up. Each process takes one kind
of case and one seed at a time. A case that fails is shrunk and printed as an entry for `tests/corpus`; the exit code
is then 1. In the end comes, for each kind, how many of its cases had a match: those without one say little.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import secrets
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException, StopTest

import ceql
import checks
import generators
import hand_made
import oracle
import rule_oracle
from absent_cases import absent_cases, later_cases
from ceql.plan import CorrelatedPlan
from ceql.syntax.parser import parse
from ceql.syntax.printer import print_query
from totals_checks import check_totals

warnings.simplefilter("ignore", ceql.NoMatchWarning)  # random queries are often in vain
CHUNK = 400  # cases of one seed
SHUFFLES = 3  # of each case's stream: what is dear is to compile a query


def check_shuffles(case: generators.Generated, data: st.DataObject) -> bool:
    """The case on every path, then its query over shuffles of its stream, as a whole and counted."""
    matched = bool(checks.check_case(case, data))
    times = [event["time"] for event in case.events]
    draw = data.draw(st.randoms(use_true_random=False), label="shuffles")
    for _ in range(SHUFFLES):
        events = [{**event, "time": at} for event, at in zip(draw.sample(case.events, len(times)), times, strict=True)]
        note(case._replace(events=events))
        checks.check_whole(case._replace(events=events))
    return matched


def check_tiny(case: generators.Generated, data: st.DataObject) -> bool:
    matched = False
    with checks.suppress_falling_attributes(True, case):
        matched = check_shuffles(case, data)
    return matched


def check_rule(case: rule_oracle.RuleCase, data: st.DataObject) -> bool:
    note(case)
    return bool(checks.check_rule(case, data))


def check_bucket(case: generators.Generated, data: st.DataObject) -> bool:
    return bool(hand_made.check(case, data.draw(st.randoms(use_true_random=False), label="shipping")))


def check_added(case: generators.Generated, data: st.DataObject) -> bool:
    matched = False
    with checks.suppress_falling_attributes(True, case):
        matched = check_totals(case, data)
    return matched


class Kind(NamedTuple):
    """What is drawn; what must hold, which tells whether there was a match; what the process needs before."""

    cases: st.SearchStrategy[Any]
    check: Callable[[Any, st.DataObject], bool] = check_shuffles
    prepare: Callable[[], None] = lambda: None


UNARY, CORRELATED, CONDITIONED = (
    generators.uncorrelated_cases, generators.correlated_cases, generators.conditioned_cases,
)  # fmt: skip
KINDS = {
    "unary": Kind(UNARY()),
    "correlated": Kind(CORRELATED()),
    "conditioned": Kind(CONDITIONED()),
    "aggregated": Kind(generators.aggregated_cases() | generators.aggregated_cases(named=True)),
    "absent": Kind(absent_cases() | absent_cases(named=True)),
    "absent-tiny": Kind(absent_cases() | later_cases(), check_tiny, checks.use_tiny_buffers),
    "later": Kind(later_cases()),
    "rules": Kind(rule_oracle.rule_cases(), check_rule),
    "streams": Kind(UNARY(named=True) | CORRELATED(named=True) | CONDITIONED(named=True)),
    "unary-tiny": Kind(UNARY(), check_tiny, checks.use_tiny_buffers),
    "correlated-tiny": Kind(CORRELATED(), check_tiny, checks.use_tiny_buffers),
    "correlated-unsplit": Kind(CORRELATED(), prepare=checks.use_no_substreams),
    "conditioned-tiny": Kind(CONDITIONED(), check_tiny, checks.use_tiny_buffers),
    "conditioned-unsplit": Kind(CONDITIONED(), prepare=checks.use_no_substreams),
    "aggregated-tiny": Kind(generators.aggregated_cases(), check_tiny, checks.use_tiny_buffers),
    "totals": Kind(
        UNARY() | CORRELATED() | CONDITIONED() | generators.aggregated_cases() | absent_cases(), check_added
    ),
    "totals-tiny": Kind(UNARY() | CORRELATED() | CONDITIONED(), check_added, checks.use_tiny_buffers),
    "buckets": Kind(UNARY() | CORRELATED() | CONDITIONED() | generators.aggregated_cases(), check_bucket),
}


class TimeIsUp(KeyboardInterrupt):
    """An interrupt, since Hypothesis lets one pass at once."""


class Found(NamedTuple):
    kind: str
    cases: int
    matched: int
    report: str | None


latest: Any = None  # the case that is being checked


def note(case: Any) -> None:
    global latest
    latest = case


def search(kind: str, number: int, until: float) -> Found:
    """Check the cases of one seed, or as many of them as there is time for."""
    done, matched, failed = 0, 0, False
    cases, check, prepare = KINDS[kind]
    prepare()

    @seed(number)
    @settings(
        max_examples=CHUNK,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases, st.data())
    def body(case: Any, data: st.DataObject) -> None:
        nonlocal done, matched, failed
        if time.time() > until and not failed:  # a failed one is shrunk whatever the time
            raise TimeIsUp
        done += 1
        note(case)
        try:
            matched += check(case, data)
        except (HypothesisException, StopTest):  # a draw that leads nowhere
            raise
        except BaseException:
            failed = True
            raise

    report = None
    try:
        body()
    except TimeIsUp:
        pass
    except Exception:  # the last one checked is the smallest
        again = f'make fuzz FUZZ="--kind {kind} --seed {number}"'
        report = f"{traceback.format_exc()}\n{as_toml(latest)}\n# again: {again}\n"
    return Found(kind, done, matched, report)


def as_toml(case: generators.Generated | rule_oracle.RuleCase) -> str:
    """The case as an entry of the corpus, with the matches that the oracle has.

    >>> case = generators.Generated(
    ...     ceql.compile("SELECT * WHERE A AS x ; B FILTER x[s = 'it']").plan.query,
    ...     [{"type": "A", "time": 0, "s": "it", "v": None}, {"type": "B", "time": 1, "f": float("nan")}],
    ... )
    >>> print(as_toml(case))
    [[case]]
    title = "..."
    query = "SELECT * WHERE A AS x ; B FILTER x[s = 'it']"
    events = [
      { type = "A", time = 0, s = "it" },
      { type = "B", time = 1, f = nan },
    ]
    matches = [
      { start = 0, end = 1, events = [0, 1], A = [0], B = [1], x = [0] },
    ]
    """
    lines = []
    if isinstance(case, rule_oracle.RuleCase):
        lines.append(f"# the rule {case.text}, attributes={case.attributes}, within={case.within!r}")
        case = generators.Generated(case.compile().plan.query, case.events)
    query, text = case.query, print_query(case.query)
    short = " ".join(text.split())
    lines += ["[[case]]", 'title = "..."', f"query = {value(short if parse(short) == query else text)}", "events = ["]
    lines += [f"  {table(event)}," for event in case.events]
    lines.append("]")
    if isinstance(ceql.compile(text).plan, CorrelatedPlan):
        lines.append("correlated = true")
    matches = oracle.matches(query, case.events)
    if oracle.at_most(query) != math.inf:
        return "\n".join([*lines, f"count = {len(matches)}"])
    shown = [{"start": m.start, "end": m.end, "events": m.events, **dict(sorted(m.bindings))} for m in matches]
    return "\n".join([*lines, "matches = [", *(f"  {table(match)}," for match in shown), "]"])


def table(row: dict[str, Any]) -> str:
    return f"{{ {', '.join(f'{name} = {value(v)}' for name, v in row.items() if v is not None)} }}"


def value(v: Any) -> str:
    match v:
        case str():
            return json.dumps(v, ensure_ascii=False)
        case tuple():
            return f"[{', '.join(map(value, v))}]"
        case bool():
            return str(v).lower()
        case _:
            return repr(v)  # also nan and inf


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kind", choices=KINDS, action="append", help="one of the kinds of cases; all of them in turn")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="a new one each time")
    given = parser.parse_args()
    kinds = given.kind or list(KINDS)
    print(f"{given.seconds:.0f} s from seed {given.seed}, {', '.join(kinds)}", flush=True)
    begun = time.time()
    until = begun + given.seconds
    numbers = count(given.seed)
    cases: Counter[str] = Counter()
    matched: Counter[str] = Counter()
    wrong = 0
    running: set[Future[Found]] = set()
    spawn = multiprocessing.get_context("spawn")
    # a process for each seed: some kinds change how the package works
    with ProcessPoolExecutor(given.processes, mp_context=spawn, max_tasks_per_child=1) as pool:
        while running or time.time() < until:
            while len(running) < given.processes and time.time() < until:
                number = next(numbers)
                running.add(pool.submit(search, kinds[(number - given.seed) % len(kinds)], number, until))
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for job in ended:
                found = job.result()
                cases[found.kind] += found.cases
                matched[found.kind] += found.matched
                if found.report is not None:
                    wrong += 1
                    print(found.report, flush=True)
            print(f"{time.time() - begun:.0f} s, {cases.total():,} cases, {wrong} seeds with a difference", flush=True)
    for kind in filter(cases.get, kinds):
        print(f"{kind}: {cases[kind]:,} cases, {matched[kind] / cases[kind]:.0%} with a match")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
