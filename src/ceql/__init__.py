"""Complex event recognition: CEQL queries over Arrow data, with constant work per event.

>>> import ceql
>>> events = [{"type": "A", "v": 1}, {"type": "B", "v": 2}, {"type": "B", "v": 3}]
>>> [m.events for m in ceql.match("SELECT * WHERE A ; B", events)]
[(0, 1), (0, 2)]
"""

from __future__ import annotations

import logging

from ceql.errors import (
    ArgumentError,
    CeqlError,
    DataError,
    LateEventsWarning,
    NoMatchWarning,
    QueryError,
    ResourceError,
    SchemaError,
)
from ceql.query import Query, compile, match, rule
from ceql.query_set import QuerySet, compile_all
from ceql.recognition.metrics import Metrics
from ceql.recognizer import Recognizer, SetRecognizer
from ceql.results.match import Match
from ceql.results.match_set import MatchSet
from ceql.results.matches import Matches
from ceql.results.suppression import Suppression
from ceql.row_patterns import from_match_recognize, match_recognize

__version__ = "0.1.0"


def load_ipython_extension(ipython: object) -> None:
    """What `%load_ext ceql` calls: adds the cell magic `%%ceql`."""
    from ceql.notebook import load

    load(ipython)


logging.getLogger("ceql").addHandler(logging.NullHandler())  # what is logged goes nowhere, unless the user says where

__all__ = [
    "ArgumentError",
    "CeqlError",
    "DataError",
    "LateEventsWarning",
    "Match",
    "MatchSet",
    "Matches",
    "Metrics",
    "NoMatchWarning",
    "Query",
    "QueryError",
    "QuerySet",
    "Recognizer",
    "ResourceError",
    "SchemaError",
    "SetRecognizer",
    "Suppression",
    "compile",
    "compile_all",
    "from_match_recognize",
    "match",
    "match_recognize",
    "rule",
]
