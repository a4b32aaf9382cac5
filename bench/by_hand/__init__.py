"""Twelve questions of analysts, and what an expert writes for each by hand in polars and in DuckDB."""
