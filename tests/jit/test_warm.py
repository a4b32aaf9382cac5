"""`ceql warm` compiles what is listed and says what is missing. Code of another processor is not used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ceql import warm
from ceql.io.sorted_runs import in_order
from ceql.jit import cache, signatures

LINES = "ceql.io.sorted_runs.in_order(int64[1C])\nceql.io.sorted_runs.in_order(int32[1C])\n"


@pytest.fixture
def short_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of two kernels, and an empty cache."""
    path = tmp_path / "list.txt"
    path.write_text(LINES)
    monkeypatch.setattr(signatures.listed, "__defaults__", (path,))
    monkeypatch.setattr(cache, "BEFOREHAND", tmp_path / "beforehand")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CEQL_COMPILED", raising=False)
    cache.beforehand.cache_clear()
    return tmp_path


def test_everything_is_compiled(short_list: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert warm.main(["--check"]) == 1
    assert capsys.readouterr().out == "ceql.io.sorted_runs.in_order (2)\n"
    assert warm.main([]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("ceql: compiling 2 kernels in ")
    assert told[-1].startswith("ceql: 2 kernels compiled in ")
    assert warm.main(["--check"]) == 0
    assert capsys.readouterr().out == "everything is compiled\n"
    assert warm.main([]) == 0
    assert capsys.readouterr().err == "ceql: everything is compiled\n"


def test_code_made_beforehand_is_used_where_it_fits(short_list: Path) -> None:
    warm.warm(quiet=True)
    own = cache.places()[-1]
    shutil.copytree(own.folder, cache.BEFOREHAND)
    shutil.rmtree(own.folder)
    assert len(warm.missing()) == 2
    about = cache.BEFOREHAND / cache.ABOUT
    about.write_text(cache.about(own))
    for change, why in (
        ({"python": "cpython-27"}, "Python is"),
        ({"numba": "0.1.0"}, "not 0.1.0"),
        ({"needs": ["avx1024"]}, "the processor lacks avx1024"),
    ):
        about.write_text(json.dumps(json.loads(cache.about(own)) | change))
        cache.beforehand.cache_clear()
        assert len(warm.missing()) == 2
        assert why in cache.misfits[0]
    about.write_text(cache.about(own))
    cache.beforehand.cache_clear()
    assert warm.missing() == []
    assert not own.folder.exists()


def test_code_that_is_sent_is_found(short_list: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_given", [])
    warm.warm(quiet=True)
    own = cache.places()[-1]
    sent = short_list / "sent"
    shutil.move(own.folder, sent)
    (sent / cache.ABOUT).write_text(cache.about(own))
    assert len(warm.missing()) == 2
    cache.look_in(sent)
    assert warm.missing() == []
    cache.beforehand.cache_clear()


def test_a_kernel_is_called_as_ever(short_list: Path) -> None:
    assert in_order(np.arange(3))
    assert not in_order(np.array([2, 1]))
