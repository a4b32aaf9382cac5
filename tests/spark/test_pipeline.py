"""The pipeline of the examples against a real broker, in short: some thousand events, one kill (long: `make kafka`)."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import broker
import maven
import pipeline


def test_each_alert_is_there_once(tmp_path: Path) -> None:
    try:
        pipeline.link_jars(tmp_path, "connector")
        maven.jars("broker")
    except maven.NoJarsError as error:
        pytest.skip(str(error))
    pipeline.write_rules(tmp_path)
    pq.write_table(pipeline.events(6000), tmp_path / "events.parquet")
    with broker.broker(tmp_path / "broker", *pipeline.TOPICS) as kafka:
        sender = pipeline.Job(tmp_path, kafka.address, "--send", str(tmp_path / "events.parquet"), name="sender")
        running = pipeline.Job(tmp_path, kafka.address, "--master", "local[2]", "--batch", "1000")
        try:
            sender.wait()
            running.expect(lambda: pipeline.done(tmp_path) >= 2)
            time.sleep(0.3)
        finally:
            sender.kill()
            running.kill()
        whole = ["--master", "local[2]", "--once", "--check", str(tmp_path / "events.parquet")]
        last = pipeline.Job(tmp_path, kafka.address, *whole, name="last")
        try:
            last.wait()
        finally:
            last.kill()
    pipeline.report(tmp_path, last)
