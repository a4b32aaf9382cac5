"""The routes of the studio. Each asks the session, off the event loop, and answers in JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import ceql
from ceql.errors import CeqlError
from ceql.query import compile
from ceql.row_patterns.dialects import DIALECTS
from ceql.studio import asked, automaton_view, match_view, statements, timeline_view
from ceql.studio.asked import Body, Malformed
from ceql.studio.checking import check, fit
from ceql.studio.data import Data
from ceql.studio.diagnosing import Diagnosing
from ceql.studio.examples import EXAMPLES
from ceql.studio.exports import code, matches_file
from ceql.studio.folder import listing
from ceql.studio.match_table import Order, matches
from ceql.studio.rules import rules
from ceql.studio.security import Guard, TooLarge, refuse_large
from ceql.studio.session import Gone, Session
from ceql.syntax.functions import AGGREGATES, FUNCTIONS

STATIC = Path(__file__).with_name("static")
Answer = Callable[[Request], Awaitable[Response]]


def make_app(session: Session, token: str, port: int) -> Starlette:
    """The application; `port` is the one that it is reached at."""
    routes = Routes(session)
    return Starlette(
        routes=[
            Route("/", page),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/api/start", routes.asking(routes.start)),
            Route("/api/files", routes.asking(routes.files)),
            Route("/api/rules", routes.asking(routes.rules)),
            Route("/api/data", routes.telling(routes.load), methods=["POST"]),
            Route("/api/data/{data}", routes.asking(routes.data)),
            Route("/api/upload", routes.upload, methods=["POST"]),
            Route("/api/check", routes.telling(routes.check), methods=["POST"]),
            Route("/api/run", routes.telling(routes.run), methods=["POST"]),
            Route("/api/run/{run}", routes.asking(routes.status)),
            Route("/api/run/{run}/cancel", routes.telling(routes.cancel), methods=["POST"]),
            Route("/api/run/{run}/lanes", routes.asking(routes.lanes)),
            Route("/api/run/{run}/matches", routes.asking(routes.matches)),
            Route("/api/run/{run}/match/{match}", routes.asking(routes.match)),
            Route("/api/run/{run}/steps/{match}", routes.asking(routes.steps)),
            Route("/api/run/{run}/matches.{format}", routes.export),
            Route("/api/overview", routes.asking(routes.overview)),
            Route("/api/explain", routes.telling(routes.explain), methods=["POST"]),
            Route("/api/diagnose", routes.diagnose, methods=["POST"]),
            Route("/api/sql", routes.telling(routes.sql), methods=["POST"]),
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
    status = error.status if isinstance(error, Malformed) else 410 if isinstance(error, Gone) else 422
    return JSONResponse({"problem": str(error)}, status)


class Routes:
    """The answers."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.diagnosing = Diagnosing(session.limits.run_seconds)

    def asking(self, answer: Callable[[Request], Body]) -> Answer:
        """A route that reads its path and query alone."""

        async def route(request: Request) -> Response:
            return JSONResponse(await run_in_threadpool(answer, request))

        return route

    def telling(self, answer: Callable[[Request, Body], Body]) -> Answer:
        """A route that is sent JSON."""

        async def route(request: Request) -> Response:
            body = await asked.json_object(request)
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
            "dialects": list(DIALECTS),
        }

    def files(self, request: Request) -> Body:
        return listing(self.session.folder, request.query_params.get("folder", ""))

    def rules(self, request: Request) -> Body:
        given = request.query_params
        return rules(self.session.folder, given.get("folder", ""), given.get("check") == "1")

    def load(self, request: Request, body: Body) -> Body:
        return self._added(self.session.load(body, asked.columns(body)), body).summary()

    def _added(self, data: Data, body: Body) -> Data:
        """Data beside those that are shown already, where the page asks for that (`add`), under the name `stream`."""
        shown, name = self.session.data(asked.text(body, "add")), asked.text(body, "stream")
        return data if shown is None else self.session.add(shown, data, name or "")

    def data(self, request: Request) -> Body:
        return self._data({"data": request.path_params["data"]}).summary()

    async def upload(self, request: Request) -> Response:
        name = Path(request.query_params.get("name", "upload")).name
        with tempfile.TemporaryDirectory(prefix="ceql-") as folder:
            path = Path(folder) / f"upload{asked.suffixes(name)}"
            with path.open("wb") as file:
                async for chunk in request.stream():
                    file.write(chunk)
            body = dict(request.query_params)
            data = await run_in_threadpool(self.session.upload, path, name, asked.columns(body))
            data = await run_in_threadpool(self._added, data, body)
        return JSONResponse(await run_in_threadpool(data.summary))

    def check(self, request: Request, body: Body) -> Body:
        return check(asked.query(body), self.session.data(asked.text(body, "data")))

    def run(self, request: Request, body: Body) -> Body:
        return self.session.run(asked.query(body), self._data(body)).status()

    def status(self, request: Request) -> Body:
        return self.session.found(request.path_params["run"]).status()

    def cancel(self, request: Request, body: Body) -> Body:
        run = self.session.found(request.path_params["run"])
        run.cancel()
        run.wait(2.0)
        return run.status()

    def overview(self, request: Request) -> Body:
        given = request.query_params
        index = self.session.index(given["run"]) if given.get("run") else None
        data = index.run.data if index is not None else self._data(dict(given))
        return timeline_view.overview(data, index, asked.whole(given.get("width"), 800))

    def lanes(self, request: Request) -> Body:
        given = request.query_params
        index = self.session.index(request.path_params["run"])
        low, high = timeline_view.extent(index.places)
        wanted = timeline_view.Asked(
            low=asked.number(given.get("low"), low),
            high=asked.number(given.get("high"), high),
            width=asked.whole(given.get("width"), 800),
            first=asked.whole(given.get("first"), 0),
            count=asked.whole(given.get("count"), 40),
            by=given.get("by", "key"),
            match=asked.whole(given.get("match"), -1),
        )
        return timeline_view.lanes(index, wanted)

    def matches(self, request: Request) -> Body:
        given = request.query_params
        index = self.session.index(request.path_params["run"])
        first, count = asked.whole(given.get("first"), 0), asked.whole(given.get("count"), 100)
        order = Order(
            asked.whole(given.get("sort"), -1), given.get("descending") == "1", given.get("filter", "")[:1000]
        )
        return matches(index, first, count, order, asked.whole(given.get("match"), -1))

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
        data = self.session.data(asked.text(body, "data"))
        query = compile(asked.query(body))
        if data is None or not data.table.num_columns:
            return {"text": str(query.explain())}
        fit(query, data)
        return {"text": str(query.explain(data.table.schema, **data.columns.options))}

    async def diagnose(self, request: Request) -> Response:
        body = await asked.json_object(request)
        query, data = asked.query(body), self._data(body)
        return JSONResponse(await self.diagnosing.answer(request, query, data))

    def sql(self, request: Request, body: Body) -> Body:
        return statements.answer(asked.query(body), self._data(body), asked.text(body, "dialect") or None)

    def automaton(self, request: Request, body: Body) -> Body:
        return automaton_view.automaton(compile(asked.query(body)))

    def code(self, request: Request, body: Body) -> Body:
        text = asked.query(body)
        compile(text)
        return code(text, self.session.data(asked.text(body, "data")))

    def _data(self, body: Body) -> Data:
        data = self.session.data(asked.text(body, "data"))
        if data is None:
            raise Gone("load events first: a file, or one of the examples")
        return data


def _of(count: int, request: Request) -> int:
    number = asked.whole(request.path_params["match"], count)
    if number >= count:
        raise Gone(f"there is no match {request.path_params['match'][:10]}")
    return number
