"""The self-joins that one would write in SQL or with data frames for the same matches.

A sub-select for each step, joined on the key if there is one, with growing positions and inside the window. They have
all events before them: no stream, and nothing that an earlier match changes. One thread each.

With buckets, time is cut into pieces as long as the window, and the piece is a further key: so only neighbours in time
meet. The first event of a match is in its own piece, each other event in its own and in the one before.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

from bench.pattern import Pattern
from bench.peers.peer import Peer, Unavailable


class _Join(Peer):
    """An engine of `bench.peers.joins_worker`."""

    package: ClassVar[str]
    buckets: ClassVar[bool] = False

    def prepare(self) -> str:
        try:
            return f"{self.name} {version(self.package)}"
        except PackageNotFoundError:
            raise Unavailable(f"the package {self.package} is not installed") from None

    def refuses(self, pattern: Pattern) -> str:
        if pattern.strategy != "ALL":
            return "a join finds all matches"
        if not pattern.is_sequence:
            return "a join has a fixed number of events"
        if pattern.consume:
            return "a join cannot consume"
        if pattern.limit is not None:
            return "a join has no limit for each last event"
        if self.buckets and pattern.window is None:
            return "without a window there are no buckets"
        return ""

    def command(self, job: Path) -> list[str]:
        engine = self.package + (", buckets" if self.buckets else "")
        return [sys.executable, "-m", "bench.peers.joins_worker", engine, str(job)]


class DuckDB(_Join):
    name = "DuckDB"
    package = "duckdb"


class DuckDBBuckets(DuckDB):
    name = "DuckDB, buckets"
    buckets = True


class Polars(_Join):
    name = "polars"
    package = "polars"

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "POLARS_MAX_THREADS": "1"}


class PolarsBuckets(Polars):
    name = "polars, buckets"
    buckets = True


class SparkSQL(_Join):
    name = "Spark SQL"
    package = "pyspark"
