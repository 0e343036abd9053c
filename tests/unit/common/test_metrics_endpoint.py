"""Requests over real sockets."""

import asyncio
import subprocess
import sys

import pytest

from ankaios.common.errors import StartupFailed
from ankaios.common.metrics import Counter, Gauge, Histogram
from ankaios.common.metrics_endpoint import MAX_REQUEST_BYTES, MetricsEndpoint


def some_metrics() -> list[Counter | Gauge | Histogram]:
    counter, gauge = Counter("ankaios_updates", "Updates.", "result"), Gauge("ankaios_agents", "Agents.")
    histogram = Histogram("ankaios_wait_seconds", "Waiting.", bounds=(0.1, 1))
    counter.add('a"b\\c\n')
    gauge.read = lambda: {(): 3}
    histogram.observe(0.5)
    histogram.observe(5)
    return [counter, gauge, histogram]


async def exchange(endpoint: MetricsEndpoint, request: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(request)
    async with asyncio.timeout(10):
        answer = (await reader.read()).decode()
    writer.close()
    return answer


async def answer_to(request: bytes) -> str:
    endpoint = MetricsEndpoint(some_metrics())
    await endpoint.start("127.0.0.1", 0)
    try:
        return await exchange(endpoint, request)
    finally:
        endpoint.close()


async def test_values_are_served_with_their_types() -> None:
    text = await answer_to(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert text.startswith("HTTP/1.1 200 OK\r\n")
    assert 'ankaios_updates_total{result="a\\"b\\\\c\\n"} 1.0' in text
    assert "\nankaios_agents 3.0\n" in text
    assert '\nankaios_wait_seconds_bucket{le="1.0"} 1.0\n' in text
    assert '\nankaios_wait_seconds_bucket{le="+Inf"} 2.0\n' in text
    assert "\nankaios_wait_seconds_sum 5.5\n" in text
    assert "\nprocess_resident_memory_bytes " in text


async def test_a_scraper_that_accepts_open_metrics_gets_it() -> None:
    text = await answer_to(b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n")
    assert "application/openmetrics-text" in text
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [("GET /", "404"), ("POST /metrics", "405"), ("HEAD /metrics", "200"), ("nonsense", "405")],
)
async def test_other_requests_are_rejected(request_line: str, status: str) -> None:
    text = await answer_to(f"{request_line} HTTP/1.1\r\n\r\n".encode())
    assert text.startswith(f"HTTP/1.1 {status} ")
    assert "ankaios_updates" not in text


async def test_a_request_that_is_too_large_ends_the_connection() -> None:
    text = await answer_to(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * MAX_REQUEST_BYTES * 3)
    assert text == ""


async def test_an_address_in_use_is_a_failed_start() -> None:
    first, second = MetricsEndpoint([]), MetricsEndpoint([])
    await first.start("127.0.0.1", 0)
    try:
        with pytest.raises(StartupFailed, match="Address already in use"):
            await second.start("127.0.0.1", first.port)
    finally:
        first.close()


def test_modules_for_metrics_are_not_loaded_until_they_are_served() -> None:
    modules = "ankaios.server.program, ankaios.server.durable_serving, ankaios.agent.agent"
    script = f"import sys, {modules}; print('prometheus_client' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False\n"
