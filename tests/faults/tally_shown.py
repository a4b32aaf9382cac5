"""A plugin for `make faults`: shows in the end what the tests did, those of all processes together."""

from __future__ import annotations

from typing import Any

import pytest

import tally


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a process of pytest-xdist: hand the counts over."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["tally"] = dict(tally.counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """In the first process: take them."""
    tally.note(**getattr(node, "workeroutput", {}).get("tally", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show them."""
    shown = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in tally.counts.items())
    terminalreporter.write_line(f"done: {shown}")
