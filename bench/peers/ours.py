"""ceql itself, in the environment of the benchmark."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.pattern import Pattern
from bench.peers.peer import Peer


class Ceql(Peer):
    """Reads the whole table however long it takes: `seconds` is not looked at."""

    name = "ceql"

    def prepare(self) -> str:
        import ceql

        return f"ceql {ceql.__version__}"

    def refuses(self, pattern: Pattern) -> str:
        return ""

    def command(self, job: Path) -> list[str]:
        return [sys.executable, "-m", "bench.peers.ours_worker", str(job)]
