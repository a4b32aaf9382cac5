"""The cell magic `%%ceql`: a cell with a query, over events that a name stands for.

    %load_ext ceql

    %%ceql payments --time paid_at -o frauds
    SELECT * WHERE Payment AS p ; Withdrawal AS w PARTITION BY card

The cell shows the matches with their timeline; `-o` keeps them under a name.
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser
from typing import Any, NoReturn

from ceql.errors import CeqlError
from ceql.query import match
from ceql.results.matches import Matches


class _Arguments(ArgumentParser):
    """The arguments of the line; a mistake is an exception, not the end of the kernel."""

    def error(self, message: str) -> NoReturn:
        raise _usage(f"{message}\n{self.format_usage().strip()}")


def _parser() -> _Arguments:
    parser = _Arguments(prog="%%ceql", add_help=False)
    parser.add_argument("events", help="a frame, a table or another input by its name, or the path of a file")
    parser.add_argument("-o", "--output", metavar="NAME", help="keep the matches under this name")
    parser.add_argument("--type", default="type", help="the column of event types; '' for none")
    parser.add_argument("--time", default="time", help="the column of event times; '' for none")
    parser.add_argument("--time-unit", choices=("s", "ms", "us", "ns"), help="the unit of times that are plain numbers")
    return parser


def load(ipython: Any) -> None:
    """Make the magic known to an IPython shell."""

    def ceql(line: str, cell: str) -> Matches:
        return run_cell(line, cell, ipython.user_ns)

    ipython.register_magic_function(ceql, "cell", "ceql")


def run_cell(line: str, cell: str, names: dict[str, Any]) -> Matches:
    """The matches of the query in a cell; `names` are those of the notebook."""
    given = _parser().parse_args(shlex.split(line))
    events = names.get(given.events, given.events)
    try:
        found = match(cell, events, type=given.type or None, time=given.time or None, time_unit=given.time_unit)
    except CeqlError as error:  # what is wrong is in the message; where ceql noticed it is of no use
        raise _usage(str(error)) from None
    if given.output:
        names[given.output] = found
    return found


def _usage(message: str) -> Exception:
    from IPython.core.error import UsageError

    error: Exception = UsageError(message)
    return error
