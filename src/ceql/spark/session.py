"""The session that the rest works with: the one there is, or a quiet local one that needs nothing but Python.

What the user has said comes first: a session that runs, `spark-submit`, Spark Connect, the environment,
`spark-defaults.conf`. What nobody has said is chosen here, before Java is started: which Java (see `java`), and that
the workers run the driver's own interpreter, whose packages they need. They inherit the driver's environment through
the JVM, and with it the folder of compiled kernels (see `ceql.jit`), where any process finds what another has
compiled.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ceql.errors import CeqlError
from ceql.spark.java import choose_java
from ceql.spark.ship import ship_kernels

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOG_CONFIG = Path(__file__).with_name("log4j2.properties")


def session(master: str | None = None, app: str = "ceql", config: Mapping[str, str] | None = None) -> SparkSession:
    """The running session, with `config` where it can still be set; else a new one, local unless told otherwise.

    A local session has no web page, listens to this machine alone, and logs errors only. What
    `spark-defaults.conf` or `config` say about that is respected. Executors elsewhere are sent the kernels that are
    compiled here (`ship_kernels`).
    """
    from pyspark.sql import SparkSession

    settings: dict[str, Any] = dict(config or {})
    running = _context()
    if running is not None and master not in (None, running.master):
        raise CeqlError(
            f"a Spark session with the master {running.master} is running already; stop it to have one with {master}"
        )
    if running is None and not _is_remote(settings):
        prepare()
        settings.setdefault("spark.app.name", app)
        if master is not None:
            settings["spark.master"] = master
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has read the defaults
            said = _defaults() | settings
            chosen = said.get("spark.master") or os.environ.get("MASTER") or "local[*]"
            if chosen.startswith("local"):
                settings |= {key: value for key, value in _local(chosen).items() if key not in said}
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    context = _context()
    if context is None or not str(context.master).startswith("local"):
        ship_kernels(spark)
    return spark


def prepare() -> None:
    """Set the environment of sessions that will be made: JAVA_HOME and PYSPARK_PYTHON, where they need it.

    Does nothing for a server of Spark Connect and under `spark-submit`, and nothing the second time.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ or _context() is not None or _is_remote({}):
        return
    python = _defaults().get("spark.pyspark.python", sys.executable)
    if python and not os.environ.get("PYSPARK_PYTHON"):
        os.environ["PYSPARK_PYTHON"] = python
    choose_java()


def _context() -> SparkContext | None:
    """Spark's driver, where it runs in this process."""
    try:
        from pyspark import SparkContext
    except ImportError:  # pyspark-client knows Spark Connect alone
        return None
    return SparkContext._active_spark_context


def _is_remote(config: Mapping[str, str]) -> bool:
    """Whether sessions are those of a server that others have started: `local` would start one here, with Java."""
    from pyspark.util import is_remote_only

    url = config.get("spark.remote") or os.environ.get("SPARK_REMOTE") or ""
    connected = "SPARK_CONNECT_MODE_ENABLED" in os.environ and "SPARK_LOCAL_REMOTE" not in os.environ
    return is_remote_only() or connected or (url != "" and not url.startswith("local"))


def _local(master: str) -> dict[str, str]:
    """The settings of a local session, each unless the user has set it.

    Every micro-batch of a stream has a task for each partition, however few rows there are: two hundred, as Spark has
    it, take seconds. Batches begin with more than cores, and Spark joins those that turn out small.
    """
    threads = re.match(r"local\[(\d+)", master)
    cores = int(threads[1]) if threads else os.cpu_count() or 1
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": "ceql.spark.daemon",
        # Spark sets it for some Python functions and not for others, which then have a daemon of their own
        "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(8 * max(2, cores)),
    }
    if not (_conf_folder() / "log4j2.properties").exists():
        quiet["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOG_CONFIG.as_uri()}"
    return quiet


def _defaults() -> dict[str, str]:
    """The settings of `spark-defaults.conf` and PYSPARK_SUBMIT_ARGS, which those of a builder would override."""
    found = {}
    file = _conf_folder() / "spark-defaults.conf"
    if file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            setting = re.fullmatch(r"\s*([^\s#!=:]+)(?:\s*[=:]\s*|\s+)(.*?)\s*", line)
            if setting is not None:
                found[setting[1]] = setting[2]
    for option, value in pairwise(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        if option == "--master":
            found["spark.master"] = value
        elif option == "--conf":
            key, _, value = value.partition("=")
            found[key] = value
    return found


def _conf_folder() -> Path:
    import pyspark

    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    return Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf"))
