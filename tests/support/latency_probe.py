"""A client in a separate process that measures how long the server takes to answer it.

    with LatencyProbe(server.port) as probe:
        ...  # hostile peers are threads of this process
    assert probe.median < 0.05

It is a separate process because the threads of a hostile peer would delay it.
"""

import json
import subprocess
import sys
import time

from ankaios.cli.connection import commander_hello
from ankaios.cli.session import Session
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method

_ANSWER_MS = 60_000
_PAUSE = 0.01
_END_SECONDS = 70


class LatencyProbe:
    """Sends requests until the end of the block; then the latencies in seconds are in `latencies`, sorted."""

    def __init__(self, port: int) -> None:
        self.latencies: list[float] = []
        command = [sys.executable, "-m", "tests.support.latency_probe", str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    @property
    def median(self) -> float:
        return self.latencies[len(self.latencies) // 2]

    def __enter__(self) -> "LatencyProbe":
        return self

    def __exit__(self, *_: object) -> None:
        output, _ignored = self._process.communicate("", timeout=_END_SECONDS)
        self.latencies = sorted(json.loads(output))


def main(port: int) -> None:
    import os
    import select

    with connect_blocking(ConnectionSettings(f"http://127.0.0.1:{port}"), Method.COMMAND, commander_hello()) as server:
        session = Session(server, _ANSWER_MS)
        session.complete_state("agents")
        print("ready", flush=True)
        latencies: list[float] = []
        while not (select.select([0], [], [], _PAUSE)[0] and not os.read(0, 1)) or not latencies:
            begin = time.monotonic()
            session.complete_state("agents")
            latencies.append(time.monotonic() - begin)
    print(json.dumps(latencies))


if __name__ == "__main__":
    main(int(sys.argv[1]))
