"""All peers, in the order of tables."""

from __future__ import annotations

from bench.peers.by_hand import ByHand
from bench.peers.flink import Flink
from bench.peers.joins import DuckDB, DuckDBBuckets, Polars, PolarsBuckets, SparkSQL
from bench.peers.naive import Naive
from bench.peers.ours import Ceql
from bench.peers.peer import Peer
from bench.peers.pycer import Pycer

PEERS: tuple[type[Peer], ...] = (
    Ceql,
    Pycer,
    Flink,
    Naive,
    DuckDB,
    DuckDBBuckets,
    Polars,
    PolarsBuckets,
    SparkSQL,
    ByHand,
)
