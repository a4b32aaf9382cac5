"""The commands of `ceql` and their arguments."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import ceql
from ceql import warm
from ceql.cli.aggregate import aggregate, episodes, read_asked
from ceql.cli.exit_codes import ExitCode, UsageError, reporting_errors
from ceql.cli.inputs import (
    STDIN,
    Files,
    is_live,
    read_events,
    read_folder,
    read_query,
    read_text,
    say_skipped,
    single_or_named,
)
from ceql.cli.progress import EventProgress
from ceql.cli.rules import rules_app
from ceql.cli.run import Job, count, run
from ceql.cli.versions import versions
from ceql.cli.wording import in_cli_words
from ceql.cli.writers import Format
from ceql.io.dicts import is_writable
from ceql.query import Query
from ceql.query_set import QuerySet
from ceql.recognition.options import duration

if TYPE_CHECKING:
    from ceql.cli.spark import SparkJob

CODES = """
Exit codes: 0 done, matches were found; 1 no match was found; 2 wrong query or usage; 3 bad data or columns;
4 a limit was reached; 5 the result could not be written; 70 a bug in ceql; 130 Ctrl-C.
"""

app = typer.Typer(
    help="Complex event recognition: find the matches of a CEQL query in a stream of events.",
    epilog=CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(rules_app, name="rules")


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


def _version(wanted: bool) -> None:
    if wanted:
        print("\n".join(versions()))
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="The versions of ceql and of what it works with."
        ),
    ] = False,
) -> None:
    """Complex event recognition: find the matches of a CEQL query in a stream of events."""


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
        _check_names(self.type, self.time)
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

    def job(self) -> Job:
        """What is to be done without Spark."""
        threads = int(self.threads) if self.threads.isdecimal() else self.threads
        asked_for: Query | QuerySet
        if os.path.isdir(self.query):
            alone = {"--events": self.with_events, "--aggregate": self.aggregates, "--episodes": self.gap}
            alone["--why"] = self.why
            _refuse("goes with one query, not with a folder", alone)
            asked_for = rules = read_folder(Path(self.query))
            files = read_events(rules[rules.names[0]], self.events or [], self.stream or [])
        else:
            asked_for, files = self.inputs()
        if self.why and [STDIN] in files.values():
            raise UsageError("--why reads the events again, which standard input does not allow: give a file")
        return Job(
            asked_for,
            files,
            {**self.columns, "memory": self.memory << 20, "threads": threads},
            None if self.out is None else Path(self.out),
            self.format,
            self.limit_output,
            self.with_events,
            self.progress,
            self.skip_bad_lines,
            self.input_format,
            self.why,
        )

    def spark_job(self) -> SparkJob:
        """What is to be done on Spark."""
        columns = {**self.columns, "memory": self.memory << 20, "order_by": self.order_by or ()}
        _refuse(
            "does not go with --spark",
            {
                "--lateness": columns.pop("lateness"),
                "--skip-bad-lines": self.skip_bad_lines,
                "--input-format": self.input_format,
                "--threads": self.threads if self.threads != "auto" else None,
                "--why": self.why,
            },
        )
        from ceql.cli.spark import SparkJob, sources

        self.events = sources(self.events, self.table)
        compiled, files = self.inputs()
        return SparkJob(
            compiled,
            files,
            columns,
            self.master,
            self.out,
            self.format,
            self.limit_output,
            self.only_count,
            self.progress,
        )


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


@app.command("run", epilog=CODES)
@taking(OfRun)
def run_command(given: OfRun) -> ExitCode:
    """Find the matches of QUERY in EVENTS."""
    if given.only_count and (given.limit_output or given.with_events or given.out or given.format):
        raise UsageError("--count prints one number: leave out -o, --format, --events and --limit-output")
    asked = read_asked(given.aggregates or [], given.by, given.every)
    if asked is not None and given.is_only_shown:
        raise UsageError("--aggregate prints totals: leave out --events, --limit-output, --count and --spark")
    if given.gap is not None and (given.is_only_shown or asked is not None):
        others = "--events, --limit-output, --count, --aggregate and --spark"
        raise UsageError(f"--episodes prints a row for each episode: leave out {others}")
    if given.gap is not None or asked is not None:
        _refuse("goes with matches and --count", {"--why": given.why})
    if given.spark:
        from ceql.cli.spark import on_spark

        return on_spark(given.spark_job())
    needed = {"--master": given.master, "--table": given.table, "--order-by": given.order_by}
    _refuse("needs --spark", needed)
    job = given.job()
    if given.gap is not None:
        return episodes(job, given.gap)
    return aggregate(job, asked) if asked is not None else count(job) if given.only_count else run(job)


@app.command("explain")
def explain_command(
    query: QueryArgument,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw the automaton as a Mermaid diagram.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Draw the automaton for Graphviz.")] = False,
    schema: Annotated[Path | None, typer.Option("--schema", help="Events, to show how columns are used.")] = None,
    type: TypeOption = "type",
    time: TimeOption = "time",
    time_unit: UnitOption = None,
    input_format: InputFormatOption = None,
) -> None:
    """Show what QUERY means, how it is evaluated, and what that costs."""
    with reporting_errors():
        if mermaid and dot:
            raise UsageError("--mermaid or --dot, not both")
        _check_names(type, time)
        compiled = read_query(query)
        if mermaid:
            print(compiled.automaton().to_mermaid())
        elif dot:
            print(compiled.automaton().to_dot())
        else:
            columns = None if schema is None else Files(None, [str(schema)], time or None, input_format).schema
            print(compiled.explain(columns, type=type or None, time=time or None, time_unit=time_unit))


@app.command("diagnose")
@taking(OfEvents)
def diagnose_command(given: OfEvents) -> ExitCode:
    """Say why QUERY finds nothing, or so little, in EVENTS."""
    compiled, sources, bar = given.sources()
    with bar:
        found = compiled.diagnose(single_or_named(sources), **given.columns)
    print(in_cli_words(str(found)))
    say_skipped(sources.values())
    return ExitCode.DONE


@dataclass(kw_only=True)
class OfBench(OfEvents):
    """The arguments of `ceql bench`."""

    runs: Annotated[int, typer.Option("--runs", min=3, help="How often to time it.")] = 5


@app.command("bench")
@taking(OfBench)
def bench_command(given: OfBench) -> ExitCode:
    """Time QUERY over EVENTS: events per second, with and without writing out the matches."""
    from ceql.cli.bench import bench, read_all

    compiled, sources, bar = given.sources()
    with bar:
        tables = read_all(sources)
    found = bench(compiled, tables, given.columns, given.runs)
    say_skipped(sources.values())
    return ExitCode.DONE if found else ExitCode.NO_MATCH


@app.command("new")
def new_command(
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="A file of events.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write; EVENTS' name with .ceql, unless given."),
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", help="The column of types; guessed, unless given; '' for none.")
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", help="The column of times; guessed, unless given; '' for none.")
    ] = None,
    time_unit: UnitOption = None,
) -> None:
    """Write a query to begin with: what is in EVENTS, as comments, and an example that has matches."""
    with reporting_errors():
        from ceql.cli.new import new

        new(events, out, type, time, None if time_unit is None else time_unit.value)


@app.command("translate")
def translate_command(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A file with MATCH_RECOGNIZE, or the SQL itself.")],
    dialect: Annotated[
        str | None,
        typer.Option(help="trino, flink, oracle, snowflake, databricks or duckdb; the standard if left out."),
    ] = None,
) -> None:
    """Show the CEQL of a MATCH_RECOGNIZE, or say what of it CEQL cannot keep."""
    with reporting_errors():
        try:
            print(ceql.from_match_recognize(read_text(sql), dialect=dialect))
        except ImportError as error:
            raise ceql.CeqlError(str(error)) from error


@app.command("sql")
def sql_command(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A SELECT with MATCH_RECOGNIZE, or a file with it.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="The rows; NAME=FILE if there are several.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write to this file, not to the terminal.")] = None,
    format: Annotated[Format | None, typer.Option("--format", help="By default as the suffix of -o says.")] = None,
    dialect: Annotated[
        str | None,
        typer.Option(help="trino, flink, oracle, snowflake, databricks, duckdb or spark; the standard if left out."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Run nothing; say what it costs.")] = False,
) -> None:
    """Run a MATCH_RECOGNIZE over files, and write the rows that SQL gives."""
    with reporting_errors():
        from ceql.cli.sql import explain_sql, run_sql

        try:
            text = read_text(sql)
            if explain:
                print(explain_sql(text, files, dialect))
                return
            code = run_sql(text, files, out, format, dialect)
        except ImportError as error:
            raise ceql.CeqlError(str(error)) from error
    raise typer.Exit(code)


@app.command("warm")
def warm_command(
    check: Annotated[bool, typer.Option("--check", help="Compile nothing; say what is missing.")] = False,
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="By default one for each core.", show_default=False)
    ] = None,
) -> None:
    """Compile all kernels beforehand, as when an image is built: nothing waits for the compiler then.

    Exit codes: 0 everything is compiled; 1 something is missing.
    """
    given = ["--check"] * check + ([f"--processes={processes}"] if processes else [])
    raise typer.Exit(warm.main(given))


@app.command("demo")
def demo_command(
    spark: Annotated[
        bool, typer.Option("--spark", help="Run on Spark: the same events in files, then as a stream.")
    ] = False,
) -> None:
    """Recognise frauds in 20,000 sample card payments."""
    with reporting_errors():
        if spark:
            from ceql.cli.demo.on_spark import demo_on_spark

            demo_on_spark()
        else:
            from ceql.cli.demo import demo

            demo()


@app.command("studio")
def studio_command(
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help="A file with the query, or the query itself.")
    ] = None,
    events: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EVENTS]...",
            help="A file with events; - follows JSON lines on standard input; NAME=FILE for each stream of FROM.",
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is written to the end of EVENTS.")] = False,
    type: Annotated[str, typer.Option("--type", help="The column of event types.")] = "",
    time: Annotated[str, typer.Option("--time", help="The column of event times.")] = "",
    time_unit: UnitOption = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Where to listen; 0: any free port.")] = 8760,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    time_limit: Annotated[float, typer.Option("--time-limit", min=1, help="The seconds of a run or diagnosis.")] = 300,
    upload_limit: Annotated[int, typer.Option("--upload-limit", min=1, help="The MiB that a file may have.")] = 1024,
) -> None:
    """Open a page to write a query, run it and see its matches."""
    with reporting_errors():
        _check_names(type, time)
        unit = None if time_unit is None else time_unit.value
        needed = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
        if needed:
            raise UsageError(f"the studio needs {' and '.join(needed)}: pip install 'ceql[studio]'")
        from ceql.studio.opening import open_studio

        columns = (type or None, time or None, unit)
        open_studio(query, events or [], follow, columns, port, browser, time_limit, upload_limit)


def _refuse(why: str, options: dict[str, Any]) -> None:
    """Raises an error that names the first option that was given."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{name} {why}")


def _check_names(type: str, time: str) -> None:
    for option, name in (("--type", type), ("--time", time)):
        if not is_writable(name):
            raise UsageError(f"{option} is no text: {name!r}")
