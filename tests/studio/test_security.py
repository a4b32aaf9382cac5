"""The studio answers its own page, and nobody else."""

from __future__ import annotations

import pytest
from tests.studio.served import TOKEN, Studio, serving

from ceql.studio.security import HEADER
from ceql.studio.session import Limits, Session


def test_without_the_token_there_is_no_answer(studio: Studio) -> None:
    del studio.headers[HEADER]
    for path in (
        "/api/start",
        "/api/run/1/matches.csv",
        "/nowhere",
        f"/api/start?token={TOKEN}",
        "/static/../api/start",
    ):
        assert studio.get(path).status in (403, 404), path
        assert studio.get(path, {"cookie": f"ceql-{studio.port}={TOKEN}"}).status in (403, 404), path
    assert studio.get("/api/start", {HEADER: "wrong"}).status == 403
    assert studio.send("POST", "/", b"").status == 403
    assert studio.get("/api/start", {HEADER: TOKEN}).status == 200


def test_the_page_holds_no_secret_and_sets_no_cookie(studio: Studio) -> None:
    """Cookies know no ports: another user's server on the same host would be sent them."""
    assert studio.address == f"http://127.0.0.1:{studio.port}/#token={TOKEN}"  # a fragment, which is not sent
    own = studio.get("/api/start").headers
    del studio.headers[HEADER]
    for path in ("/", "/static/main.js", f"/?token={TOKEN}"):
        answer = studio.get(path)
        assert answer.status == 200
        assert TOKEN.encode() not in answer.content
        assert "set-cookie" not in answer.headers
    assert "set-cookie" not in own


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1{port}"])
def test_another_host_is_refused(studio: Studio, host: str) -> None:
    assert studio.get("/api/start", {"host": host.format(port=studio.port)}).status == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:1"},
    ],
)
def test_another_site_is_refused(studio: Studio, headers: dict[str, str]) -> None:
    assert check(studio, headers) == 403


def test_the_own_page_is_answered(studio: Studio) -> None:
    assert check(studio, {"origin": f"http://127.0.0.1:{studio.port}", "sec-fetch-site": "same-origin"}) == 200


def check(studio: Studio, headers: dict[str, str], body: bytes = b'{"query": "SELECT * WHERE A"}') -> int:
    return studio.send("POST", "/api/check", body, {"content-type": "application/json"} | headers).status


def test_what_is_no_json_is_refused(studio: Studio) -> None:
    assert check(studio, {"content-type": "text/plain"}, b"{}") == 415
    assert check(studio, {}, b"[1]") == 400
    assert check(studio, {}, b"{") == 400


def test_large_uploads_are_refused() -> None:
    body = b'{"type": "A"}\n' * 100
    with serving(Session(Limits(upload_bytes=1000))) as small:
        assert small.upload("e.jsonl", body).status == 413
        unannounced = iter([body[k : k + 100] for k in range(0, len(body), 100)])
        assert small.upload("e.jsonl", unannounced).status == 413


def test_answers_have_the_headers_that_keep_other_pages_out(studio: Studio) -> None:
    for path in ("/", "/api/start", "/nowhere"):
        headers = studio.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_an_upload_cannot_choose_its_path(studio: Studio) -> None:
    answer = studio.upload("../../../etc/passwd.jsonl", b'{"type": "A"}\n')
    assert answer.json()["name"] == "passwd.jsonl"
