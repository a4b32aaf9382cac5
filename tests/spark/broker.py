"""A Kafka broker as a process of this machine: KRaft, one node, on loopback, which can be killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import maven

SECONDS = 90  # for the broker to come up; the machine may be busy
PARTITIONS = 4
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
"""


class Broker:
    """A broker whose data outlives its process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._classes = f"{maven.jars('broker')}/*"
        folder.mkdir(parents=True, exist_ok=True)
        self.port, controller = _free(), _free()
        text = _PROPERTIES.format(port=self.port, controller=controller, logs=folder / "logs")
        self._properties = folder / "server.properties"
        self._properties.write_text(text)
        self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._properties))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self._folder / "broker.log").open("ab") as log:
            command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", self._classes, "kafka.Kafka"]
            self._process = subprocess.Popen([*command, str(self._properties)], stdout=log, stderr=log)
        until = time.monotonic() + SECONDS
        while True:
            assert self._process.poll() is None, (self._folder / "broker.log").read_text()[-3000:]
            assert time.monotonic() < until, f"the broker does not listen after {SECONDS} s"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.2)

    def kill(self) -> None:
        """Kill it at once."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def create(self, *topics: str) -> None:
        """Make topics."""
        for topic in topics:
            name = ["--create", "--topic", topic, "--partitions", str(PARTITIONS)]
            self._run("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.address, *name)

    def _run(self, tool: str, *given: str) -> None:
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", self._classes, tool, *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def broker(folder: Path, *topics: str) -> Iterator[Broker]:
    """A broker that runs, with these topics."""
    own = Broker(folder)
    try:
        own.start()
        own.create(*topics)
        yield own
    finally:
        own.kill()


def _free() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
