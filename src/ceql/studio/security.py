"""Who may talk to the studio: the user's own browser, from the studio's own page, with the token that was printed.

The server listens on loopback alone. A page of another site can still make the browser send requests there; the checks
of Host (against DNS rebinding), of Origin and Sec-Fetch-Site, and of the token refuse them. What is sent is limited in
size.
"""

from __future__ import annotations

from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-ceql-token"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class TooLarge(Exception):
    """A request has a larger body than is allowed."""


class Guard:
    """Lets through what comes from the studio's own page; the application behind it never sees the rest."""

    def __init__(self, app: ASGIApp, token: str, port: int, most_bytes: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._cookie = f"ceql-{port}"
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = self._refusal(scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        if refused is not None:
            await refused(scope, receive, send_guarded)
        else:
            await self._app(scope, self._limited(scope, receive), send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that is not let through; also to the one that brings the token, as a cookie."""
        headers = Headers(scope=scope)
        if headers.get("host") not in self._hosts:
            return PlainTextResponse("This is no name of the studio. Use the address that it has printed.", 421)
        given = parse_qs(scope["query_string"].decode("latin-1"))
        if scope["path"] == "/" and scope["method"] == "GET" and "token" in given:
            if not compare_digest(given.pop("token")[0].encode(), self._token.encode()):
                return PlainTextResponse("The token is not that of this studio. Use the address it has printed.", 403)
            answer = RedirectResponse("/?" + urlencode(given, doseq=True) if given else "/", 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
            return answer
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return PlainTextResponse("Another site has no business here.", 403)
        if site not in ("none", "same-origin"):
            return PlainTextResponse("Another site has no business here.", 403)
        if not compare_digest(self._token_of(headers).encode(), self._token.encode()):
            return PlainTextResponse("A token is needed. Use the address that the studio has printed.", 403)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most:
            return PlainTextResponse(too_large(self._most), 413)
        return None

    def _token_of(self, headers: Headers) -> str:
        if HEADER in headers:
            return headers[HEADER]
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            cookie = None
        return cookie.value if cookie is not None else ""

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """`receive`, which stops a body that is larger than it said."""
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most:
                raise TooLarge
            return message

        return limited


def too_large(most: int) -> str:
    """What is said of a file that is too large."""
    return f"The file has more than {most >> 20:,} MiB. Load it by its path instead: nothing is copied then."


async def refuse_large(request: Request, error: Exception) -> Response:
    """The answer when `TooLarge` is raised."""
    return PlainTextResponse("The file is too large to be uploaded. Load it by its path instead.", 413)
