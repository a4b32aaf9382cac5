"""Starts the studio on loopback, prints its address, and opens a browser if there is one."""

from __future__ import annotations

import secrets
import socket
import threading
import warnings
import webbrowser

import uvicorn

from ceql.cli.exit_codes import say
from ceql.errors import NoMatchWarning
from ceql.studio.app import make_app
from ceql.studio.session import Session

HOST = "127.0.0.1"


def listening(port: int) -> socket.socket:
    """A socket on loopback; port 0 is any that is free."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind((HOST, port))
    found.listen()  # whoever reads the address may ask at once, and waits until the server is ready
    return found


def serve(session: Session, port: int, browser: bool) -> None:
    """Serve until Ctrl-C."""
    try:
        own = listening(port)
    except OSError:
        own = listening(0)  # another studio has it
    port = own.getsockname()[1]
    # the page says so, at the place in the query; filters are those of the process, so they are set once
    warnings.simplefilter("ignore", NoMatchWarning)
    token = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/#token={token}"
    print(f"The studio is at\n\n    {address}\n\nCtrl-C ends it.", flush=True)
    if browser:
        threading.Thread(target=_open, args=(address,), daemon=True).start()
    config = uvicorn.Config(make_app(session, token, port), log_level="warning", access_log=False, lifespan="off")
    uvicorn.Server(config).run([own])


def _open(address: str) -> None:
    """Open a browser that has a window of its own; one that lives in the terminal would take it over."""
    try:
        found = webbrowser.get()
        if not isinstance(found, webbrowser.GenericBrowser) or isinstance(found, webbrowser.BackgroundBrowser):
            found.open(address)
    except (webbrowser.Error, OSError):
        say("no browser was found: open the address in one")
