"""`ceql run`: finds the matches of a query, or of a folder of queries, in files or in a pipe and writes them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from ceql.cli.arguments import OfRun
from ceql.cli.exit_codes import ExitCode, say
from ceql.cli.inputs import FROM_TERMINAL, Files, first_bytes, say_skipped, single_or_named
from ceql.cli.json_lines import JsonLines
from ceql.cli.output import Output, check_not_read
from ceql.cli.progress import EventProgress
from ceql.cli.set_writers import SetColumnWriter, SetJsonWriter, SetTableWriter
from ceql.cli.table import TextTableWriter
from ceql.cli.times import shown_times
from ceql.cli.wording import in_cli_words
from ceql.cli.writers import TABLE_LIMIT, ColumnWriter, Format, Found, JsonWriter, Writer, choose_format
from ceql.errors import LateEventsWarning, did_you_mean
from ceql.explain.stages import columns_read
from ceql.query import Query
from ceql.query_set import QuerySet
from ceql.results.matches import Matches

_MANY = 1000  # events after which an attribute that never came is worth a word


def count(job: OfRun) -> ExitCode:
    """Prints how many matches there are, without enumerating them."""
    with opened(job) as matches:
        found = matches.count()
    each = {"": found} if isinstance(found, int) else found
    for name, n in each.items():
        print(f"{n}\t{name}" if name else n)
    return _done(job, sum(each.values()))


def _done(job: OfRun, found: int) -> ExitCode:
    """The exit code; if nothing was found, says why, or how to know."""
    if found:
        return ExitCode.DONE
    if job.why and isinstance(job.compiled, Query):
        events, _ = open_sources(job)
        print(in_cli_words(str(job.compiled.diagnose(events, **job.columns))), file=sys.stderr)
    elif sys.stderr.isatty():
        say("no match was found; --why says why")
    return ExitCode.NO_MATCH


@contextmanager
def opened(job: OfRun) -> Iterator[Found]:
    """All matches, for what reads them at once; then says what the user should know of the events."""
    with not_warned_of_late_events():
        if job.streaming:
            lines = lines_of(job)
            matches = job.compiled.run(lines.source(), **job.run_options)
            yield matches
            _report(job, lines, matches.late())
        else:
            bar = _progress(job)
            matches, sources = _open_files(job, bar)
            with bar:
                yield matches
            bar.tell()
            _report(job, sources, matches.late())


def run(job: OfRun) -> ExitCode:
    """Writes the matches. The exit code says whether there are any."""
    format = choose_format(job.format, job.file)
    limit = job.limit_output
    if limit is None and format is Format.table and job.file is None and not job.streaming:
        limit = TABLE_LIMIT
    output, bar = None, _progress(job)
    if job.file is not None:
        check_not_read(job.file, job.paths)
        output = Output(job.file)
    with _writing(job, format, output) as writer, not_warned_of_late_events():
        found, more = _stream(job, writer, limit, output) if job.streaming else _whole(job, writer, limit, bar)
    if more and job.limit_output is None:
        say(
            f"these are the first {found} matches; --limit-output N shows more, -o FILE writes all, --count counts them"
        )
    bar.tell(found, more)
    return _done(job, found)


@contextmanager
def _writing(job: OfRun, format: Format, output: Output | None) -> Iterator[Writer]:
    """The writer, which is closed in the end; its file is put in its place if it is whole: all matches, or Ctrl-C."""
    try:
        writer = _writer(job, format, None if output is None else output.path)
        try:
            yield writer
        except KeyboardInterrupt:
            writer.close()
            if output is not None:
                output.publish()
            raise
        except BaseException:
            with suppress(OSError):  # the error that is told is the first one
                writer.close()
            raise
        writer.close()
        if output is not None:
            output.publish()
    finally:
        if output is not None:
            output.discard()


def _whole(job: OfRun, writer: Writer, limit: int | None, bar: EventProgress) -> tuple[int, bool]:
    matches, sources = _open_files(job, bar)
    with bar:
        found, more = _write(matches, writer, job.with_events, limit)
    if isinstance(writer, ColumnWriter) and not job.with_events:
        writer.begin(matches.schema)
    _report(job, sources, matches.late(), all_read=not more)
    return found, more


def lines_of(job: OfRun) -> JsonLines:
    """The events of standard input, as they arrive."""
    head = b""
    if sys.stdin.isatty():
        say(FROM_TERMINAL)
    else:
        head = first_bytes()
    return JsonLines(sys.stdin.fileno(), head, job.columns["time"], job.skip_bad_lines)


def _stream(job: OfRun, writer: Writer, limit: int | None, output: Output | None) -> tuple[int, bool]:
    lines = lines_of(job)
    recognizer = job.compiled.recognizer(**job.run_options, keep_rows=job.with_events)
    found, more, events, asked = 0, False, 0, False
    try:
        for block in lines:
            n, more = _write(recognizer.feed(block), writer, job.with_events, None if limit is None else limit - found)
            found += n
            if n:
                writer.flush()
                if output is not None:
                    output.publish()  # from the first match on, the file can be watched as it grows
            if limit is not None and found >= limit:
                asked = True  # the events that were not read may have any attribute
                return found, True
            events += block.rows or 0
            if not asked and events >= _MANY:
                asked = True
                _report_missing(job, lines.names, f"of the first {events:,} events")
        n, more = _write(recognizer.finish(), writer, job.with_events, None if limit is None else limit - found)
        return found + n, more
    finally:
        _report(job, lines, recognizer.late(), all_read=not asked)


def _write(matches: Found, writer: Writer, events: bool, limit: int | None) -> tuple[int, bool]:
    """Writes up to `limit` matches and then stops reading. Returns how many, and whether the limit was reached."""
    pieces: Iterator[tuple[pa.RecordBatch, pa.Table | None]]
    pieces = ((batch, None) for batch in matches.to_batches())
    if events and isinstance(matches, Matches):
        pieces = matches.with_rows()
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


def _writer(job: OfRun, format: Format, out: Path | None) -> Writer:
    several = isinstance(job.compiled, QuerySet)
    if format in (Format.csv, Format.parquet, Format.arrow):
        return SetColumnWriter(format, out) if several else ColumnWriter(format, out)
    file = sys.stdout if out is None else out.open("w", encoding="utf-8")
    if isinstance(job.compiled, QuerySet):
        return SetJsonWriter(file) if format is Format.json else SetTableWriter(file, job.streaming)
    projections = job.compiled.plan.projections
    if format is Format.json:
        return JsonWriter(file, projections)
    hidden = {name for name in (job.columns["type"], job.columns["time"]) if name is not None}
    writer = TextTableWriter(file, projections, hidden, job.streaming)
    unit = job.columns["time_unit"]
    return writer if unit is None else TimesShown(writer, job.columns["time"], unit)


class TimesShown:
    """A writer for people, who see times where the events have plain numbers."""

    def __init__(self, writer: Writer, time: str | None, unit: str):
        self._writer = writer
        self._names = ("start_time", "end_time") if time is None else ("start_time", "end_time", time)
        self._unit = unit
        self.flush = writer.flush
        self.close = writer.close

    def add(self, matches: Found, batch: pa.RecordBatch, rows: pa.Table | None) -> None:
        batch = shown_times(batch, self._names[:2], self._unit)
        rows = None if rows is None else shown_times(rows, self._names[2:], self._unit)
        self._writer.add(matches, batch, rows)


def _progress(job: OfRun) -> EventProgress:
    """What shows how far a job is. On a terminal, a bar and matches would write over each other."""
    shown = job.progress and sys.stderr.isatty()
    apart = job.file is not None or not sys.stdout.isatty() or job.format in (None, Format.table)
    return EventProgress(shown and apart, shown)


def _open_files(job: OfRun, bar: EventProgress) -> tuple[Found, dict[str | None, Files]]:
    events, sources = open_sources(job, bar.advance)
    bar.total = sum(source.size for source in sources.values()) if bar.wanted else 0
    return job.compiled.run(events, **job.run_options), sources


def open_sources(
    job: OfRun, on_read: Callable[[int, float], None] | None = None
) -> tuple[Any, dict[str | None, Files]]:
    """The files of a job, as `run` takes them and by stream."""
    time, format, skip = job.columns["time"], job.input_format, job.skip_bad_lines
    sources = {name: Files(name, paths, time, format, skip, on_read) for name, paths in job.files.items()}
    return single_or_named(sources), sources


@contextmanager
def not_warned_of_late_events() -> Iterator[None]:
    """Leaves out the warning of late events, which are reported at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LateEventsWarning)
        yield


def _report(job: OfRun, source: JsonLines | dict[str | None, Files], late: pa.Table, all_read: bool = True) -> None:
    """Says what the user should know of the events: those left out and, if all were read, attributes that none has."""
    sources = list(source.values()) if isinstance(source, dict) else [source]
    say_left_out(sources, late)
    if all_read:
        _report_missing(job, set().union(*(source.names for source in sources)), "of the events")


def say_left_out(sources: Sequence[JsonLines | Files], late: pa.Table) -> None:
    """Says how many events were left out."""
    say_skipped(sources)
    if late.num_rows:
        events = "1 event" if late.num_rows == 1 else f"{late.num_rows:,} events"
        say(f"{events} came later than --lateness allows and took no part")


def _report_missing(job: OfRun, names: set[str], of: str) -> None:
    """A misspelt attribute is an error where columns are known beforehand, and NULL in JSON lines."""
    plans = [job.compiled.plan] if isinstance(job.compiled, Query) else job.compiled.plans.values()
    items = [item for plan in plans for item in plan.query.items or ()]
    read = [name for plan in plans for name in columns_read(plan)]
    wanted = dict.fromkeys([*read, *(name for item in items for name in item.attributes)])
    for name in wanted if names else ():
        if name not in names and name.partition(".")[0] not in names:
            say(f"none {of} has an attribute '{name}'. {did_you_mean(name, sorted(names)) or ''}".rstrip())
