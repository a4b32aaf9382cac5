"""`python -m bench.peers.check [NAME ...]`: does every peer find what ceql finds?

Small random streams and patterns of all kinds; each peer that is available is asked, and the numbers of its matches and
of the events that complete them are compared. A peer that gives one match for each such event (`first_only`) is held
to that. With names, only the peers whose name contains one.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ceql
from bench.pattern import Group, Pattern, Step
from bench.peers.all import PEERS
from bench.peers.peer import Job, Peer, Run, Unavailable
from bench.workloads import stock


def letters(count: int, seed: int = 0) -> pa.Table:
    """Events A to E at random, each with a number x, a key k, and times that often repeat."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "type": pa.array(np.array(list("ABCDE"))[random.integers(0, 5, count)]),
            "x": random.integers(0, 10, count),
            "k": pa.array(np.array(["u", "v", "w"])[random.integers(0, 3, count)]),
            "time": pa.array(np.cumsum(random.integers(0, 3, count)) * 10, pa.timestamp("ms")),
        }
    )


def sequence(*types: str, plus: str = "") -> tuple[Step, ...]:
    """A step for each text of types, which are separated by |; those in `plus` are repeated."""
    return tuple(Step(tuple(each.split("|")), plus=each in plus.split()) for each in types)


A_B_C = sequence("A", "B", "C")
CHECKED = Step(("B",), (("x", ">", 2), ("x", "<=", 7)))
COMPARED = Step(("B",), against=(("x", ">", 0, "x", 2), ("x", "<=", 0, "x", 7)))
GROUP = (Step(("A",)), Group(sequence("B", "C")), Step(("D",)))

LETTERS: dict[str, Pattern] = {
    "A": Pattern(sequence("A"), 200, consume=False, limit=None),
    "A;B;C": Pattern(A_B_C, 200, consume=False, limit=None),
    "A;A;A": Pattern(sequence("A", "A", "A"), 200, consume=False, limit=None),
    "A;B;C, consumed": Pattern(A_B_C, 200, limit=None),
    "A;B;C, 3 each": Pattern(A_B_C, 200, consume=False, limit=3),
    "A;B;C, consumed, 3 each": Pattern(A_B_C, 200, limit=3),
    "A;B;C by k": Pattern(A_B_C, 400, "k", consume=False, limit=None),
    "A;B;C by k, consumed, 1000 each": Pattern(A_B_C, 400, "k"),
    "A;B[x];C": Pattern((Step(("A",)), CHECKED, Step(("C",))), 200, consume=False, limit=None),
    "A;B>A;C=A": Pattern(
        (Step(("A",)), COMPARED, Step(("C",), against=(("x", "=", 0, "x", -1),))), 300, consume=False, limit=None
    ),
    "A;B+;C": Pattern(sequence("A", "B", "C", plus="B"), 200, consume=False, limit=None),
    "A+;B, 5 each": Pattern(sequence("A", "B", plus="A"), 200, consume=False, limit=5),
    "A;B+": Pattern(sequence("A", "B", plus="B"), 100, consume=False, limit=None),
    "A;(B;C)+;D": Pattern(GROUP, 300, consume=False, limit=None),
    "A;(B;C)+;D, consumed": Pattern(GROUP, 300),
    "A|B;C;D|E": Pattern(sequence("A|B", "C", "D|E"), 100, consume=False, limit=None),
    "(A|B)+;C, consumed": Pattern(sequence("A|B", "C", plus="A|B"), 300),
    "A;B;C, no window, consumed": Pattern(A_B_C),
    "A;B, no window": Pattern(sequence("A", "B"), consume=False, limit=None),
    "A;B;C then never": Pattern(A_B_C, 200).prime(),
}
STOCK: dict[str, Pattern] = {
    "P3": stock.pattern(3),
    "P3, all": replace(stock.pattern(3), consume=False, limit=None),
    "P3 then never": stock.pattern(3, never=True),
}
STREAMS = (("letters", letters(300), LETTERS), ("stock", stock.events(20_000), STOCK))


def expected(table: pa.Table, pattern: Pattern) -> tuple[int, int]:
    """Matches and triggers as ceql has them."""
    found = ceql.compile(pattern.ceql()).run(table).to_arrow()
    return found.num_rows, pc.count_distinct(found["end"]).as_py()


def verdict(peer: Peer, pattern: Pattern, run: Run, events: int, matches: int, triggers: int) -> str:
    """Empty if all is well."""
    if run.error:
        return run.error
    if run.events != events:
        return f"DIFFERS: {run.events:,} events read"
    if peer.first_only and pattern.consume:
        matches = triggers
    if (run.matches, run.triggers) != (matches, triggers):
        return f"DIFFERS: {matches:,} matches and {triggers:,} triggers expected"
    return ""


def main(names: list[str]) -> int:
    wrong = 0
    peers = [peer() for peer in PEERS if not names or any(name.lower() in peer.name.lower() for name in names)]
    with tempfile.TemporaryDirectory() as folder:
        for peer in peers:
            try:
                print(f"\n{peer.name}: {peer.prepare()}")
            except Unavailable as error:
                print(f"\n{peer.name} is left out: {error}")
                continue
            for stream, table, patterns in STREAMS:
                file = Path(folder) / f"{stream}.arrow"
                if not file.exists():
                    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                        writer.write_table(table)
                for name, pattern in patterns.items():
                    run = peer.ask(Job(str(file), pattern, runs=1, seconds=30.0))[0]
                    said = verdict(peer, pattern, run, table.num_rows, *expected(table, pattern))
                    wrong += bool(said) and said != peer.refuses(pattern)
                    line = f"  {stream:<8} {name:<32} {run.matches:>9,} {run.triggers:>7,}  {said or 'same'}"
                    print(line, flush=True)
    print(f"\n{wrong} differ" if wrong else "\nall the same")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
