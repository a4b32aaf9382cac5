"""Metrics of streams by rule: from a progress report, and for Prometheus from a listener.

A micro-batch tells of the buckets that it had to do with. So counters are added up from report to report, and sizes are
those that each bucket had last.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from ceql.recognition.metrics import escaped
from ceql.spark.task_metrics import BY_BUCKET, COUNTERS, observed

SIZES = ("partial", "state_bytes")
_HELP = {
    "events": "Events that a rule recognised, without those that can change nothing.",
    "matches": "Matches of a rule.",
    "suppressed": "Matches of a rule that were suppressed.",
    "rejected": "Events without a time that a rule would have read.",
    "partial": "Nodes of the graph of partial matches of a rule.",
    "state_bytes": "Bytes of state of a rule, before they are compressed, without what rules share.",
}
_OF_QUERY = {
    "rows_total": ("counter", "Rows that the sources gave."),
    "late_rows_total": ("counter", "Rows that came too late."),
    "rejected_rows_total": ("counter", "Rows without a time."),
    "batches_total": ("counter", "Micro-batches."),
    "batch_seconds": ("gauge", "Duration of the last micro-batch."),
    "watermark_seconds": ("gauge", "The watermark, in seconds since 1970."),
    "state_bytes": ("gauge", "Bytes of state of all buckets, as they are stored."),
    "offsets_behind": ("gauge", "Records of Kafka that are not read yet, of the partition that is most behind."),
}


def metrics_by_rule(progress: Any) -> dict[str, dict[str, int]]:
    """What a micro-batch did by rule, from a `StreamingQueryProgress` (`query.lastProgress`) or its dict.

    - `events`: events that were recognised, without those that can change nothing to the rule;
    - `matches`, and those that were `suppressed`;
    - `rejected`: events without a time that it would have read;
    - `partial`: nodes of the graph of partial matches, and `state_bytes`, of the buckets that had something to do.

    The name of a query that is alone is "".
    """
    found: dict[str, Counter[str]] = {}
    for counts in _buckets(progress):
        for name, own in counts["rules"].items():
            found.setdefault(name, Counter(dict.fromkeys((*COUNTERS, *SIZES), 0))).update(own)
    return {name: dict(own) for name, own in sorted(found.items())}


def _buckets(progress: Any) -> Iterator[dict[str, Any]]:
    for name, row in observed(progress):
        for text in row.get(BY_BUCKET) or ():
            yield {"match": name, "rules": {}, **json.loads(text)}


class PrometheusMetrics(StreamingQueryListener):
    """The metrics of all streaming queries of a session, as a page that Prometheus reads."""

    def __init__(self, spark: SparkSession, port: int, host: str) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._counted: Counter[tuple[str, str, str]] = Counter()  # by query, rule, name
        self._last: dict[tuple[str, str, int], dict[str, Any]] = {}  # by query, match and bucket: what it told last
        self._of_query: dict[str, dict[str, float]] = {}
        self._server = ThreadingHTTPServer((host, port), _page(self))
        self.port: int = self._server.server_address[1]
        """The port, which was chosen if 0 was asked for."""
        threading.Thread(target=self._server.serve_forever, name="ceql metrics", daemon=True).start()
        spark.streams.addListener(self)

    def stop(self) -> None:
        """Listen no more, and close the port."""
        self._spark.streams.removeListener(self)
        self._server.shutdown()
        self._server.server_close()

    def onQueryStarted(self, event: Any) -> None:
        """Forget the sizes of a run before: this one tells of its own."""
        query = str(event.name or event.id)
        with self._lock:
            self._last = {where: counts for where, counts in self._last.items() if where[0] != query}

    def onQueryProgress(self, event: Any) -> None:
        """Take a report in."""
        self.take(json.loads(event.progress.json))

    def onQueryTerminated(self, event: Any) -> None:
        """Counters stay, so that a restart does not look like a reset."""

    def take(self, progress: Mapping[str, Any]) -> None:
        """Take a report in."""
        query = str(progress.get("name") or progress["id"])
        with self._lock:
            for counts in _buckets(progress):
                self._last[query, counts["match"], counts.get("bucket", 0)] = counts
                for rule, own in counts["rules"].items():
                    for name in COUNTERS:
                        self._counted[query, rule, name] += own.get(name, 0)
            totals = dict.fromkeys((name for name, (kind, _) in _OF_QUERY.items() if kind == "counter"), 0.0)
            known = self._of_query.setdefault(query, totals)
            known["rows_total"] += progress["numInputRows"]
            for name in ("late_rows", "rejected_rows"):
                known[f"{name}_total"] += sum(row[name] for _, row in observed(progress))
            known["batches_total"] += 1
            known["batch_seconds"] = progress["durationMs"].get("triggerExecution", 0) / 1000
            known["state_bytes"] = sum(own["state_bytes"] for (of, *_), own in self._last.items() if of == query)
            watermark = (progress.get("eventTime") or {}).get("watermark")
            if watermark is not None:
                known["watermark_seconds"] = datetime.fromisoformat(watermark).timestamp()
            behind = [(source.get("metrics") or {}).get("maxOffsetsBehindLatest") for source in progress["sources"]]
            if any(behind):
                known["offsets_behind"] = max(float(one) for one in behind if one is not None)

    def text(self) -> str:
        """The metrics in Prometheus' text format."""
        lines = []
        with self._lock:
            for name, (kind, help), samples in self._samples():
                lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{_labels(*key)} {value:.15g}" for key, value in sorted(samples.items())]
        return "\n".join(lines) + "\n"

    def _samples(self) -> Iterator[tuple[str, tuple[str, str], Mapping[Any, float]]]:
        """Each metric: its name, its kind with what it is, and its values by query, or by query and rule."""
        for name in COUNTERS:
            counted = {key[:2]: value for key, value in self._counted.items() if key[2] == name}
            yield f"ceql_rule_{name}_total", ("counter", _HELP[name]), counted
        for name in SIZES:
            sizes: Counter[tuple[str, ...]] = Counter()
            for (query, *_), counts in self._last.items():
                for rule, own in counts["rules"].items():
                    sizes[query, rule] += own.get(name, 0)
            yield f"ceql_rule_{name}", ("gauge", _HELP[name]), sizes
        for name, told in _OF_QUERY.items():
            known = {(query,): own[name] for query, own in self._of_query.items() if name in own}
            yield f"ceql_query_{name}", told, known


def serve_metrics(spark: SparkSession, port: int = 9464, host: str = "127.0.0.1") -> PrometheusMetrics:
    """Serve the metrics of all streaming queries of the session by rule at `http://host:port/metrics`.

    It is a listener of the session, in the driver. `stop()` ends it. By default only this machine can reach it:
    Prometheus elsewhere needs `host="0.0.0.0"`, and a network that lets nobody else in.
    """
    return PrometheusMetrics(spark, port, host)


def _labels(query: str, rule: str | None = None) -> str:
    given = {"query": query} | ({"rule": rule} if rule is not None else {})
    return "{" + ",".join(f'{name}="{escaped(text)}"' for name, text in given.items()) + "}"


def _page(metrics: PrometheusMetrics) -> type[BaseHTTPRequestHandler]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.split("?")[0] in ("/", "/metrics")
            body = metrics.text().encode() if known else b"the metrics are at /metrics\n"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Page
