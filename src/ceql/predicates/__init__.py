"""Columns to symbols: which guards an event satisfies, as one small integer."""
