"""The papers' experiments, one file each, and our own.

Each file has a TITLE, `tasks` (what is to be measured) and `show` (the table or the figure of the paper, with what is
asked of ceql). `python -m bench --only NAME` runs one.
"""
