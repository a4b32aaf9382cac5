"""The cell magic in a shell of IPython."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ceql

EVENTS = [{"kind": "A", "at": 1000}, {"kind": "B", "at": 2000}]


@pytest.fixture
def shell() -> Iterator[Any]:
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    found = interactive.InteractiveShell()
    found.run_line_magic("load_ext", "ceql")
    found.user_ns["events"] = EVENTS
    yield found
    found.history_manager.end_session()


def test_a_cell_shows_its_matches(shell: Any) -> None:
    line = "events --type kind --time at --time-unit ms -o found"
    matches = shell.run_cell_magic("ceql", line, "SELECT * WHERE A ; B WITHIN 1 SECOND")
    assert isinstance(matches, ceql.Matches)
    assert "<svg" in matches._repr_html_()
    assert shell.user_ns["found"] is matches


@pytest.mark.parametrize(
    "shown", ["query.automaton()", "query.diagnose(events, type='kind', time='at')", "query.explain()"]
)
def test_text_is_shown_in_columns_wherever_the_notebook_goes(shell: Any, shown: str) -> None:
    shell.user_ns["query"] = ceql.compile("SELECT * WHERE A ; B WITHIN 1 EVENTS")
    found = shell.run_cell(shown).result
    formats, _ = shell.display_formatter.format(found)
    assert set(formats) == {"text/plain", "text/html"}  # nothing that an exported page has to fetch something for
    assert formats["text/html"].startswith('<pre class="ceql-explain" style="font-family: monospace">')
    assert "<" not in formats["text/html"].split(">", 1)[1].removesuffix("</pre>")


def test_a_mistake_is_a_message_without_a_traceback(shell: Any) -> None:
    from IPython.core.error import UsageError

    with pytest.raises(UsageError, match="expected"):
        shell.run_cell_magic("ceql", "events --type kind", "SELECT * WHERE")
    with pytest.raises(UsageError, match="no such file"):
        shell.run_cell_magic("ceql", "evnts", "SELECT * WHERE A")
    with pytest.raises(UsageError, match="events"):
        shell.run_cell_magic("ceql", "", "SELECT * WHERE A")
