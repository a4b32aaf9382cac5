"""`python -m bench.workloads NAME COUNT OUT.parquet [--seed SEED]`: a workload's events as a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyarrow import parquet

from bench.workloads import flights, homes, letters, stock, taxi

WORKLOADS: dict[str, Callable[[int, int], pa.Table]] = {
    "stock": stock.events,
    "market": stock.market,
    "homes": homes.events,
    "taxi": taxi.events,
    "letters": lambda count, seed: letters.uniform(count, seed=seed),
    "letters-skewed": letters.skewed,
    "flights": lambda count, seed: flights.events().slice(0, count),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.workloads", description="Write a workload as Parquet.")
    parser.add_argument("name", choices=WORKLOADS, metavar="NAME", help=", ".join(WORKLOADS))
    parser.add_argument("count", type=_count, metavar="COUNT", help="how many events; of the flights, the first ones")
    parser.add_argument("out", metavar="OUT.parquet")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers; the flights are real and have none")
    given = parser.parse_args(arguments)
    try:
        table = WORKLOADS[given.name](given.count, given.seed)
    except ModuleNotFoundError as error:
        parser.error(str(error))
    parquet.write_table(table, given.out)
    print(f"{table.num_rows:,} events of {given.name} in {given.out}: {', '.join(table.column_names)}")
    return 0


def _count(text: str) -> int:
    count = int(text.replace("_", "").replace(",", ""))
    if count < 0:
        raise ValueError(text)
    return count


if __name__ == "__main__":
    raise SystemExit(main())
