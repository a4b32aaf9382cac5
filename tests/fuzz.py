"""A search for cases on which the engine and the oracle differ: `make fuzz SECONDS=600 FUZZ="--kind rules --seed 5"`.

Random queries run over random streams on every execution path, until the time is up. Other kinds of cases attack: by
texts, rules, columns of any type, Arrow arrays that lie, files, snapshots and command lines (`hostile_*.py`).
Each process takes one kind of case and one seed at a time. A case that fails is shrunk and printed as an entry for
`tests/corpus`, or by the number that makes it again; the exit code is then 1. In the end comes what the generators
cover: of each kind, how many cases had a match or were taken, and the constructs of the language that came up.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import random
import secrets
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException, StopTest

import ceql
import checks
import constructs
import generators
import hand_made
import hostile_commands
import hostile_data
import hostile_texts
import row_pattern_cases
import row_pattern_checks
import rule_oracle
from absent_cases import absent_cases, later_cases
from ceql.syntax.printer import print_query
from corpus_entry import as_toml
from free_cases import free_cases
from neighbour_cases import neighbour_cases
from next_cases import next_cases, preferred_cases
from totals_checks import check_totals

warnings.simplefilter("ignore", ceql.NoMatchWarning)  # random queries are often in vain
warnings.filterwarnings("ignore", "NOT at the beginning looks back")  # and know what it means
warnings.filterwarnings("ignore", "AFTER MATCH prefers")
CHUNK = 400  # cases of one seed
SHUFFLES = 3  # of each case's stream: what is dear is to make a case
MANY = 24  # where that is done on one path alone, and some are counted


def check_shuffles(case: generators.Generated, data: st.DataObject) -> bool:
    """The case on every path, then its query over shuffles of its stream, as a whole and counted."""
    return bool(checks.check_case(case, data)) | shuffled(case, data, SHUFFLES)


def check_whole(case: generators.Generated, data: st.DataObject) -> bool:
    """The case and many shuffles of its stream, as a whole and counted."""
    return bool(checks.check_whole(case)[2]) | shuffled(case, data, MANY)


def shuffled(case: generators.Generated, data: st.DataObject, times: int) -> bool:
    """Check shuffles of a case's stream; whether one had a match."""
    query = ceql.compile(print_query(case.query))
    matched = False
    for k, other in enumerate(shuffles(case, data, times)):
        matched |= bool(checks.check_whole(other, query, counted=times < MANY or k % 4 == 0)[2])
    return matched


def shuffles(case: generators.Generated, data: st.DataObject, times: int) -> Iterator[generators.Generated]:
    """The case over other streams: its events in any order, some of them more than once, and others not at all."""
    at = [event["time"] for event in case.events]
    draw = random.Random(data.draw(st.integers(0, 2**32), label="shuffles"))  # one draw, since draws are dear
    for k in range(times if at else 0):
        drawn = draw.choices(case.events, k=len(at)) if k % 3 == 2 else draw.sample(case.events, len(at))
        other = case._replace(events=[{**event, "time": time} for event, time in zip(drawn, at, strict=True)])
        note(other, further=True)
        yield other


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


def check_preferred(case: generators.Generated, data: st.DataObject) -> bool:
    """The case on every path, then its query over many other streams, as a whole and counted."""
    case, query = checks.with_skip(case, data)
    if query is None:
        return False
    note(case)
    matched = bool(checks.check_skipping(case, data, query))
    for k, other in enumerate(shuffles(case, data, MANY)):
        matched |= bool(checks.check_skipping(other, None, query, counted=k % 4 == 0))
    return matched


def check_row_pattern(case: row_pattern_cases.Case, data: st.DataObject) -> bool:
    return row_pattern_checks.check(case)


UNARY, CORRELATED, CONDITIONED = (
    generators.uncorrelated_cases, generators.correlated_cases, generators.conditioned_cases,
)  # fmt: skip


NEXT = st.one_of(
    *(next_cases(cases)() for cases in (UNARY, CORRELATED, CONDITIONED, generators.aggregated_cases, absent_cases)),
    *(next_cases(cases)(True) for cases in (UNARY, CONDITIONED)),
)
PREFERRED = st.one_of(
    preferred_cases(UNARY)(),
    preferred_cases(UNARY)(True),
    preferred_cases(absent_cases)(),
    preferred_cases(absent_cases)(False, True, True),
    preferred_cases(neighbour_cases)(),
    preferred_cases(CORRELATED)(),
    preferred_cases(CONDITIONED)(),
    preferred_cases(CONDITIONED)(True),
    preferred_cases(generators.aggregated_cases)(),
)


class Text(NamedTuple):
    """A text that may be no query, and events for it."""

    text: str
    events: list[dict[str, Any]]


def check_text(case: Text, data: st.DataObject) -> bool:
    query = hostile_texts.query(case.text, case.events)
    if query is not None:
        seen.update(constructs.of(query))
    return query is not None


@st.composite
def texts(draw: st.DrawFn) -> Text:
    case = draw(UNARY() | CORRELATED() | CONDITIONED() | generators.aggregated_cases() | absent_cases())
    dice = draw(st.randoms(use_true_random=False))
    return Text(hostile_texts.changed(print_query(case.query), dice), case.events)


class Attack(NamedTuple):
    """What is done with dice of this number."""

    number: int


def attacking(attack: Callable[[random.Random], bool]) -> Kind:
    """A kind of cases that are made again from their number; there is nothing to shrink."""
    return Kind(
        st.builds(Attack, st.integers(0, 2**63)),
        lambda case, data: attack(random.Random(case.number)),
        phases=(Phase.generate,),
        told="taken",
    )


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
    phases: tuple[Phase, ...] = (Phase.generate, Phase.shrink)
    told: str = "with a match"


def _choose_unsplit() -> None:
    checks.choose_on_graph()
    checks.use_no_substreams()


KINDS = {
    "unary": Kind(UNARY()),
    "correlated": Kind(CORRELATED()),
    "conditioned": Kind(CONDITIONED()),
    "correlated-whole": Kind(CORRELATED(), check_whole),
    "conditioned-whole": Kind(CONDITIONED(), check_whole),
    "aggregated": Kind(generators.aggregated_cases() | generators.aggregated_cases(named=True)),
    "absent": Kind(absent_cases() | absent_cases(named=True)),
    "absent-tiny": Kind(absent_cases() | later_cases(), check_tiny, checks.use_tiny_buffers),
    "waiting": Kind(absent_cases(waits=True) | absent_cases(named=True, waits=True)),
    "later": Kind(later_cases()),
    "preferred": Kind(PREFERRED, check_preferred),
    "preferred-tiny": Kind(PREFERRED, check_preferred, checks.use_tiny_buffers),
    "free": Kind(free_cases() | free_cases(named=True)),
    "free-tiny": Kind(free_cases(), check_tiny, checks.use_tiny_buffers),
    "neighbours": Kind(neighbour_cases() | neighbour_cases(named=True)),
    "neighbours-tiny": Kind(neighbour_cases(), check_tiny, checks.use_tiny_buffers),
    "next": Kind(NEXT),
    "next-whole": Kind(NEXT, check_whole),
    "next-tiny": Kind(NEXT, check_tiny, checks.use_tiny_buffers),
    "next-unsplit": Kind(NEXT, check_whole, prepare=checks.use_no_substreams),
    "chosen": Kind(generators.chosen_cases(), prepare=checks.choose_on_graph),
    "chosen-whole": Kind(generators.chosen_cases(), check_whole, checks.choose_on_graph),
    "chosen-unsplit": Kind(generators.chosen_cases(), prepare=_choose_unsplit),
    "rules": Kind(rule_oracle.rule_cases(), check_rule),
    "streams": Kind(UNARY(named=True) | CORRELATED(named=True) | CONDITIONED(named=True)),
    "unary-tiny": Kind(UNARY(), check_tiny, checks.use_tiny_buffers),
    "correlated-tiny": Kind(CORRELATED(), check_tiny, checks.use_tiny_buffers),
    "correlated-unsplit": Kind(CORRELATED(), prepare=checks.use_no_substreams),
    "conditioned-tiny": Kind(CONDITIONED(), check_tiny, checks.use_tiny_buffers),
    "conditioned-unsplit": Kind(CONDITIONED(), prepare=checks.use_no_substreams),
    "aggregated-tiny": Kind(generators.aggregated_cases(), check_tiny, checks.use_tiny_buffers),
    "totals": Kind(
        UNARY() | CORRELATED() | CONDITIONED() | generators.aggregated_cases() | absent_cases() | free_cases(),
        check_added,
    ),
    "totals-tiny": Kind(UNARY() | CORRELATED() | CONDITIONED(), check_added, checks.use_tiny_buffers),
    "texts": Kind(texts(), check_text, told="valid"),
    "changed-rules": attacking(hostile_texts.rule),
    "commands": attacking(hostile_commands.command),
    "schemas": attacking(hostile_data.schemas),
    "arrays": attacking(hostile_data.arrays),
    "files": attacking(hostile_data.files),
    "snapshots": attacking(hostile_data.snapshots),
    "row-patterns": Kind(
        st.builds(row_pattern_cases.draw_case, st.integers(0, 2**60).map(random.Random), st.booleans()),
        check_row_pattern,
        told="run",
    ),
    "buckets": Kind(
        UNARY() | CORRELATED() | CONDITIONED() | generators.aggregated_cases() | free_cases() | neighbour_cases(),
        check_bucket,
    ),
}


class TimeIsUp(KeyboardInterrupt):
    """An interrupt, since Hypothesis lets one pass at once."""


class Found(NamedTuple):
    kind: str
    cases: int
    others: int
    matched: int
    report: str | None
    constructs: Counter[str]


latest: Any = None  # the case that is being checked
others = 0  # further streams that queries were checked over
seen: Counter[str] = Counter()  # how many queries had each construct


def note(case: Any, further: bool = False) -> None:
    global latest, others
    others += further
    latest = case


def search(kind: str, number: int, until: float) -> Found:
    """Check the cases of one seed, or as many of them as there is time for."""
    done, matched, failed = 0, 0, False
    cases, check, prepare, phases, _ = KINDS[kind]
    prepare()
    faulthandler.enable()

    @seed(number)
    @settings(
        max_examples=CHUNK,
        deadline=None,
        database=None,
        phases=phases,
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
        if isinstance(case, generators.Generated):
            seen.update(constructs.of(case.query))
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
        shown = repr(latest) if isinstance(latest, Text | Attack | row_pattern_cases.Case) else as_toml(latest)
        report = f"{traceback.format_exc()}\n{shown}\n# again: {again}\n"
    return Found(kind, done, others, matched, report, seen)


def new_pool(processes: int) -> ProcessPoolExecutor:
    """A process for each seed: some kinds change how the package works."""
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=spawn, max_tasks_per_child=1)


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
    others: Counter[str] = Counter()
    matched: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    wrong = 0
    running: dict[Future[Found], tuple[str, int]] = {}
    pool = new_pool(given.processes)
    while running or time.time() < until:
        while len(running) < given.processes and time.time() < until:
            number = next(numbers)
            kind = kinds[(number - given.seed) % len(kinds)]
            running[pool.submit(search, kind, number, until)] = kind, number
        ended, _ = wait(running, return_when=FIRST_COMPLETED)
        for job in ended:
            kind, number = running.pop(job)
            try:
                found = job.result()
            except BrokenProcessPool:  # all that ran then are told
                wrong += 1
                print(f"A process died. Perhaps it was this one: --kind {kind} --seed {number}", flush=True)
                continue
            cases[found.kind] += found.cases
            others[found.kind] += found.others
            matched[found.kind] += found.matched
            covered += found.constructs
            if found.report is not None:
                wrong += 1
                print(found.report, flush=True)
        if not running:
            pool.shutdown()
            pool = new_pool(given.processes)
        told = f"{cases.total():,} cases, {others.total():,} streams more, {wrong} seeds with a difference"
        print(f"{time.time() - begun:.0f} s, {told}", flush=True)
    pool.shutdown()
    for kind in filter(cases.get, kinds):
        more = f" and {others[kind]:,} streams more" if others[kind] else ""
        print(f"{kind}: {cases[kind]:,} cases{more}, {matched[kind] / cases[kind]:.0%} {KINDS[kind].told}")
    missing = sorted(constructs.EVERY - covered.keys())
    print(f"{len(constructs.EVERY) - len(missing)} of {len(constructs.EVERY)} constructs came up")
    if missing:
        print(f"never: {', '.join(missing)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
