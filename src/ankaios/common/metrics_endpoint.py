"""Serves the metrics of a program as OpenMetrics at `http://HOST:PORT/metrics`.

Input: metrics, and GET requests of a scraper. Output: text in the format that the scraper accepts. Owns the listening
socket. The event loop of the program answers, so values are read between two messages and no thread is needed
(docs/adr/0044). `prometheus_client`, which writes the format, is loaded only when this module is.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from ankaios.common.errors import StartupFailed
from ankaios.common.metrics import AnyMetric, Counter, Distribution, Gauge, Histogram
from ankaios.common.observation_settings import parse_metrics_address

try:
    from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import CollectorRegistry
except ImportError as error:
    reason = "the Python package 'prometheus_client' is missing: pip install 'ankaios[metrics]'"
    raise StartupFailed("Metrics", reason) from error

METRICS_CONTEXT = "Metrics"
REQUEST_SECONDS = 5.0
MAX_REQUEST_BYTES = 16 * 1024
MAX_CONNECTIONS = 20

log = logging.getLogger(__name__)


def _family(metric: AnyMetric) -> Metric:
    match metric:
        case Counter():
            counters = CounterMetricFamily(metric.name, metric.description, labels=metric.labels)
            for labels, value in metric.values.items():
                counters.add_metric(labels, value)
            return counters
        case Gauge():
            gauges = GaugeMetricFamily(metric.name, metric.description, labels=metric.labels)
            for labels, value in metric.read().items():
                gauges.add_metric(labels, value)
            return gauges
        case Histogram():
            histograms = HistogramMetricFamily(metric.name, metric.description, labels=metric.labels)
            for labels, found in metric.values.items():
                histograms.add_metric(labels, buckets=_buckets(metric.bounds, found), sum_value=found.sum)
            return histograms


def _buckets(bounds: Iterable[float], found: Distribution) -> list[tuple[str, float]]:
    """Each bucket counts all observations up to its bound."""
    total, buckets = 0, []
    for bound, count in zip((*(str(float(bound)) for bound in bounds), "+Inf"), found.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


class MetricsEndpoint:
    def __init__(self, metrics: Iterable[AnyMetric]) -> None:
        self._metrics = tuple(metrics)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self, host: str, port: int) -> None:
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_REQUEST_BYTES)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise StartupFailed(METRICS_CONTEXT, f"cannot listen on '{host}:{port}': {reason}") from error
        log.info("metrics are served on http://%s:%d/metrics", f"[{host}]" if ":" in host else host, self.port)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def collect(self) -> Iterator[Metric]:
        """Convert the values. The registry calls this for each scrape."""
        return map(_family, self._metrics)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request per connection. A client that sends nothing or too much receives no response."""
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                async with asyncio.timeout(REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._response(head.decode("latin-1")))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _response(self, head: str) -> bytes:
        request, *lines = head.split("\r\n")
        method, _, rest = request.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _http("405 Method Not Allowed", "text/plain", b"use GET\n", is_head=False)
        if path != "/metrics":
            return _http("404 Not Found", "text/plain", b"the metrics are at /metrics\n", is_head=method == "HEAD")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        encode, content_type = choose_encoder(headers.get("accept", ""))
        return _http("200 OK", content_type, encode(self._registry), is_head=method == "HEAD")


def _http(status: str, content_type: str, body: bytes, *, is_head: bool) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)


async def start_metrics(address: str, metrics: Iterable[AnyMetric]) -> Callable[[], None]:
    """Start the endpoint. Return the function that stops it."""
    endpoint = MetricsEndpoint(metrics)
    await endpoint.start(*parse_metrics_address(address))
    return endpoint.close
