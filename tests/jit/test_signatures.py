"""The list of what is compiled beforehand fits the kernels, and lines of it are read as they were written."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from numba import typeof, types

from ceql.engine.common import roots as roots_module
from ceql.io.sorted_runs import in_order
from ceql.jit.signatures import LIST, StaleError, abridged, listed, read, write


def test_every_line_is_a_kernel_as_it_is_now() -> None:
    """If it fails: `make signatures` leaves out what is stale, and `make tests` tells what is missing then."""
    for line in listed():
        job = read(line)
        assert write(job.kernel, job.arguments) == line
        assert len(job.arguments) == len(inspect.signature(job.kernel.function).parameters)


def test_the_list_is_written_as_the_command_writes_it() -> None:
    assert abridged(listed()) == LIST.read_text("utf-8")


def test_types_are_read_as_they_were_written(tmp_path: Path) -> None:
    frozen = np.zeros((2, 2), np.uint8)
    frozen.flags.writeable = False
    roots = roots_module.Roots(np.zeros((2, 2), np.int64), np.zeros(2, np.int64))
    assert in_order(np.zeros(1, np.int64))  # Numba knows records from then on
    kinds = tuple(map(typeof, (frozen, frozen[:, ::2], 3, 2.5, None, True, (1, 2.5), roots)))
    line = write(in_order, kinds)
    path = tmp_path / "list.txt"
    path.write_text(abridged([line]))
    assert listed(path) == [line]
    with pytest.raises(StaleError, match="takes 1 arguments, not 8"):
        read(line)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ceql.nothing.there(int64)", "there is no ceql.nothing.there"),
        ("ceql.io.sorted_runs.merge_of_old(int64)", "there is no ceql.io.sorted_runs.merge_of_old"),
        ("ceql.jit.mix(int64, int64)", "ceql.jit.mix is no kernel"),
        ("ceql.io.sorted_runs.in_order(int65)", "there is no type int65"),
        ("ceql.io.sorted_runs.in_order(ceql.engine.common.roots.Roots(int64))", "has 2 fields, not 1"),
    ],
)
def test_a_line_that_is_stale_says_why(line: str, why: str) -> None:
    with pytest.raises(StaleError, match=why):
        read(line)


def test_arrays_of_the_list_are_numbas() -> None:
    (kind,) = read("ceql.io.sorted_runs.in_order(int64[1C!])").arguments
    assert kind == types.Array(types.int64, 1, "C", readonly=True)
