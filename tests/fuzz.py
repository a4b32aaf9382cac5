"""Many random cases against the oracle: `make fuzz`, or `python tests/fuzz.py [cases] [processes] [seed]`.

The suite runs a few hundred; this runs as many as wanted, in several processes, and prints the cases that differ. Each
random query runs over a random stream on every execution path, then over shuffles of that stream as a whole and
counted: four cases for each query. With `--correlated`, the queries compare events with each other.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

CHUNK = 2_000  # cases
SHUFFLES = 3
WAYS = ("plain", "tiny", "plain", "streams", "plain")


class Job(NamedTuple):
    seed: int
    cases: int
    way: str
    correlated: bool


def run_chunk(job: Job) -> str | None:
    """Run the cases of one seed; what went wrong, if anything did."""
    import traceback

    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    import generators
    from checks import check_case, check_tiny_case, check_whole, suppress_falling_attributes, use_tiny_buffers

    number, cases, way, correlated = job
    generate = generators.correlated_cases if correlated else generators.uncorrelated_cases
    check = check_case
    if way == "tiny":
        use_tiny_buffers()
        check = check_tiny_case

    @seed(number)
    @settings(
        max_examples=cases // (1 + SHUFFLES),
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(generate(named=way == "streams"), st.data())
    def body(case: generators.Generated, data: st.DataObject) -> None:
        check(case, data)
        random = data.draw(st.randoms(use_true_random=False))
        for _ in range(SHUFFLES):
            times = [event["time"] for event in case.events]
            shuffled = random.sample(case.events, len(case.events))
            events = [{**event, "time": time} for event, time in zip(shuffled, times, strict=True)]
            with suppress_falling_attributes(way == "tiny", case):
                check_whole(case._replace(events=events))

    try:
        body()
    except BaseException:
        return f"seed {number}, {way}:\n{traceback.format_exc()}"
    return None


def main() -> int:
    numbers = [int(word) for word in sys.argv[1:] if word != "--correlated"]
    correlated = "--correlated" in sys.argv
    cases = numbers[0] if len(numbers) > 0 else 100_000
    processes = numbers[1] if len(numbers) > 1 else os.cpu_count() or 1
    first = numbers[2] if len(numbers) > 2 else int(time.time())
    jobs = [Job(first + k, CHUNK, WAYS[k % len(WAYS)], correlated) for k in range(-(-cases // CHUNK))]
    begun, done, wrong = time.time(), 0, 0
    spawn = multiprocessing.get_context("spawn")
    # an executor, unlike a pool, says so when a process dies
    with ProcessPoolExecutor(processes, mp_context=spawn, max_tasks_per_child=1) as pool:
        for job in as_completed([pool.submit(run_chunk, job) for job in jobs]):
            problem = job.result()
            done += CHUNK
            if problem is not None:
                wrong += 1
                print(problem, flush=True)
            print(f"{done:,} cases, {wrong} chunks with a difference, {time.time() - begun:.0f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
