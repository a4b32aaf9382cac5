"""Guards the studio: only the user's own browser, from the studio's own page, with the token that was printed.

The server listens on loopback alone. A page of another site can still make the browser send requests there; the checks
of Host (against DNS rebinding), of Origin and Sec-Fetch-Site, and of the token refuse them. What is sent is limited in
size.

The page itself holds no secret and is given to everyone here. It finds the token in the fragment of the printed
address, which browsers do not send, and sends it as a header. A cookie would go to all servers of the host, since
cookies know no ports: also to that of another user.
"""

from __future__ import annotations

from hmac import compare_digest

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
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
        """The answer to a request that is not let through."""
        headers = Headers(scope=scope)
        if headers.get("host") not in self._hosts:
            return PlainTextResponse("This is no name of the studio. Use the address that it has printed.", 421)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return PlainTextResponse("Another site has no business here.", 403)
        if site not in ("none", "same-origin"):
            return PlainTextResponse("Another site has no business here.", 403)
        token = headers.get(HEADER, "")
        if not _is_page(scope) and not compare_digest(token.encode(), self._token.encode()):
            return PlainTextResponse("A token is needed. Use the address that the studio has printed.", 403)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most:
            return PlainTextResponse(too_large(self._most), 413)
        return None

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


def _is_page(scope: Scope) -> bool:
    """Whether the page itself is asked for, or what it is made of."""
    return scope["method"] in ("GET", "HEAD") and (scope["path"] == "/" or scope["path"].startswith("/static/"))


def too_large(most: int) -> str:
    """What is said of a file that is too large."""
    return f"The file has more than {most >> 20:,} MiB. Load it by its path instead: nothing is copied then."


async def refuse_large(request: Request, error: Exception) -> Response:
    """The answer when `TooLarge` is raised."""
    return PlainTextResponse("The file is too large to be uploaded. Load it by its path instead.", 413)
