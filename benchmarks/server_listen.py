"""Limit: `ank-server` accepts connections 40 ms after it was started, before it has loaded its code.

Prints the median time from the start of the process to the first connection, and to the first answer.
"""

import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ankaios.cli.connection import commander_hello
from ankaios.cli.session import Session
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from benchmarks.installed import installed_python
from tests.support.cluster import free_port

ROUNDS, LIMIT = 11, 0.040


def one_start() -> tuple[float, float]:
    port = free_port()
    command = [str(installed_python().with_name("ank-server")), "-k", "-a", f"127.0.0.1:{port}"]
    begin = time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.0005)
        listening = time.monotonic() - begin
        with connect_blocking(ConnectionSettings(f"http://127.0.0.1:{port}"), Method.CLI, commander_hello()) as peer:
            Session(peer, 10_000).complete_state("agents")
        answered = time.monotonic() - begin
        server.terminate()
    return listening, answered


def main() -> int:
    listening, answered = zip(*(one_start() for _ in range(ROUNDS)), strict=True)
    print(f"first connection after {statistics.median(listening) * 1000:.0f} ms (best {min(listening) * 1000:.0f} ms)")
    print(f"first answer after {statistics.median(answered) * 1000:.0f} ms (best {min(answered) * 1000:.0f} ms)")
    return int(min(listening) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
