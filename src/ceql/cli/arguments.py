"""The arguments of the commands that read events, each command's as one value."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ceql.cli.exit_codes import ExitCode, UsageError, reporting_errors
from ceql.cli.inputs import STDIN, Files, is_live, read_events, read_folder, read_query
from ceql.cli.progress import EventProgress
from ceql.cli.writers import Format
from ceql.io.dicts import is_writable
from ceql.query import Query
from ceql.query_set import QuerySet
from ceql.recognition.options import duration


class InputFormat(StrEnum):
    """The values of `--input-format`."""

    csv = "csv"
    tsv = "tsv"
    json = "json"
    parquet = "parquet"
    arrow = "arrow"


class TimeUnit(StrEnum):
    """The unit of times that are plain numbers."""

    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


QueryArgument = Annotated[str, typer.Argument(metavar="QUERY", help="A file with the query, or the query itself.")]
QueryOrFolderArgument = Annotated[
    str,
    typer.Argument(
        metavar="QUERY", help="A file with the query, the query itself, or a folder of queries (.ceql) to run together."
    ),
]
EventsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[EVENTS]...",
        help="Parquet, CSV, JSON-lines or Arrow files, read one after the other; NAME=FILE where FROM lists several "
        "streams. Nothing, or -, is standard input: JSON lines are recognised as they arrive.",
        show_default=False,
    ),
]
StreamOption = Annotated[
    list[str] | None, typer.Option("--stream", metavar="NAME=FILE", help="The events of one stream of FROM.")
]
InputFormatOption = Annotated[
    InputFormat | None,
    typer.Option(
        "--input-format",
        help="The format of EVENTS (json: one object per line): as their suffix says, else as they begin.",
        show_default=False,
    ),
]
SkipOption = Annotated[
    bool, typer.Option("--skip-bad-lines", help="Skip lines that are no events and events without a time.")
]
TypeOption = Annotated[str, typer.Option("--type", help="The column of event types; '' for none.")]
TimeOption = Annotated[str, typer.Option("--time", help="The column of event times; '' for none.")]
UnitOption = Annotated[
    TimeUnit | None, typer.Option("--time-unit", help="The unit of times that are plain numbers.", show_default=False)
]
LatenessOption = Annotated[
    str,
    typer.Option("--lateness", help="How late an event may come and still be put in order, such as '10 seconds'."),
]


@dataclass(kw_only=True)
class OfEvents:
    """The arguments of the commands that read events."""

    query: QueryArgument
    events: EventsArgument = None
    type: TypeOption = "type"
    time: TimeOption = "time"
    time_unit: UnitOption = None
    lateness: LatenessOption = "0"
    stream: StreamOption = None
    input_format: InputFormatOption = None
    skip_bad_lines: SkipOption = False
    progress: Annotated[
        bool, typer.Option("--progress/--no-progress", help="On a terminal, show how much is read and how fast.")
    ] = True

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The keyword arguments of `Query.run`."""
        check_names(self.type, self.time)
        late: str | float = self.lateness
        if re.fullmatch(r"\s*\d+(\.\d+)?\s*", self.lateness):
            late = float(self.lateness) if "." in self.lateness else int(self.lateness)
        else:
            try:
                duration(self.lateness)
            except ValueError as error:
                raise UsageError(f"--lateness: {error}") from error
        unit = None if self.time_unit is None else self.time_unit.value
        return {"type": self.type or None, "time": self.time or None, "time_unit": unit, "lateness": late}

    def inputs(self) -> tuple[Query, dict[str | None, list[str]]]:
        """The query, and the files of each of its streams."""
        if self.query == STDIN and (STDIN in (self.events or []) or not (self.events or self.stream)):
            raise UsageError("the query and the events cannot both come from standard input")
        compiled = read_query(self.query)
        return compiled, read_events(compiled, self.events or [], self.stream or [])

    def sources(self) -> tuple[Query, dict[str | None, Files], EventProgress]:
        """The same for a command that reads all events before it says anything. JSON lines go on as a pipe has them."""
        bar = EventProgress(self.progress and sys.stderr.isatty())
        columns, (compiled, files), format = self.columns, self.inputs(), self.input_format
        if [STDIN] in files.values() and format is None and is_live(None):
            format = InputFormat.json
        skip = self.skip_bad_lines
        time, read = columns["time"], bar.advance
        sources = {name: Files(name, paths, time, format, skip, read) for name, paths in files.items()}
        bar.total = sum(source.size for source in sources.values()) if bar.wanted else 0
        return compiled, sources, bar


@dataclass(kw_only=True)
class OfBench(OfEvents):
    """The arguments of `ceql bench`."""

    runs: Annotated[int, typer.Option("--runs", min=3, help="How often to time it.")] = 5


@dataclass(kw_only=True)
class OfRun(OfEvents):
    """The arguments of `ceql run`."""

    query: QueryOrFolderArgument
    out: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write to this file, in the format of its suffix."),
    ] = None
    format: Annotated[
        Format | None,
        typer.Option("--format", help="How to write matches: as -o's suffix says, else table.", show_default=False),
    ] = None
    limit_output: Annotated[
        int | None,
        typer.Option("--limit-output", min=1, help="Stop after this many matches (a table on the terminal: 100)."),
    ] = None
    with_events: Annotated[bool, typer.Option("--events", help="Show the events, not just positions.")] = False
    only_count: Annotated[bool, typer.Option("--count", help="Only print how many matches there are.")] = False
    aggregates: Annotated[
        list[str] | None,
        typer.Option(
            "--aggregate",
            metavar="[NAME=]TOTAL",
            help="Print totals over all matches: COUNT(*), COUNT(x), SUM(x.a), AVG(x.a), MIN(x.a), MEDIAN(x.a) …",
        ),
    ] = None
    by: Annotated[
        list[str] | None, typer.Option("--by", metavar="KEY", help="Totals for each value of a key of PARTITION BY.")
    ] = None
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="TIME", help="Totals for each stretch of time, such as '1 minute'.", show_default=False
        ),
    ] = None
    gap: Annotated[
        str | None,
        typer.Option(
            "--episodes",
            metavar="GAP",
            help="Unite matches of a key that overlap or are no more than this apart, such as '5 minutes'.",
            show_default=False,
        ),
    ] = None
    why: Annotated[bool, typer.Option("--why", help="If no match is found, read the events again and say why.")] = False
    memory: Annotated[int, typer.Option("--memory", min=1, help="The most memory for partial matches, in MiB.")] = 4096
    threads: Annotated[
        str, typer.Option("--threads", metavar="N", help="How many threads work on partial matches; all: every core.")
    ] = "auto"
    spark: Annotated[
        bool, typer.Option("--spark", help="Run on Spark: EVENTS may be folders and patterns, -o makes a folder.")
    ] = False
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Where Spark runs: local[4], yarn …", show_default=False),
    ] = None
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="[NAME=]TABLE", help="A Spark table with the events (of stream NAME)."),
    ] = None
    order_by: Annotated[
        list[str] | None,
        typer.Option("--order-by", metavar="COLUMN", help="With --spark: orders events of the same time."),
    ] = None

    @property
    def is_only_shown(self) -> bool:
        """Whether matches are asked for in a way that totals and episodes have no use for."""
        return bool(self.limit_output or self.with_events or self.only_count or self.spark)

    @cached_property
    def asked(self) -> tuple[Query | QuerySet, dict[str | None, list[str]]]:
        """The query, or those of a folder, and the files of each stream."""
        if not os.path.isdir(self.query):
            return self.inputs()
        alone = {"--events": self.with_events, "--aggregate": self.aggregates, "--episodes": self.gap}
        alone["--why"] = self.why
        refuse("goes with one query, not with a folder", alone)
        rules = read_folder(Path(self.query))
        return rules, read_events(rules[rules.names[0]], self.events or [], self.stream or [])

    @property
    def compiled(self) -> Query | QuerySet:
        """The query, or those of a folder."""
        return self.asked[0]

    @property
    def files(self) -> dict[str | None, list[str]]:
        """The files of each stream."""
        return self.asked[1]

    @property
    def paths(self) -> list[str]:
        """The files of all streams."""
        return [path for paths in self.files.values() for path in paths]

    @property
    def file(self) -> Path | None:
        """The file that is written."""
        return None if self.out is None else Path(self.out)

    @property
    def run_options(self) -> dict[str, Any]:
        """The keyword arguments of `Query.run` and `Query.recognizer`."""
        threads = int(self.threads) if self.threads.isdecimal() else self.threads
        return {**self.columns, "memory": self.memory << 20, "threads": threads}

    @cached_property
    def streaming(self) -> bool:
        """Whether events are recognised as they arrive."""
        return [STDIN] in self.files.values() and is_live(self.input_format)


C = TypeVar("C", bound=OfEvents)


def taking(arguments: type[C]) -> Callable[[Callable[[C], ExitCode]], Callable[..., None]]:
    """Let a command take all its arguments as one value, whose fields they are, and return its exit code."""

    def decorate(command: Callable[[C], ExitCode]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            with reporting_errors():
                code = command(arguments(**given))
            raise typer.Exit(code)

        run.__doc__ = command.__doc__
        run.__signature__ = signature(arguments, eval_str=True)  # type: ignore[attr-defined]
        return run

    return decorate


def refuse(why: str, options: dict[str, Any]) -> None:
    """Raises an error that names the first option that was given."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{name} {why}")


def check_names(type: str, time: str) -> None:
    """Refuse names of columns that are no text."""
    for option, name in (("--type", type), ("--time", time)):
        if not is_writable(name):
            raise UsageError(f"{option} is no text: {name!r}")
