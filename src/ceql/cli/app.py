"""The commands of `ceql` and their arguments."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

import ceql
from ceql import warm
from ceql.cli.aggregate import aggregate, episodes, read_asked
from ceql.cli.arguments import (
    InputFormatOption,
    OfBench,
    OfEvents,
    OfRun,
    QueryArgument,
    TimeOption,
    TypeOption,
    UnitOption,
    check_names,
    refuse,
    taking,
)
from ceql.cli.exit_codes import ExitCode, UsageError, reporting_errors
from ceql.cli.inputs import STDIN, Files, read_query, read_text, say_skipped, single_or_named
from ceql.cli.rules import rules_app
from ceql.cli.run import count, run
from ceql.cli.versions import versions
from ceql.cli.wording import in_cli_words
from ceql.cli.writers import Format

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
        refuse("goes with matches and --count", {"--why": given.why})
    if given.spark:
        from ceql.cli.spark import on_spark

        return on_spark(given)
    needed = {"--master": given.master, "--table": given.table, "--order-by": given.order_by}
    refuse("needs --spark", needed)
    if given.why and [STDIN] in given.files.values():
        raise UsageError("--why reads the events again, which standard input does not allow: give a file")
    if given.gap is not None:
        return episodes(given, given.gap)
    return aggregate(given, asked) if asked is not None else count(given) if given.only_count else run(given)


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
        check_names(type, time)
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
        check_names(type, time)
        unit = None if time_unit is None else time_unit.value
        needed = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
        if needed:
            raise UsageError(f"the studio needs {' and '.join(needed)}: pip install 'ceql[studio]'")
        from ceql.studio.opening import open_studio

        columns = (type or None, time or None, unit)
        open_studio(query, events or [], follow, columns, port, browser, time_limit, upload_limit)
