"""The three data sets of core-vldb2022, section 5."""

from __future__ import annotations

from types import ModuleType

from bench.workloads import homes, stock, taxi

DATA: dict[str, ModuleType] = {"stock market": stock, "smart homes": homes, "taxi trips": taxi}
WINDOWS = {"stock market": 10_000, "smart homes": 10_000, "taxi trips": 9_720_000}  # milliseconds, the papers' T
