"""Finds on the graph which of the matches that end at a position NEXT, LAST and MAX keep.

A match is a way through the graph, from a complete run to a start; its steps lead from a product to one right before
it. Each strategy has a file that gives up steps which lead to no match that is kept. What is left are the ways to
follow (`follow.py`): few, where the matches of a position may be more than anyone can list.
"""
