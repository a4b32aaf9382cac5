"""The commands of `ceql` and their arguments."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

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
from ceql.cli.run import Job, count, run
from ceql.cli.wording import in_cli_words
from ceql.cli.writers import Format
from ceql.io.dicts import is_writable
from ceql.query import Query
from ceql.query_set import QuerySet
from ceql.recognition.options import duration

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
        print(f"ceql {ceql.__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    """Complex event recognition: find the matches of a CEQL query in a stream of events."""


@app.command("run", epilog=CODES)
def run_command(
    query: QueryOrFolderArgument,
    events: EventsArgument = None,
    out: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write to this file, in the format of its suffix."),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option("--format", help="How to write matches: as -o's suffix says, else table.", show_default=False),
    ] = None,
    type: TypeOption = "type",
    time: TimeOption = "time",
    time_unit: UnitOption = None,
    lateness: LatenessOption = "0",
    stream: StreamOption = None,
    limit_output: Annotated[
        int | None,
        typer.Option("--limit-output", min=1, help="Stop after this many matches (a table on the terminal: 100)."),
    ] = None,
    with_events: Annotated[bool, typer.Option("--events", help="Show the events, not just positions.")] = False,
    only_count: Annotated[bool, typer.Option("--count", help="Only print how many matches there are.")] = False,
    aggregates: Annotated[
        list[str] | None,
        typer.Option(
            "--aggregate",
            metavar="[NAME=]TOTAL",
            help="Print totals over all matches: COUNT(*), COUNT(x), SUM(x.a), AVG(x.a), MIN(x.a), MEDIAN(x.a) …",
        ),
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option("--by", metavar="KEY", help="Totals for each value of a key of PARTITION BY.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="TIME", help="Totals for each stretch of time, such as '1 minute'.", show_default=False
        ),
    ] = None,
    gap: Annotated[
        str | None,
        typer.Option(
            "--episodes",
            metavar="GAP",
            help="Unite matches of a key that overlap or are no more than this apart, such as '5 minutes'.",
            show_default=False,
        ),
    ] = None,
    progress: Annotated[bool, typer.Option("--progress/--no-progress", help="Show progress on long files.")] = True,
    input_format: InputFormatOption = None,
    skip_bad_lines: SkipOption = False,
    memory: Annotated[int, typer.Option("--memory", min=1, help="The most memory for partial matches, in MiB.")] = 4096,
    threads: Annotated[
        str, typer.Option("--threads", metavar="N", help="How many threads work on partial matches; all: every core.")
    ] = "auto",
    spark: Annotated[
        bool, typer.Option("--spark", help="Run on Spark: EVENTS may be folders and patterns, -o makes a folder.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Where Spark runs: local[4], yarn …", show_default=False),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="[NAME=]TABLE", help="A Spark table with the events (of stream NAME)."),
    ] = None,
    order_by: Annotated[
        list[str] | None,
        typer.Option("--order-by", metavar="COLUMN", help="With --spark: orders events of the same time."),
    ] = None,
) -> None:
    """Find the matches of QUERY in EVENTS."""
    with reporting_errors():
        if only_count and (limit_output or with_events or out or format):
            raise UsageError("--count prints one number: leave out -o, --format, --events and --limit-output")
        columns = {**_columns(type, time, time_unit, lateness), "memory": memory << 20}
        asked = read_asked(aggregates or [], by, every)
        if asked is not None and (limit_output or with_events or only_count or spark):
            raise UsageError("--aggregate prints totals: leave out --events, --limit-output, --count and --spark")
        if gap is not None and (limit_output or with_events or only_count or spark or asked is not None):
            others = "--events, --limit-output, --count, --aggregate and --spark"
            raise UsageError(f"--episodes prints a row for each episode: leave out {others}")
        if spark:
            _refuse(
                "does not go with --spark",
                {
                    "--lateness": columns.pop("lateness"),
                    "--skip-bad-lines": skip_bad_lines,
                    "--input-format": input_format,
                    "--threads": threads if threads != "auto" else None,
                },
            )
            from ceql.cli.spark import SparkJob, on_spark, sources

            compiled, files = _inputs(query, sources(events, table), stream)
            columns["order_by"] = order_by or ()
            code = on_spark(SparkJob(compiled, files, columns, master, out, format, limit_output, only_count, progress))
        else:
            _refuse("needs --spark", {"--master": master, "--table": table, "--order-by": order_by})
            columns["threads"] = int(threads) if threads.isdecimal() else threads
            asked_for: Query | QuerySet
            if os.path.isdir(query):
                alone = {"--events": with_events, "--aggregate": aggregates, "--episodes": gap}
                _refuse("goes with one query, not with a folder", alone)
                asked_for = rules = read_folder(Path(query))
                files = read_events(rules[rules.names[0]], events or [], stream or [])
            else:
                asked_for, files = _inputs(query, events, stream)
            path = None if out is None else Path(out)
            job = Job(
                asked_for,
                files,
                columns,
                path,
                format,
                limit_output,
                with_events,
                progress,
                skip_bad_lines,
                input_format,
            )
            if gap is not None:
                code = episodes(job, gap)
            else:
                code = aggregate(job, asked) if asked is not None else count(job) if only_count else run(job)
    raise typer.Exit(code)


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
def diagnose_command(
    query: QueryArgument,
    events: EventsArgument = None,
    type: TypeOption = "type",
    time: TimeOption = "time",
    time_unit: UnitOption = None,
    lateness: LatenessOption = "0",
    stream: StreamOption = None,
    input_format: InputFormatOption = None,
    skip_bad_lines: SkipOption = False,
) -> None:
    """Say why QUERY finds nothing, or so little, in EVENTS."""
    with reporting_errors():
        columns = _columns(type, time, time_unit, lateness)
        compiled, files = _inputs(query, events, stream)
        sources = _sources(files, columns, input_format, skip_bad_lines)
        print(in_cli_words(str(compiled.diagnose(single_or_named(sources), **columns))))
        say_skipped(sources.values())


@app.command("bench")
def bench_command(
    query: QueryArgument,
    events: EventsArgument = None,
    type: TypeOption = "type",
    time: TimeOption = "time",
    time_unit: UnitOption = None,
    lateness: LatenessOption = "0",
    stream: StreamOption = None,
    input_format: InputFormatOption = None,
    skip_bad_lines: SkipOption = False,
    runs: Annotated[int, typer.Option("--runs", min=3, help="How often to time it.")] = 5,
) -> None:
    """Time QUERY over EVENTS: events per second, with and without writing out the matches."""
    with reporting_errors():
        from ceql.cli.bench import bench

        columns = _columns(type, time, time_unit, lateness)
        compiled, files = _inputs(query, events, stream)
        sources = _sources(files, columns, input_format, skip_bad_lines)
        found = bench(compiled, sources, columns, runs)
        say_skipped(sources.values())
    raise typer.Exit(ExitCode.DONE if found else ExitCode.NO_MATCH)


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


def _inputs(
    query: str, events: list[str] | None, streams: list[str] | None
) -> tuple[Query, dict[str | None, list[str]]]:
    if query == STDIN and (STDIN in (events or []) or not (events or streams)):
        raise UsageError("the query and the events cannot both come from standard input")
    compiled = read_query(query)
    return compiled, read_events(compiled, events or [], streams or [])


def _sources(
    files: dict[str | None, list[str]], columns: dict[str, Any], format: InputFormat | None, skip: bool
) -> dict[str | None, Files]:
    """The inputs of a command that reads all events before it says anything. JSON lines go on as a pipe has them."""
    if [STDIN] in files.values() and format is None and is_live(None):
        format = InputFormat.json
    return {name: Files(name, paths, columns["time"], format, skip) for name, paths in files.items()}


def _refuse(why: str, options: dict[str, Any]) -> None:
    """Raises an error that names the first option that was given."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{name} {why}")


def _check_names(type: str, time: str) -> None:
    for option, name in (("--type", type), ("--time", time)):
        if not is_writable(name):
            raise UsageError(f"{option} is no text: {name!r}")


def _columns(type: str, time: str, time_unit: TimeUnit | None, lateness: str) -> dict[str, Any]:
    _check_names(type, time)
    late: str | float = lateness
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", lateness):
        late = float(lateness) if "." in lateness else int(lateness)
    else:
        try:
            duration(lateness)
        except ValueError as error:
            raise UsageError(f"--lateness: {error}") from error
    unit = None if time_unit is None else time_unit.value
    return {"type": type or None, "time": time or None, "time_unit": unit, "lateness": late}
