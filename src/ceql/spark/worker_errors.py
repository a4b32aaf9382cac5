"""Errors of a worker, as they reach the driver.

Spark sends an exception of a worker to the driver as text: the worker's stack, Spark's own frames first, and the
message at the end. For ceql's own errors the message is what counts, so a task asks Spark to leave the stack out
(`message_alone`). What an action then raises is still Spark's exception. `errors` turns it into ceql's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyspark.errors import PySparkException

from ceql import errors as ceql_errors
from ceql.errors import CeqlError, ResourceError

T = TypeVar("T")
_HIDE = "SPARK_HIDE_TRACEBACK"
"""Spark's worker looks at this variable when it reports an exception."""
# the message ends where the JVM's stack or Spark's own words begin
_RAISED = re.compile(
    r"(?:^|\s)ceql\.errors\.(\w+): (.*?)(?=\n\n|\n\s*at |\n=== | SQLSTATE: |\Z)", re.DOTALL | re.MULTILINE
)
_LIMITS = ("memory", "max_states")


@contextmanager
def message_alone() -> Iterator[None]:
    """In a task: have Spark report an error of ceql by its message, without the stack.

    The process of the worker ends after it has reported an exception, so this concerns no other.
    """
    try:
        yield
    except CeqlError:
        from pyspark import TaskContext  # a client of Spark Connect may lack it

        if TaskContext.get() is not None:
            os.environ[_HIDE] = "1"
        raise


def by_message(found: Iterator[T]) -> Iterator[T]:
    """The same items; an error of ceql on the way is reported by its message."""
    with message_alone():
        yield from found


@contextmanager
def errors() -> Iterator[None]:
    """Raises errors of ceql's tasks as what they are: `DataError`, `ResourceError` and so on, message first.

        with ceql.spark.errors():
            match(payments, query).write.parquet("frauds/")

    Without it an action raises PySpark's `PythonException`, and a streaming query's `awaitTermination` its
    `StreamingQueryException`; both have the message in their text. They are the cause (`__cause__`) of what is raised
    here. Exceptions that are not ceql's pass unchanged. Also a decorator: `@ceql.spark.errors()`.
    """
    try:
        yield
    except PySparkException as error:
        raised = raised_in_task(str(error))
        if raised is None:
            raise
        raise raised from error


def raised_in_task(text: str) -> CeqlError | None:
    """The error of ceql that the text of a Spark exception tells of, if there is one."""
    found = _RAISED.findall(text)
    if not found:
        return None
    name, message = found[-1]
    kind = getattr(ceql_errors, name, CeqlError)
    message = message.strip()
    if not (isinstance(kind, type) and issubclass(kind, CeqlError)):
        return CeqlError(message)
    if issubclass(kind, ResourceError):
        return ResourceError(message, next((limit for limit in _LIMITS if limit in message), ""))
    return kind(message)
