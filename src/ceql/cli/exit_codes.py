"""Exit codes of the command, and messages instead of tracebacks."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

import typer

from ceql.cli.wording import in_cli_words, message_of
from ceql.errors import ArgumentError, CeqlError, QueryError, ResourceError, SchemaError


class ExitCode(IntEnum):
    """The exit codes of `ceql`."""

    DONE = 0
    NO_MATCH = 1
    WRONG_QUERY = 2
    BAD_DATA = 3
    LIMIT = 4
    NOT_WRITTEN = 5
    BUG = 70
    INTERRUPTED = 130


class UsageError(CeqlError):
    """The command line does not make sense."""


def exit_code_of(error: CeqlError) -> ExitCode:
    """The exit code for an error."""
    if isinstance(error, ResourceError):
        return ExitCode.LIMIT
    wrong = isinstance(error, (QueryError, UsageError, ArgumentError)) and not isinstance(error, SchemaError)
    return ExitCode.WRONG_QUERY if wrong else ExitCode.BAD_DATA


def say(message: str) -> None:
    """Prints a line on stderr, apart from the results."""
    print(f"ceql: {message}", file=sys.stderr, flush=True)


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Runs the body of a command. A warning becomes a message, an error a message and an exit code."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: say(in_cli_words(str(message)))
            yield
        sys.stdout.flush()
    except CeqlError as error:
        say(message_of(error))
        raise typer.Exit(exit_code_of(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        _discard_stdout()
        raise typer.Exit(ExitCode.DONE) from None
    except OSError as error:  # those of reading are a DataError
        say(f"cannot write the result: {error}")
        _discard_stdout()
        raise typer.Exit(ExitCode.NOT_WRITTEN) from None
    except MemoryError:
        say("there is not enough memory; --count counts matches, --limit-output N stops after N")
        raise typer.Exit(ExitCode.LIMIT) from None
    except typer.Exit:
        raise
    except Exception:  # must not end with 1, which says that there is no match
        traceback.print_exc()
        say("this is a bug in ceql; please report it with the lines above")
        raise typer.Exit(ExitCode.BUG) from None


def _discard_stdout() -> None:
    """Redirects stdout to nowhere: its reader is gone (`| head`) or its disk full, and its last flush must not fail."""
    with suppress(OSError):  # where it is no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
