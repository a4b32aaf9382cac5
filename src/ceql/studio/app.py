"""The routes of the studio. Each asks the session, off the event loop, and answers in JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import ceql
from ceql.errors import CeqlError, QueryError
from ceql.query import compile
from ceql.studio import automaton_view, match_view, timeline_view
from ceql.studio.checking import check, fit
from ceql.studio.data import Columns, Data
from ceql.studio.diagnosis_view import diagnosis
from ceql.studio.examples import EXAMPLES
from ceql.studio.exports import code, matches_file
from ceql.studio.limited import Limited
from ceql.studio.security import Guard, TooLarge, refuse_large
from ceql.studio.session import Gone, Session
from ceql.studio.streams import for_query, to_input
from ceql.syntax.functions import AGGREGATES, FUNCTIONS

STATIC = Path(__file__).with_name("static")
Body = dict[str, Any]
Answer = Callable[[Request], Awaitable[Response]]


def make_app(session: Session, token: str, port: int) -> Starlette:
    """The application; `port` is the one that it is reached at."""
    routes = Routes(session)
    return Starlette(
        routes=[
            Route("/", page),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/api/start", routes.asking(routes.start)),
            Route("/api/data", routes.telling(routes.load), methods=["POST"]),
            Route("/api/data/{data}", routes.asking(routes.data)),
            Route("/api/upload", routes.upload, methods=["POST"]),
            Route("/api/check", routes.telling(routes.check), methods=["POST"]),
            Route("/api/run", routes.telling(routes.run), methods=["POST"]),
            Route("/api/run/{run}", routes.asking(routes.status)),
            Route("/api/run/{run}/cancel", routes.telling(routes.cancel), methods=["POST"]),
            Route("/api/run/{run}/lanes", routes.asking(routes.lanes)),
            Route("/api/run/{run}/matches", routes.asking(routes.matches)),
            Route("/api/run/{run}/match/{match:int}", routes.asking(routes.match)),
            Route("/api/run/{run}/steps/{match:int}", routes.asking(routes.steps)),
            Route("/api/run/{run}/matches.{format}", routes.export),
            Route("/api/overview", routes.asking(routes.overview)),
            Route("/api/explain", routes.telling(routes.explain), methods=["POST"]),
            Route("/api/diagnose", routes.telling(routes.diagnose), methods=["POST"]),
            Route("/api/automaton", routes.telling(routes.automaton), methods=["POST"]),
            Route("/api/code", routes.telling(routes.code), methods=["POST"]),
        ],
        middleware=[Middleware(Guard, token=token, port=port, most_bytes=session.limits.upload_bytes)],
        exception_handlers={TooLarge: refuse_large, CeqlError: refuse},
    )


async def page(request: Request) -> Response:
    """The page itself."""
    return FileResponse(STATIC / "index.html")


async def refuse(request: Request, error: Exception) -> Response:
    """What is wrong, as the user reads it."""
    return JSONResponse({"problem": str(error)}, 410 if isinstance(error, Gone) else 422)


class Routes:
    """The answers."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def asking(self, answer: Callable[[Request], Body]) -> Answer:
        """A route that reads its path and query alone."""

        async def route(request: Request) -> Response:
            return JSONResponse(await run_in_threadpool(answer, request))

        return route

    def telling(self, answer: Callable[[Request, Body], Body]) -> Answer:
        """A route that is sent JSON."""

        async def route(request: Request) -> Response:
            if "application/json" not in request.headers.get("content-type", ""):
                return JSONResponse({"problem": "JSON is expected"}, 415)
            try:
                body = await request.json()
            except ValueError:
                body = None
            if not isinstance(body, dict):
                return JSONResponse({"problem": "a JSON object is expected"}, 400)
            return JSONResponse(await run_in_threadpool(answer, request, body))

        return route

    def start(self, request: Request) -> Body:
        first = self.session.first
        return {
            "version": ceql.__version__,
            "query": self.session.query,
            "data": first.summary() if first is not None else None,
            "examples": [example._asdict() for example in EXAMPLES],
            "functions": sorted(FUNCTIONS),
            "aggregates": list(AGGREGATES),
        }

    def load(self, request: Request, body: Body) -> Body:
        return self._added(self.session.load(body, _columns(body)), body).summary()

    def _added(self, data: Data, body: Body) -> Data:
        """Data beside those that are shown already, where the page asks for that (`add`), under the name `stream`."""
        shown = self.session.data(body.get("add"))
        return data if shown is None else self.session.add(shown, data, str(body.get("stream") or ""))

    def data(self, request: Request) -> Body:
        return self._data({"data": request.path_params["data"]}).summary()

    async def upload(self, request: Request) -> Response:
        name = Path(request.query_params.get("name", "upload")).name
        with tempfile.TemporaryDirectory(prefix="ceql-") as folder:
            path = Path(folder) / f"upload{''.join(Path(name).suffixes[-2:])}"
            with path.open("wb") as file:
                async for chunk in request.stream():
                    file.write(chunk)
            asked = dict(request.query_params)
            data = await run_in_threadpool(self.session.upload, path, name, _columns(asked))
            data = await run_in_threadpool(self._added, data, asked)
        return JSONResponse(await run_in_threadpool(data.summary))

    def check(self, request: Request, body: Body) -> Body:
        return check(_text(body), self.session.data(body.get("data")))

    def run(self, request: Request, body: Body) -> Body:
        return self.session.run(_text(body), self._data(body)).status()

    def status(self, request: Request) -> Body:
        return self.session.found(request.path_params["run"]).status()

    def cancel(self, request: Request, body: Body) -> Body:
        run = self.session.found(request.path_params["run"])
        run.cancel()
        run.wait(2.0)
        return run.status()

    def overview(self, request: Request) -> Body:
        asked = request.query_params
        index = self.session.index(asked["run"]) if asked.get("run") else None
        data = index.run.data if index is not None else self._data(dict(asked))
        return timeline_view.overview(data, index, _whole(asked.get("width"), 800))

    def lanes(self, request: Request) -> Body:
        asked = request.query_params
        index = self.session.index(request.path_params["run"])
        low, high = timeline_view.extent(index.places)
        return timeline_view.lanes(
            index,
            _number(asked.get("low"), low),
            _number(asked.get("high"), high),
            _whole(asked.get("width"), 800),
            _whole(asked.get("first"), 0),
            _whole(asked.get("count"), 40),
            asked.get("by", "key"),
        )

    def matches(self, request: Request) -> Body:
        asked = request.query_params
        index = self.session.index(request.path_params["run"])
        return match_view.matches(index, _whole(asked.get("first"), 0), _whole(asked.get("count"), 100))

    def match(self, request: Request) -> Body:
        index = self.session.index(request.path_params["run"])
        return match_view.match(index, _of(index.count, request))

    def steps(self, request: Request) -> Body:
        index = self.session.index(request.path_params["run"])
        return automaton_view.steps(index, _of(index.count, request))

    async def export(self, request: Request) -> Response:
        format = request.path_params["format"]
        if format not in ("parquet", "csv"):
            return JSONResponse({"problem": "matches are exported as parquet or csv"}, 404)
        index = await run_in_threadpool(self.session.index, request.path_params["run"])
        content = await run_in_threadpool(matches_file, index, format)
        kind = "text/csv" if format == "csv" else "application/vnd.apache.parquet"
        headers = {"Content-Disposition": f'attachment; filename="matches.{format}"'}
        return Response(content, media_type=kind, headers=headers)

    def explain(self, request: Request, body: Body) -> Body:
        data = self.session.data(body.get("data"))
        query = compile(_text(body))
        if data is None or not data.table.num_columns:
            return {"text": str(query.explain())}
        fit(query, data)
        return {"text": str(query.explain(data.table.schema, **data.columns.options))}

    def diagnose(self, request: Request, body: Body) -> Body:
        query, data = compile(_text(body)), self._data(body)
        fit(query, data)
        data = for_query(data, query.plan.query.streams)
        events = to_input(data, lambda table, name: Limited(table, name, self.session.limits.run_seconds))
        return diagnosis(query.diagnose(events, **data.columns.options))

    def automaton(self, request: Request, body: Body) -> Body:
        return automaton_view.automaton(compile(_text(body)))

    def code(self, request: Request, body: Body) -> Body:
        text = _text(body)
        compile(text)
        return code(text, self.session.data(body.get("data")))

    def _data(self, body: Body) -> Data:
        data = self.session.data(body.get("data"))
        if data is None:
            raise Gone("load events first: a file, or one of the examples")
        return data


def _text(body: Body) -> str:
    text = body.get("query")
    if not isinstance(text, str):
        raise QueryError("there is no query")
    return text


def _columns(body: Body) -> Columns:
    def name(key: str) -> str | None:
        value = body.get(key)
        return value if isinstance(value, str) and value else None

    return Columns(name("type"), name("time"), name("unit"))


def _whole(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() else default


def _number(text: str | None, default: float) -> float:
    try:
        return float(text) if text is not None else default
    except ValueError:
        return default


def _of(count: int, request: Request) -> int:
    number: int = request.path_params["match"]
    if number >= count:
        raise Gone(f"there is no match {number + 1}")
    return number
