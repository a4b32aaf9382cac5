"""A studio that is served on a port of its own, and a client that asks it as its page does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlencode

import uvicorn

from ceql.studio.app import make_app
from ceql.studio.security import HEADER
from ceql.studio.server import HOST, listening
from ceql.studio.session import Session

TOKEN = "token-of-the-tests"


@dataclass
class Answer:
    status: int
    headers: Message
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Studio:
    """A studio to talk to. `headers` go with every request; at first they have the token."""

    session: Session
    port: int
    headers: dict[str, str] = field(default_factory=lambda: {HEADER: TOKEN})

    @property
    def address(self) -> str:
        """What the studio would print."""
        return f"http://{HOST}:{self.port}/#token={TOKEN}"

    def send(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: dict[str, str] | None = None,
        **asked: Any,
    ) -> Answer:
        connection = HTTPConnection(HOST, self.port, timeout=120)
        chunked = body is not None and not isinstance(body, bytes)
        try:
            whole = f"{path}?{urlencode(asked)}" if asked else path
            connection.request(method, whole, body, self.headers | (headers or {}), encode_chunked=chunked)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, headers: dict[str, str] | None = None, **asked: Any) -> Answer:
        return self.send("GET", path, None, headers, **asked)

    def ask(self, path: str, status: int = 200, **asked: Any) -> Any:
        answer = self.get(path, **asked)
        assert answer.status == status, answer.content
        return answer.json()

    def tell(self, path: str, status: int = 200, /, **body: Any) -> Any:
        answer = self.send("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})
        assert answer.status == status, answer.content
        return answer.json()

    def upload(self, name: str, content: bytes | Iterable[bytes]) -> Answer:
        headers = {} if isinstance(content, bytes) else {"transfer-encoding": "chunked"}
        return self.send("POST", "/api/upload", content, headers, name=name)

    def load(self, example: str = "fraud") -> str:
        return str(self.tell("/api/data", example=example)["id"])

    def run(self, query: str, data: str) -> dict[str, Any]:
        """Run to the end."""
        status = self.tell("/api/run", query=query, data=data)
        until = monotonic() + 300
        while status["state"] == "running" and monotonic() < until:
            sleep(0.02)
            status = self.ask(f"/api/run/{status['id']}")
        return dict(status)


@contextmanager
def serving(session: Session) -> Iterator[Studio]:
    """Serve a session as long as the block lasts."""
    own = listening(0)
    port = own.getsockname()[1]
    config = uvicorn.Config(make_app(session, TOKEN, port), log_level="error", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([own],), daemon=True)
    thread.start()
    until = monotonic() + 60
    while not server.started and monotonic() < until:
        sleep(0.005)
    try:
        yield Studio(session, port)
    finally:
        server.should_exit = True
        thread.join(10)
