"""Queries to begin with, over the sample payments of the demonstration."""

from __future__ import annotations

from typing import NamedTuple

from ceql.cli.demo.show import MAXIMAL, SEQUENCE


class Example(NamedTuple):
    """A query that the page offers."""

    id: str
    title: str
    text: str


_MEASURED = """\
SELECT MAX COUNT(try) AS tries, SUM(try.amount) AS tried, cash.amount AS drawn, cash.country, DURATION
WHERE Payment+ AS try ; Withdrawal AS cash
FILTER try[amount < 2] AND cash[amount >= 500 AND country != 'CL']
PARTITION BY card
WITHIN 10 MINUTES"""

_ABROAD = """\
SELECT *
WHERE Payment AS home ; Payment AS abroad
FILTER home[country = 'CL'] AND abroad[country != 'CL'] AND abroad.amount > 20 * home.amount
PARTITION BY card
WITHIN 30 MINUTES"""

EXAMPLES = (
    Example("fraud", "Stolen cards: tiny payments, then cash abroad", SEQUENCE),
    Example("maximal", "All the tiny payments before the cash", MAXIMAL),
    Example("measures", "The same, with counts and sums", _MEASURED),
    Example("abroad", "A payment abroad, twenty times the one at home", _ABROAD),
)
