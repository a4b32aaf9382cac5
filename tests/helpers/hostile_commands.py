"""Command lines that nobody should type: odd options, and files that are empty, odd or not there."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from typer.testing import CliRunner

from ceql.cli.app import app
from hostile_texts import changed

_RUNNER = CliRunner()
_QUERY = "SELECT * WHERE A AS x ; B FILTER x[v > 1] WITHIN 5 EVENTS"
_COMMANDS = ("run", "run", "run", "explain", "diagnose", "translate", "walk", "")
_OUTPUTS = ("out.csv", "out.parquet", "out.json", "out.arrow", "out.what", "no/such/out.csv", "events.csv")
_OPTIONS = [
    option.split("|")
    for option in (
        "--count", "--events", "--format|json", "--format|csv", "--format|table", "--format|?", "--type|type",
        "--type|", "--type|v", "--time|time", "--time|", "--time|nothing", "--time-unit|ms", "--lateness|5 seconds",
        "--lateness|-1", "--lateness|inf", "--limit-output|2", "--limit-output|0", "--limit-output|99999999999999",
        "--aggregate|n=COUNT(*)", "--aggregate|n", "--aggregate|n=SUM(x.v)", "--by|v", "--every|1 minute", "--every|no",
        "--skip-bad-lines", "--input-format|csv", "--input-format|json", "--input-format|arrow", "--no-progress",
        "--stream|S", "--stream|S=none", "--mermaid", "--dot", "--unknown", "", "-", "--", "\ud800", "a\0b",
    )
]  # fmt: skip


def command(dice: random.Random) -> bool:
    """Run a command line; whether it did its work. It fails by exit codes alone, and leaves its input as it is."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lines = _write(folder, dice)
        arguments = _arguments(folder, dice)
        inputs = [Path(name) for name in arguments[2:] if Path(name).name.startswith("events.")]
        before = {path: path.read_bytes() for path in inputs if "-o" not in arguments or str(path) != arguments[-1]}
        result = _RUNNER.invoke(app, arguments, input=lines)
        assert result.exit_code in (0, 1, 2, 3, 4, 5), f"{arguments}: {result.exit_code}: {result.output[-2000:]}"
        assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
        assert "Traceback" not in result.output, arguments
        for path, data in before.items():
            assert path.read_bytes() == data, f"{arguments} changed {path.name}, an input"
    return result.exit_code in (0, 1)


def _write(folder: Path, dice: random.Random) -> str:
    """Files in the folder; the events as lines for standard input."""
    rows = [{"type": dice.choice("AB"), "time": k, "v": k} for k in range(20)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "events.jsonl").write_text(lines)
    (folder / "events.csv").write_text("type,time,v\n" + "".join(f"{r['type']},{r['time']},{r['v']}\n" for r in rows))
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), folder / "events.parquet")
    (folder / "empty.csv").write_text("")
    (folder / "empty.parquet").write_text("")
    (folder / "odd.json").write_bytes(dice.randbytes(60))
    (folder / "query.ceql").write_text(_QUERY)
    return lines


def _arguments(folder: Path, dice: random.Random) -> list[str]:
    names = [str(path) for path in sorted(folder.iterdir())] + [str(folder), str(folder / "none.csv"), "S=none", "-"]
    queries = [_QUERY, _QUERY, changed(_QUERY, dice), str(folder / "query.ceql"), dice.choice(names)]
    arguments = [dice.choice(_COMMANDS), dice.choice(queries)]
    good = [name for name in names if Path(name).name.startswith("events.")]
    arguments += dice.choices(good if dice.random() < 0.7 else names, k=dice.choice([0, 1, 1, 1, 2]))
    for option in dice.choices(_OPTIONS, k=dice.choice([0, 0, 1, 1, 2, 3])):
        arguments += option
    return arguments + (["-o", str(folder / dice.choice(_OUTPUTS))] if dice.random() < 0.4 else [])
