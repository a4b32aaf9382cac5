"""`ceql run`: finds matches in files or in a pipe and writes them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ceql.cli.exit_codes import ExitCode, UsageError, say
from ceql.cli.inputs import STDIN, Files, single_or_named, total
from ceql.cli.json_lines import JsonLines
from ceql.cli.progress import EventProgress
from ceql.cli.table import TextTableWriter
from ceql.cli.writers import TABLE_LIMIT, ColumnWriter, Format, JsonWriter, Writer, choose_format
from ceql.query import LateEventsWarning, Query
from ceql.results.matches import Matches


@dataclass(frozen=True)
class Job:
    """The arguments of `ceql run`."""

    query: Query
    files: dict[str | None, list[str]]
    columns: dict[str, Any]
    """The keyword arguments of `Query.run` and `Query.recognizer`: type, time, time_unit, lateness, memory."""
    out: Path | None = None
    format: Format | None = None
    limit: int | None = None
    events: bool = False
    progress: bool = True
    skip_bad_lines: bool = False

    @property
    def streaming(self) -> bool:
        return [STDIN] in self.files.values()


def count(job: Job) -> ExitCode:
    """Prints how many matches there are, without enumerating them."""
    with _quiet():
        if job.streaming:
            lines = JsonLines(sys.stdin.fileno(), job.columns["time"], job.skip_bad_lines)
            matches = job.query.run(lines.source(), **job.columns)
            n = matches.count()
            _report_skipped(lines)
        else:
            matches, bar = _open_files(job)
            with bar:
                n = matches.count()
    print(n)
    _report_late(matches.late())
    return ExitCode.DONE if n else ExitCode.NO_MATCH


def run(job: Job) -> ExitCode:
    """Writes the matches. The exit code says whether there are any."""
    format = choose_format(job.format, job.out)
    limit = job.limit
    if limit is None and format is Format.table and job.out is None and not job.streaming:
        limit = TABLE_LIMIT
    writer = _writer(job, format)
    try:
        with _quiet():
            found, more = _stream(job, writer, limit) if job.streaming else _whole(job, writer, limit)
    finally:
        writer.close()
    if more and job.limit is None:
        say(
            f"these are the first {found} matches; --limit-output N shows more, -o FILE writes all, --count counts them"
        )
    return ExitCode.DONE if found else ExitCode.NO_MATCH


def _whole(job: Job, writer: Writer, limit: int | None) -> tuple[int, bool]:
    matches, bar = _open_files(job)
    with bar:
        found, more = _write(matches, writer, job.events, limit)
    if isinstance(writer, ColumnWriter) and not job.events:
        writer.begin(matches.schema)
    _report_late(matches.late())
    return found, more


def _stream(job: Job, writer: Writer, limit: int | None) -> tuple[int, bool]:
    if sys.stdin.isatty():
        say("reading events from the terminal, one JSON object per line; Ctrl-D ends")
    recognizer = job.query.recognizer(**job.columns, keep_rows=job.events)
    lines = JsonLines(sys.stdin.fileno(), job.columns["time"], job.skip_bad_lines)
    found, more = 0, False
    try:
        for block in lines:
            n, more = _write(recognizer.feed(block), writer, job.events, None if limit is None else limit - found)
            found += n
            if n:
                writer.flush()
            if limit is not None and found >= limit:
                return found, True
        n, more = _write(recognizer.finish(), writer, job.events, None if limit is None else limit - found)
        return found + n, more
    finally:
        _report_skipped(lines)
        _report_late(recognizer.late())


def _write(matches: Matches, writer: Writer, events: bool, limit: int | None) -> tuple[int, bool]:
    """Writes up to `limit` matches and then stops reading. Returns how many, and whether the limit was reached."""
    pieces: Iterator[tuple[pa.RecordBatch, pa.Table | None]]
    pieces = matches.with_rows() if events else ((batch, None) for batch in matches.to_batches())
    found = 0
    for batch, rows in pieces:
        if limit is not None and found + batch.num_rows > limit:
            batch = batch.slice(0, limit - found)
            if batch.num_rows:
                taken = None if rows is None else rows.slice(0, len(batch.column("events").flatten()))
                writer.add(matches, batch, taken)
            return limit, True
        if batch.num_rows:
            writer.add(matches, batch, rows)
        found += batch.num_rows
        if found == limit:
            return found, True
    return found, False


def _writer(job: Job, format: Format) -> Writer:
    projections = job.query.plan.projections
    try:
        if format in (Format.csv, Format.parquet, Format.arrow):
            return ColumnWriter(format, job.out)
        file = sys.stdout if job.out is None else job.out.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {job.out}: {error}") from error
    if format is Format.json:
        return JsonWriter(file, projections)
    hidden = {name for name in (job.columns["type"], job.columns["time"]) if name is not None}
    return TextTableWriter(file, projections, hidden, job.streaming)


def _open_files(job: Job) -> tuple[Matches, Any]:
    bar = EventProgress(
        job.progress and sys.stderr.isatty() and (job.out is not None or job.format in (None, Format.table))
    )
    sources = {name: Files(name, paths, job.columns["time"], bar.advance) for name, paths in job.files.items()}
    bar.total = total(source.rows for source in sources.values()) if bar.wanted else None
    return job.query.run(single_or_named(sources), **job.columns), bar


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the warning about late events, which are reported at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LateEventsWarning)
        yield


def _report_late(late: pa.Table) -> None:
    if late.num_rows:
        events = "1 event" if late.num_rows == 1 else f"{late.num_rows:,} events"
        say(f"{events} came later than --lateness allows and took no part")


def _report_skipped(lines: JsonLines) -> None:
    if lines.skipped:
        say(f"{lines.skipped:,} bad {'line was' if lines.skipped == 1 else 'lines were'} skipped")
