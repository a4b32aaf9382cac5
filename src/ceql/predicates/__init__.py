"""Columns to symbols and numbered values: which guards an event satisfies, as one small integer."""
