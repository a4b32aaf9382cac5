"""`python -m bench [quick | full | docs]`: what `make bench`, `bench-full` and `bench-docs` call.

A run writes to bench/results/<date>. If it is broken off, the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import sys

import pyarrow as pa

from bench.peers.all import PEERS
from bench.peers.peer import Peer, Unavailable
from bench.peers.worker import at_most
from bench.run import EXPERIMENTS, QUICK, publish, run
from bench.settings import Settings

MEMORY = 12.0  # gigabytes: what wants more fails, and the others go on
# what needs nothing installed
AT_HAND = ("ceql", "partial matches", "DuckDB", "DuckDB, buckets", "polars", "polars, buckets", "by hand")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", choices=["quick", "full", "docs"])
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, metavar="EXPERIMENT", help=", ".join(EXPERIMENTS))
    parser.add_argument("--events", type=int, help="length of the large streams (a million; quick: half)")
    parser.add_argument("--seconds", type=float, help="what a run of a peer may take (1, full: 2; the paper's: 30)")
    names = [peer.name for peer in PEERS]
    parser.add_argument("--peers", nargs="+", choices=names, metavar="PEER", help=f"these only: {', '.join(names)}")
    parser.add_argument("--again", action="store_true", help="begin anew")
    given = parser.parse_args()
    pa.set_cpu_count(1)
    at_most(MEMORY)
    if given.what == "docs":
        return publish(given.only or ())
    quick = given.what == "quick"
    seconds = given.seconds or (1.0 if quick else 2.0)
    wanted = given.peers or (AT_HAND if quick else [peer.name for peer in PEERS])
    peers, versions = _prepared([peer() for peer in PEERS if peer.name in wanted])
    settings = Settings(quick, given.events or (500_000 if quick else 1_000_000), seconds, peers=tuple(peers))
    return run(settings, versions, given.only or (QUICK if quick else EXPERIMENTS), given.again)


def _prepared(peers: list[Peer]) -> tuple[list[Peer], dict[str, str]]:
    """Those that are there, and the versions of all, or why they are not there."""
    able, versions = [], {}
    for peer in peers:
        print(f"preparing {peer.name} ... ", end="", flush=True)
        try:
            versions[peer.name] = peer.prepare()
            able.append(peer)
        except Unavailable as reason:
            versions[peer.name] = f"left out: {reason}"
        print(versions[peer.name])
    return able, versions


if __name__ == "__main__":
    sys.exit(main())
