"""The file of `-o`: written beside its place and renamed once it is whole.

So a command that fails leaves what was there before, and nobody ever reads half a file. What is not a regular file (a
pipe, `/dev/null`) is written in place.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ceql.cli.exit_codes import UsageError


class Output:
    """Writers write to `path`; `publish` or `discard` says what becomes of it."""

    def __init__(self, wanted: Path):
        self._wanted = Path(os.path.realpath(wanted))  # through links, so that these stay
        self.path = self._wanted
        if not os.path.exists(self._wanted) or self._wanted.is_file():
            self.path = self._wanted.with_name(f".{self._wanted.name}.{os.getpid()}.part")
        try:
            self.path.open("wb").close()
            if self.path != self._wanted and self._wanted.exists():
                shutil.copymode(self._wanted, self.path)
        except OSError as error:
            raise UsageError(f"cannot write {wanted}: {error}") from error

    def publish(self) -> None:
        """Put the file in its place. Who has it open may go on writing to it."""
        if self.path != self._wanted:
            with self.path.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(self.path, self._wanted)
            self.path = self._wanted

    def discard(self) -> None:
        """Remove the file unless it is in its place."""
        if self.path != self._wanted:
            self.path.unlink(missing_ok=True)


@contextmanager
def written(wanted: Path | None, inputs: Iterable[str]) -> Iterator[Path | None]:
    """Where the body is to write the file `wanted`, which is put in its place in the end; None: to the terminal."""
    if wanted is None:
        yield None
        return
    check_not_read(wanted, inputs)
    output = Output(wanted)
    try:
        yield output.path
        output.publish()
    finally:
        output.discard()


def check_not_read(out: Path, inputs: Iterable[str]) -> None:
    """Raises an error if `out` is one of the inputs; standard input may be a file too."""
    if not os.path.isfile(out):  # also where the name is too long, of which Path makes an error
        return
    read = [Path(path) for path in inputs if path != "-"]
    if any(os.path.exists(path) and path.samefile(out) for path in read) or _is_stdin(out):
        raise UsageError(f"{out} has the events: -o must be another file")


def _is_stdin(out: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(sys.stdin.fileno()), out.stat())
    except (OSError, ValueError):  # closed, or no file at all
        return False
