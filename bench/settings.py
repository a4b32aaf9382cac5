"""What a run of the experiments is told: how much, how long, against whom."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pyarrow as pa

from bench.peers.peer import FOLDER, Peer


@dataclass(frozen=True)
class Settings:
    """`quick`: fewer points; `events`: the length of large streams; `seconds`: what a run of a peer may take."""

    quick: bool
    events: int = 1_000_000
    seconds: float = 2.0
    runs: int = 3
    peers: tuple[Peer, ...] = field(default=(), compare=False)

    def several(self, few: Sequence[float], all_: Sequence[float]) -> list[float]:
        """The points of an axis."""
        return list(few if self.quick else all_)


def event_file(make: Callable[..., pa.Table], *arguments: object) -> str:
    """What a workload makes, as an Arrow file that every peer reads; made once for each state of its source."""
    module = inspect.getmodule(make)
    assert module is not None
    source = hashlib.sha256(inspect.getsource(module).encode()).hexdigest()[:8]
    words = [module.__name__.split(".")[-1], make.__name__, *map(str, arguments), source]
    file = FOLDER / "events" / f"{'-'.join(words)}.arrow"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        table = make(*arguments)
        with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        part.rename(file)
    return str(file)


@cache
def read_events(file: str) -> pa.Table:
    """The table in a file of `event_file`."""
    with pa.memory_map(str(Path(file))) as source:
        return pa.ipc.open_file(source).read_all()
