"""The papers' experiments and ours: `make bench`, `make bench-full`, `make bench-check`; see docs/benchmarks.md."""

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read when polars is imported; everybody has one thread
