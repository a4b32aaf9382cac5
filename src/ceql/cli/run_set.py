"""`ceql run FOLDER`: all queries of a folder in one pass over the events."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ceql.cli.exit_codes import ExitCode, UsageError, say
from ceql.cli.formatting import to_json
from ceql.cli.inputs import Files, read_text
from ceql.cli.json_lines import JsonLines
from ceql.cli.output import Output, check_not_read
from ceql.cli.run import Job, lines_of, not_warned_of_late_events, open_sources, say_left_out
from ceql.cli.table import print_table
from ceql.cli.writers import TABLE_LIMIT, ColumnWriter, Format, choose_format
from ceql.errors import naming
from ceql.query import Query, compile
from ceql.query_set import QuerySet
from ceql.results.match_set import MatchSet
from ceql.results.text import between, cell, to_python, to_rows

SUFFIX = ".ceql"
_MAPS = ("bindings", "measures")


def read_folder(folder: Path) -> QuerySet:
    """The queries of a folder, each under the name of its file."""
    paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.is_file())
    if not paths:
        raise UsageError(f"the folder {folder} has no queries: no file whose name ends in {SUFFIX}")
    queries: dict[str, Query] = {}
    for path in paths:
        with naming(path.stem):
            queries[path.stem] = compile(read_text(str(path)))
    return QuerySet(queries)


def count_set(rules: QuerySet, job: Job) -> ExitCode:
    """Prints how many matches each query has."""
    with not_warned_of_late_events():
        matches, sources = _whole(rules, job)
        counts = matches.count()
    say_left_out(sources, matches.late())
    for name, n in counts.items():
        print(f"{n}\t{name}")
    return ExitCode.DONE if any(counts.values()) else ExitCode.NO_MATCH


def run_set(rules: QuerySet, job: Job) -> ExitCode:
    """Writes the matches of all queries, in order. The exit code says whether there are any."""
    format = choose_format(job.format, job.out)
    limit = job.limit
    if limit is None and format is Format.table and job.out is None and not job.streaming:
        limit = TABLE_LIMIT
    output = None
    if job.out is not None:
        check_not_read(job.out, [path for paths in job.files.values() for path in paths])
        output = Output(job.out)
    found, more = 0, False
    try:
        writer = _SetWriter(format, None if output is None else output.path, job.streaming)
        with not_warned_of_late_events():
            for batch in _batches(rules, job):
                if limit is not None and found + batch.num_rows > limit:
                    batch, more = batch.slice(0, limit - found), True
                writer.add(batch)
                found += batch.num_rows
                if more:
                    break
        writer.close()
        if output is not None:
            output.publish()
    finally:
        if output is not None:
            output.discard()
    if more and job.limit is None:
        say(
            f"these are the first {found} matches; --limit-output N shows more, -o FILE writes all, --count counts them"
        )
    return ExitCode.DONE if found else ExitCode.NO_MATCH


def _whole(rules: QuerySet, job: Job) -> tuple[MatchSet, Sequence[JsonLines | Files]]:
    if job.streaming:
        lines = lines_of(job)
        return rules.run(lines.source(), **job.columns), [lines]
    events, sources = open_sources(job)
    return rules.run(events, **job.columns), list(sources.values())


def _batches(rules: QuerySet, job: Job) -> Iterator[pa.RecordBatch]:
    """Matches as they are found; of a pipe, as events arrive. Then says what was left out."""
    if not job.streaming:
        matches, sources = _whole(rules, job)
        yield from matches.to_batches()
        say_left_out(sources, matches.late())
        return
    lines = lines_of(job)
    recognizer = rules.recognizer(**job.columns, keep_rows=False)
    for block in lines:
        yield from recognizer.feed(block).to_batches()
    yield from recognizer.finish().to_batches()
    say_left_out([lines], recognizer.late())


class _SetWriter:
    """Writes rows of the table of all matches."""

    def __init__(self, format: Format, out: Path | None, streaming: bool) -> None:
        self._format = format
        self._streaming = streaming
        self._columns: ColumnWriter | None = None
        self._lines: list[list[str]] = []
        self._heads: list[str] = []
        if format in (Format.csv, Format.parquet, Format.arrow):
            self._columns = ColumnWriter(format, out)
        else:
            self._file = sys.stdout if out is None else out.open("w", encoding="utf-8")

    def add(self, batch: pa.RecordBatch) -> None:
        """Write some matches."""
        names = batch.column("query").cast(pa.string())
        batch = batch.set_column(0, "query", names)
        if self._format is Format.csv:
            for name in _MAPS:  # as JSON objects
                texts = [to_json(dict(value)) for value in to_python(batch.column(name))]
                batch = batch.set_column(batch.schema.get_field_index(name), name, pa.array(texts, pa.string()))
        if self._columns is not None:
            self._columns.write_batch(batch)
        elif self._format is Format.json:
            for row in to_rows(batch):
                row |= {name: dict(row[name]) for name in _MAPS}
                self._file.write(to_json(row) + "\n")
        else:
            self._add_lines(batch)
        if self._streaming:
            self.flush()

    def _add_lines(self, batch: pa.RecordBatch) -> None:
        timed = "end_time" in batch.schema.names
        keys = batch.schema.names[5 if timed else 3 : batch.schema.get_field_index("events")]
        self._heads = ["query", "match", *(["time"] if timed else []), *keys, "events"]
        columns = {name: to_python(batch.column(name), " ") for name in batch.schema.names if name not in _MAPS}
        for k in range(batch.num_rows):
            line = [cell(columns["query"][k]), f"{columns['start'][k]}..{columns['end'][k]}"]
            if timed:
                line.append(between(columns["start_time"][k], columns["end_time"][k]))
            line += [cell(columns[key][k]) for key in keys]
            line.append(cell(", ".join(map(str, columns["events"][k]))))
            if self._streaming:
                self._file.write("  ".join(line) + "\n")
            else:
                self._lines.append(line)

    def flush(self) -> None:
        """Hand on what is written."""
        if self._columns is not None:
            self._columns.flush()
        else:
            self._file.flush()

    def close(self) -> None:
        """Write what is left."""
        if self._columns is not None:
            self._columns.close()
            return
        if self._lines:
            print_table(self._heads, self._lines, self._file)
        self._file.flush()
        if self._file is not sys.stdout:
            self._file.close()
