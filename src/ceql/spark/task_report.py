"""Reports of a task: its warnings, a line of the log at INFO, and ceql's errors by their message.

Workers have no logging of their own. What a task logs goes to the worker's stderr, which is the executor's log, and to
Spark's table of worker logs where that is on. The line at INFO is there if the logger `ceql` of the driver was at INFO
or below when the result was made.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pyarrow as pa

from ceql.spark.worker_errors import message_alone

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_log = logging.getLogger("ceql.spark.task")


class TaskLog:
    """The log of a task; made on the driver, whose level it takes along."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._level = logging.getLogger("ceql").getEffectiveLevel()

    def say(self, message: str) -> None:
        """Log one line at INFO, which begins with the name and the task."""
        if self._level > logging.INFO:
            return
        logger = logging.getLogger("ceql")
        if logger.getEffectiveLevel() > self._level:
            logger.setLevel(self._level)
        hear()
        _log.info("%s, %s: %s", self.name, _task(), message)


def hear() -> None:
    """Let what ceql logs in this worker be heard."""
    logger = logging.getLogger("ceql")
    if not logging.getLogger().handlers and not any(isinstance(h, logging.StreamHandler) for h in logger.handlers):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)


def reported(name: str, task: Task) -> Task:
    """The task, with a line of the log at its end, and errors by their message."""
    log = TaskLog(name)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began = time.perf_counter()
        taken = given = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal taken
            for batch in batches:
                taken += batch.num_rows
                yield batch

        with message_alone():
            for found in task(counted()):
                given += found.num_rows
                yield found
        log.say(f"{taken:,} rows in, {given:,} rows out, {time.perf_counter() - began:.2f} s")
        settle()

    return run


@cache
def settle() -> None:
    """Leave out of garbage collections what this process has loaded; at the end of its first task.

    Spark collects garbage in a worker after every task. Numba, Arrow and ceql are two hundred thousand objects that
    will never be garbage. To look at them all takes a tenth of a second, which is more than many a task.
    """
    gc.freeze()


def _task() -> str:
    from pyspark import TaskContext  # a client of Spark Connect may lack it

    context = TaskContext.get()
    if context is None:
        return "outside a task"
    return f"stage {context.stageId()}, partition {context.partitionId()}, attempt {context.attemptNumber()}"
