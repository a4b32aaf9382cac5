"""What the logger `ceql` tells, and that nothing is printed unless it is asked to."""

from __future__ import annotations

import logging
import subprocess
import sys

import ceql


def told(caplog) -> list[str]:
    """The messages but those of compiling, which depend on what other tests have run."""
    return [message for message in caplog.messages if not message.startswith("compiling ")]


EVENTS = [{"type": "A", "time": t, "k": t} for t in (3, 1, 2)]


def test_sorting_is_told(caplog):
    with caplog.at_level(logging.INFO, logger="ceql"):
        ceql.match("SELECT * WHERE A ; A", EVENTS).count()
    assert told(caplog) == ["the stream is not in order of 'time': its 3 rows are sorted"]


def test_late_events_are_told(caplog):
    recognizer = ceql.compile("SELECT * WHERE A").recognizer()
    with caplog.at_level(logging.INFO, logger="ceql"):
        recognizer.feed(EVENTS).count()
    assert told(caplog) == ["the stream: 2 of 3 events came too late"]


def test_collections_and_growth_are_told_to_those_who_ask(caplog):
    many = [{"type": "A", "k": k} for k in range(20_000)]
    query = ceql.compile("SELECT * WHERE A+ ; A PARTITION BY k WITHIN 2 EVENTS")
    with caplog.at_level(logging.INFO, logger="ceql"):
        query.run(many).count()
    assert told(caplog) == []
    with caplog.at_level(logging.DEBUG, logger="ceql"):
        query.run(many).count()
    everything = " ".join(caplog.messages)
    assert "memory collected: " in everything
    assert "the table of partitions grows" in everything


def test_nothing_is_printed_by_default():
    code = "import ceql; r = ceql.compile('SELECT * WHERE A').recognizer(); "
    code += "r.feed([{'type': 'A', 'time': t} for t in (3, 1)]).count()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("", "")
