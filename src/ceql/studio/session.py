"""What a studio holds while it runs: the data that were loaded, the runs over them, and the limits."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ceql.errors import CeqlError, DataError
from ceql.query import compile
from ceql.studio import loading
from ceql.studio.checking import fit
from ceql.studio.data import Columns, Data
from ceql.studio.examples import EXAMPLES
from ceql.studio.match_index import MatchIndex
from ceql.studio.runs import Run

_KEPT = 4  # data sets and runs; the oldest go


class Gone(CeqlError):
    """The page asks for something that is no longer held."""


@dataclass(frozen=True)
class Limits:
    """What one request may take."""

    upload_bytes: int = 1 << 30
    run_seconds: float = 300.0


class Session:
    """The data and the runs of one studio. Several threads use it."""

    def __init__(self, limits: Limits | None = None, query: str = "", data: Data | None = None) -> None:
        self.limits = limits or Limits()
        self.query = query
        self._ids = map(str, count(1))
        self._data: OrderedDict[str, Data] = OrderedDict()
        self._runs: OrderedDict[str, tuple[Run, MatchIndex | None]] = OrderedDict()
        self._turn = threading.Lock()
        self.first = data
        if data is not None:
            self._data[data.id] = data

    def new_id(self) -> str:
        return next(self._ids)

    def data(self, id: str | None) -> Data | None:
        """Data by their number; None for none."""
        if not id:
            return None
        with self._turn:
            if id not in self._data:
                raise Gone("these data are no longer loaded; load them again")
            return self._data[id]

    def load(self, origin: dict[str, Any], columns: Columns) -> Data:
        """The data that `origin` names: an example, a path, or a path to follow."""
        if "example" in origin:
            if origin["example"] not in [example.id for example in EXAMPLES]:
                raise DataError(f"there is no example '{origin['example']}'")
            return self._keep(loading.sample(self.new_id(), origin["example"], columns))
        if not isinstance(origin.get("path"), str):
            raise DataError("say which file to load")
        path = Path(origin["path"]).expanduser()
        if origin.get("follow"):
            if not path.is_file():
                raise DataError(f"no such file: {path}")
            return self._keep(loading.follow(self.new_id(), path, columns))
        return self._keep(loading.load(self.new_id(), path, {"path": str(path)}, columns))

    def upload(self, path: Path, name: str, columns: Columns) -> Data:
        """The data of an uploaded file, which is at `path` for now."""
        try:
            return self._keep(loading.load(self.new_id(), path, {"upload": name}, columns, name))
        except CeqlError as error:
            raise DataError(str(error).replace(str(path), name).replace(path.name, name)) from error

    def _keep(self, data: Data) -> Data:
        with self._turn:
            self._data[data.id] = data
            while len(self._data) > _KEPT:
                _, oldest = self._data.popitem(last=False)
                oldest.end()
        return data

    def run(self, text: str, data: Data) -> Run:
        """Begin to run a query; the runs before it are cancelled."""
        query = compile(text)
        fit(query, data)
        run = Run(self.new_id(), query, data, self.limits.run_seconds)
        with self._turn:
            for other, _ in self._runs.values():
                other.cancel()
            self._runs[run.id] = run, None
            while len(self._runs) > _KEPT:
                self._runs.popitem(last=False)
        run.start()
        return run

    def found(self, id: str) -> Run:
        """A run by its number."""
        with self._turn:
            if id not in self._runs:
                raise Gone("this run is no longer held; run the query again")
            return self._runs[id][0]

    def index(self, id: str) -> MatchIndex:
        """The matches of a run, as far as they are found."""
        run = self.found(id)
        with self._turn:
            index = self._runs[id][1]
        if index is None or index.count != run.matches:
            index = MatchIndex.of(run)
            with self._turn:
                self._runs[id] = run, index
        return index
