"""Servers that are written here: a receiver of OpenTelemetry's metrics, one that answers 500, one that never answers."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE


class Receiver:
    """Takes OTLP over HTTP; what came is told by `Figures` below."""

    def __init__(self, port: int, token: str):
        self.requests: list[ExportMetricsServiceRequest] = []
        self.wrong: list[str] = []
        mine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked = (self.path, self.headers["Content-Type"], self.headers["Authorization"])
                if asked != ("/v1/metrics", "application/x-protobuf", f"Bearer {token}"):
                    mine.wrong.append(f"asked for {asked}")
                try:
                    mine.requests.append(ExportMetricsServiceRequest.FromString(body))
                except Exception as err:  # noqa: BLE001 what a protobuf's reader throws depends on its build
                    mine.wrong.append(f"no request of OTLP: {err}")
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def refusing(port: int) -> ThreadingHTTPServer:
    """Answers 500 to all."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_error(500)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Silent:
    """Accepts, and never says a word."""

    def __init__(self, port: int):
        self.listener = socket.create_server(("127.0.0.1", port))
        self.held: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            self.held.append(self.listener.accept()[0])


def labels(attributes: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((a.key, a.value.string_value) for a in attributes))


def _number(point: Any) -> int:
    """As a whole number: seconds as ns."""
    return round(point.as_double * 1e9) if point.WhichOneof("value") == "as_double" else point.as_int


def read(request: ExportMetricsServiceRequest) -> dict[str, Any]:
    """What a request says, as plain values: resource, and by metric its kind, unit and points."""
    resource = request.resource_metrics[0].resource.attributes
    told: dict[str, Any] = {"resource": dict(labels(resource)), "metrics": {}}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        kind = metric.WhichOneof("data")
        data = getattr(metric, kind)
        one: dict[str, Any] = {"kind": kind, "unit": metric.unit, "points": {}}
        if kind != "gauge":
            one["cumulative"] = data.aggregation_temporality == CUMULATIVE
        if kind == "sum":
            one["monotonic"] = data.is_monotonic
        one["times"] = sorted({(p.start_time_unix_nano, p.time_unix_nano) for p in data.data_points})
        for p in data.data_points:
            if kind == "histogram":
                is_ = {"count": p.count, "sum": round(p.sum * 1e9), "buckets": list(p.bucket_counts), "bounds": list(p.explicit_bounds)}
            else:
                is_ = _number(p)
            one["points"][labels(p.attributes)] = is_
        told["metrics"][metric.name] = one
    return told
