"""The state of a running studio: the data that were loaded, the runs over them, and the limits."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ceql.errors import CeqlError, DataError
from ceql.query import compile
from ceql.studio import asked, loading
from ceql.studio.checking import fit
from ceql.studio.data import Columns, Data
from ceql.studio.examples import EXAMPLES
from ceql.studio.match_index import MatchIndex
from ceql.studio.runs import Run
from ceql.studio.streams import for_query, join

_KEPT = 4  # data sets and runs; those that were not asked for the longest go


class Gone(CeqlError):
    """The page asks for something that is no longer held."""


@dataclass(frozen=True)
class Limits:
    """What one request may take."""

    upload_bytes: int = 1 << 30
    run_seconds: float = 300.0


class Session:
    """The data and the runs of one studio. Several threads use it.

    `first` is what the printed address shows; it is held as long as the studio runs.
    """

    def __init__(self, limits: Limits | None = None, query: str = "", data: Data | None = None) -> None:
        self.limits = limits or Limits()
        self.query = query
        self._ids = map(str, count(1))
        self._data: OrderedDict[str, Data] = OrderedDict()
        self._runs: OrderedDict[str, tuple[Run, MatchIndex | None]] = OrderedDict()
        self._turn = threading.Lock()
        self.first = data
        self.folder = Path.cwd().resolve()
        """Where the studio was started; the page can look at what is below."""

    def new_id(self) -> str:
        return next(self._ids)

    def data(self, id: str | None) -> Data | None:
        """Data by their number; None for none."""
        if not id:
            return None
        if self.first is not None and id == self.first.id:
            return self.first
        with self._turn:
            if id not in self._data:
                raise Gone("these data are no longer loaded; load them again")
            self._data.move_to_end(id)
            return self._data[id]

    def load(self, origin: dict[str, Any], columns: Columns) -> Data:
        """The data that `origin` names: an example, a path, a path to follow, or the paths of several streams."""
        streams, example = asked.streams(origin), asked.text(origin, "example")
        if streams:
            parts = {name: loading.load_path(self.new_id(), path, columns) for name, path in streams.items()}
            return self._keep(join(self.new_id(), parts))
        if example is not None:
            if example not in [known.id for known in EXAMPLES]:
                raise DataError(f"there is no example '{example}'")
            return self._keep(loading.sample(self.new_id(), example, columns))
        load = loading.follow if origin.get("follow") else loading.load_path
        return self._keep(load(self.new_id(), asked.text(origin, "path") or "", columns))

    def upload(self, path: Path, name: str, columns: Columns) -> Data:
        """The data of an uploaded file, which is at `path` for now."""
        try:
            return self._keep(loading.load(self.new_id(), path, {"upload": name}, columns, name))
        except CeqlError as error:
            raise DataError(str(error).replace(str(path), name).replace(path.name, name)) from error

    def add(self, data: Data, other: Data, name: str) -> Data:
        """Data with another stream beside those that are there."""
        parts = {own: self._part(data, own) for own in data.parts} or {stream_name(data.name): data}
        name = name or stream_name(other.name)
        if name in parts:
            raise DataError(f"there is a stream '{name}' already; give this one another name")
        return self._keep(join(self.new_id(), parts | {name: other}))

    def _part(self, data: Data, name: str) -> Data:
        """One of the streams of data by itself."""
        path = data.origin.get("streams", {}).get(name)
        origin = {"upload": name} if path is None else {"path": path}
        table = data.parts[name]
        type = data.columns.type if data.columns.type in table.schema.names else None
        columns = Columns(type, data.columns.time, data.columns.time_unit)
        return Data(data.id, name, origin, columns, table.to_batches())

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
        data = for_query(data, query.plan.query.streams)
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
            self._runs.move_to_end(id)
            return self._runs[id][0]

    def index(self, id: str) -> MatchIndex:
        """The matches of a run, as far as they are found."""
        run = self.found(id)
        with self._turn:
            index = self._runs.get(id, (run, None))[1]
        if index is None or index.count != run.matches:
            index = MatchIndex.of(run)
            with self._turn:
                if id in self._runs:
                    self._runs[id] = run, index
        return index


def stream_name(file: str) -> str:
    """A name for the stream of a file, which FROM can list: the file's own, without its endings.

    >>> stream_name("door events.csv.gz")
    'door_events'
    """
    return re.sub(r"\W", "_", file.partition(".")[0]) or "stream"
