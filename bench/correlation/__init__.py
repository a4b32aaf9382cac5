"""Queries that compare events with each other: what they cost, one file for each question."""

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read when polars is imported
