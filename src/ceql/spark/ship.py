"""Sends compiled kernels to executors, so that their first task compiles nothing.

Executors that have a platform wheel of ceql installed need none of this. For others, the driver packs the kernels that
it has, from its own cache or from its package, and Spark hands the archive to each executor and unpacks it there. It
fits machines with the same versions of Python, Numba and llvmlite, and processors that can do what the driver's can;
others compile for themselves, and say why.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from ceql import jit
from ceql.jit import cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "ceql-kernels-"
_TIME = (1980, 1, 1, 0, 0, 0)
_shipped: WeakSet[SparkSession] = WeakSet()


def ship_kernels(spark: SparkSession) -> int:
    """Send the kernels that are compiled here to the executors of a session; how many they are.

    `ceql.spark.session()` does it for sessions that are not local. A session of your own, also one of Spark Connect, is
    given here once, before its first query. Kernels that are missing here can be compiled by `ceql warm`.
    """
    if jit.INTERPRETED or spark in _shipped:
        return 0
    count = 0
    for place, files in _found():
        _send(spark, _pack(place, files, Path(_folder().name)))
        count += len(files)
    _shipped.add(spark)
    return count


@lru_cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where archives are as long as this process lives, since executors that come later fetch them, too."""
    return tempfile.TemporaryDirectory(prefix=_NAME)


def _found() -> Iterator[tuple[cache.Place, list[Path]]]:
    """The kernels of each place, by their names below it."""
    from ceql.jit.signatures import read_all

    missing = read_all()
    for place in cache.places():
        there = {job: cache.file_of(job.kernel.function, job.arguments, place.target) for job in missing}
        there = {job: name for job, name in there.items() if (place.folder / name).exists()}
        missing = [job for job in missing if job not in there]
        if there:
            yield place, sorted(there.values())


def _pack(place: cache.Place, files: list[Path], folder: Path) -> Path:
    """An archive of these files, named after its content."""
    said = cache.about(place)
    digest = hashlib.sha256("\n".join([said, *map(str, files)]).encode()).hexdigest()[:16]
    path = folder / f"{_NAME}{digest}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(cache.ABOUT, _TIME), said)
        for name in files:
            archive.writestr(zipfile.ZipInfo(name.as_posix(), _TIME), (place.folder / name).read_bytes())
    return path


def _send(spark: SparkSession, archive: Path) -> None:
    named = f"{archive}#{archive.stem}"
    if hasattr(spark, "_jvm"):
        spark.sparkContext.addArchive(named)
    else:
        spark.addArtifacts(named, archive=True)


def look_for_kernels() -> None:
    """In a worker: use what the driver has sent."""
    try:
        from pyspark.core.files import SparkFiles
    except ImportError:  # pyspark-client, which has no workers
        return
    if SparkFiles._is_running_on_worker and SparkFiles._root_directory:
        for root in {SparkFiles._root_directory, os.getcwd()}:
            for folder in sorted(Path(root).glob(f"{_NAME}*/")):
                cache.look_in(folder)


cache.askers.append(look_for_kernels)
