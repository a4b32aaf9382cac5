"""MATCH_RECOGNIZE over a stream: rows come some at a time, and a match goes out once no row to come can change it.

What is kept from step to step are rows alone: those that may still be of a match, as many before them as PREV looks at,
and those whose time may still bring others before them. A step reads the rows of each key again from the first start
that is not decided on. So what is kept does not depend on how matches are found.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ceql.errors import DataError
from ceql.jit import Array
from ceql.row_patterns.clauses import span_of
from ceql.row_patterns.expressions import interval
from ceql.row_patterns.matched import Searched
from ceql.row_patterns.pattern import anchors
from ceql.row_patterns.plan import Plan
from ceql.row_patterns.problem import Problems, Refused
from ceql.row_patterns.rows import rows_of
from ceql.row_patterns.words import whole

STAGE, MATCHES = "ceql stage", "ceql matches"
"""Columns of what is kept: the stage of a row, and how many matches its key has had."""
BEHIND, READ, WAITING = range(3)
"""Stages: no match to come has the row, though conditions may look at it; some may; it waits for rows before it."""
MICROSECOND = 1000


def check_stream(plan: Plan, time: str) -> None:
    """Refuse a clause whose matches are never decided on a stream with a watermark on the column `time`."""
    clause, problems = plan.clause, Problems()
    first = clause.order[0] if clause.order else None
    if first is None or first.expression.name.lower() != time.lower() or first.descending:
        place = None if first is None else span_of(first.expression)
        message = f"a stream is matched in order of its watermarked time: ORDER BY begins with '{time}', ascending"
        problems.append(Refused(message, place))
    problems += [
        Refused("a stream has no last row, so $ never holds", anchor.span, "Leave it out.")
        for anchor in anchors(clause.pattern)
        if not anchor.start
    ]
    if plan.pattern.first.empty != plan.pattern.other.empty:
        problems.append(Refused("^ that matches no row is not evaluated over a stream", None, "Leave it out."))
    asked = [*clause.define.values(), *(measure.expression for measure in clause.measures)]
    problems += [
        Refused("a window function (OVER) is not evaluated over a stream", span_of(node))
        for tree in asked
        for node in tree.find_all(exp.Window)
    ]
    if plan.counts:
        message = "MATCH_NUMBER() in DEFINE is not evaluated over a stream"
        problems.append(Refused(message, None, "Leave it to MEASURES."))
    if clause.empty == "unmatched":
        message = "WITH UNMATCHED ROWS is not evaluated over a stream"
        problems.append(Refused(message, None, "Join the matches to the rows in a second query."))
    if problems:
        raise problems.error(plan.sql)


class Stream:
    """A clause over rows that come in steps. Rows are matched in order of their times."""

    def __init__(self, plan: Plan, schema: pa.Schema, time: str, kept: pa.Table | None = None):
        self._plan = plan
        self._time = time
        self._back = max([int(plan.numbered), *(-shift for shift in plan.shifts)])
        self._ahead = max([0, *plan.shifts])
        within = plan.clause.within
        self._width = None if within is None else interval(within) * MICROSECOND
        fields = [*schema, pa.field(STAGE, pa.int8()), pa.field(MATCHES, pa.int64())]
        self.kept = pa.schema(fields).empty_table() if kept is None else kept
        if self.kept.schema.names != [field.name for field in fields]:
            raise DataError("the checkpoint is of a stream with other columns: start with a new checkpoint")
        self.late = 0
        """Rows that came too late in the last step."""
        self.rejected = 0
        """Rows of the last step that have no time."""

    def step(self, rows: pa.Table, until: int | None) -> pa.Table:
        """The rows of the result that are decided once these rows have come, and all others are later than `until`
        (microseconds)."""
        self.rejected = rows[self._time].null_count
        rows = rows.filter(pc.is_valid(rows[self._time]))
        passed = None if until is None else until * MICROSECOND
        times = whole(_combined(rows[self._time]))
        on_time = np.full(len(times), True) if passed is None else times > passed
        self.late = int((~on_time).sum())
        rows = rows.filter(pa.array(on_time))
        count = rows.num_rows
        rows = rows.append_column(STAGE, pa.array(np.full(count, WAITING, np.int8)))
        rows = rows.append_column(MATCHES, pa.array(np.zeros(count, np.int64)))
        table = pa.concat_tables([self.kept, rows.cast(self.kept.schema)]).combine_chunks()
        if passed is None:
            self.kept = table
            return self._searched(table.slice(0, 0), None)[1]
        chosen = self._with_news(table, passed)
        again, result = self._searched(table.filter(pa.array(chosen)), passed)
        self.kept = pa.concat_tables([again, table.filter(pa.array(~chosen))]).combine_chunks()
        return result

    def wakes_at(self) -> int | None:
        """The time (microseconds) from which on there is something to do without new rows."""
        stage = np.asarray(self.kept[STAGE])
        times = whole(_combined(self.kept[self._time]))
        due = [times[stage == WAITING]]
        if self._width is not None and not self._ahead:
            due.append(times[stage == READ] + self._width)
        waiting = np.concatenate(due)
        return -(-int(waiting.min()) // MICROSECOND) if len(waiting) else None

    def _with_news(self, table: pa.Table, passed: int) -> Array:
        """The rows whose time has passed, of keys for which something may be decided."""
        stage = np.asarray(table[STAGE])
        times = whole(_combined(table[self._time]))
        ready = times <= passed
        news = ready & (stage == WAITING)
        if self._width is not None and not self._ahead:
            news |= (stage == READ) & (times + self._width <= passed)
        codes = rows_of(table, self._plan.clause).codes
        if codes is None:
            return np.asarray(ready & news.any())
        with_news = np.zeros(int(codes.max(initial=-1)) + 1, bool)
        with_news[codes[news]] = True
        return np.asarray(ready & with_news[codes])

    def _searched(self, table: pa.Table, passed: int | None) -> tuple[pa.Table, pa.Table]:
        """What is kept of some rows, and the rows of the result."""
        rows = rows_of(table.drop_columns([STAGE, MATCHES]), self._plan.clause)
        stage, matches = (rows.in_order(np.asarray(table[name])) for name in (STAGE, MATCHES))
        bounds = rows.partitions.bounds
        behind = np.concatenate([np.zeros(1, np.int64), np.cumsum(stage == BEHIND)])
        count = behind[bounds[1:]] - behind[bounds[:-1]]
        begin = bounds[:-1] + count
        end = np.maximum(bounds[1:] - self._ahead, begin)
        searched = Searched(begin, end, count == 0, matches[bounds[:-1]])
        result, made, goes_on = self._plan.decided(rows, searched, None if self._ahead else passed)
        of_row, at = rows.partitions.of_row, np.arange(table.num_rows)
        kept = np.flatnonzero(at >= goes_on[of_row] - self._back)
        table = table if rows.order is None else table.take(pa.array(rows.order))
        stages = np.where(at < goes_on[of_row], BEHIND, READ).astype(np.int8)
        table = table.drop_columns([STAGE, MATCHES])
        table = table.append_column(STAGE, pa.array(stages)).append_column(MATCHES, pa.array(made[of_row]))
        return table.take(pa.array(kept)), result


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
