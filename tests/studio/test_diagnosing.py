"""Diagnoses of the studio: one at a time, within a time, and only as long as somebody waits."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import pytest
from tests.studio.served import Answer, Studio, serving

from ceql.query import Query
from ceql.studio.server import HOST
from ceql.studio.session import Limits, Session


class Watch:
    """How many diagnoses are at work, and how each has ended. Those of `SLOW` read events as long as they may."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.ended: list[str] = []
        self._lock = threading.Lock()

    def wrapped(self, diagnose: Callable[..., Any]) -> Callable[..., Any]:
        def watched(query: Query, events: Any, **options: Any) -> Any:
            with self._lock:
                self.now += 1
                self.most = max(self.most, self.now)
            try:
                while str(query) == SLOW:
                    list(events.batches())
                found = diagnose(query, events, **options)
                self.ended.append("done")
                return found
            except Exception as error:
                self.ended.append(str(error))
                raise
            finally:
                with self._lock:
                    self.now -= 1

        return watched


SLOW = "SELECT * WHERE Payment"


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    found = Watch()
    monkeypatch.setattr(Query, "diagnose", found.wrapped(Query.diagnose))
    yield found
    assert found.now == 0


def until(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not true() and time.monotonic() < limit:
        time.sleep(0.01)
    assert true()


def ask(studio: Studio, query: str, data: str) -> Answer:
    body = json.dumps({"query": query, "data": data}).encode()
    return studio.send("POST", "/api/diagnose", body, {"content-type": "application/json"})


def test_many_at_once_are_one_at_a_time(studio: Studio, watch: Watch, fraud: str) -> None:
    data = studio.load()
    with ThreadPoolExecutor(50) as pool:
        asked = [pool.submit(ask, studio, SLOW, data) for _ in range(49)]
        until(lambda: watch.now == 1)
        assert studio.get("/api/start").status == 200  # those who wait are in nobody's way
        time.sleep(0.5)
        last = pool.submit(ask, studio, fraud, data).result()
        answers = [other.result() for other in asked]
    assert last.status == 200, last.content
    assert watch.most == 1
    assert {answer.status for answer in answers} == {422}
    assert all("another diagnosis was asked for" in answer.json()["problem"] for answer in answers)


def test_one_that_nobody_waits_for_is_cancelled(studio: Studio, watch: Watch) -> None:
    body = json.dumps({"query": SLOW, "data": studio.load()}).encode()
    connection = HTTPConnection(HOST, studio.port)
    connection.request("POST", "/api/diagnose", body, {**studio.headers, "content-type": "application/json"})
    until(lambda: watch.now == 1)
    connection.close()
    until(lambda: watch.now == 0)
    assert watch.ended == ["cancelled: nobody waits for it"]


def test_a_diagnosis_stops_at_the_limit_of_time(watch: Watch) -> None:
    with serving(Session(Limits(run_seconds=0.5))) as studio:
        answer = studio.tell("/api/diagnose", 422, query=SLOW, data=studio.load())
    assert "--time-limit" in answer["problem"]
