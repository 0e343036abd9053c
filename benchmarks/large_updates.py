"""Limit: a large request of one client does not delay the requests of another one beyond 50 ms (median).

One client applies 10,000 workloads, changes all of them, reads the complete state, and deletes everything. Another
client, in another process, measures its response times in the same run; three agents must stay connected.

    PYTHONPATH=. python benchmarks/large_updates.py
    PYTHONPATH=. python benchmarks/large_updates.py --workloads 50000 --storage sqlite:/tmp/state.db
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from ankaios.cli.connection import commander_hello
from ankaios.cli.session import Session
from ankaios.common.errors import AnkaiosError
from ankaios.common.pb.ank_base_pb2 import CompleteState
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from tests.support.hostile_peers import MIB, ServerLoad
from tests.support.latency_probe import LatencyProbe
from tests.support.wire.peer import ServerProcess

MEDIAN_LIMIT = 0.05
AGENTS, ROUNDS = 3, 5
WORKLOADS = ["desiredState.workloads"]


def desired(workloads: int, config: str) -> CompleteState:
    state = CompleteState()
    state.desiredState.apiVersion = "v1"
    state.desiredState.workloads.SetInParent()
    for number in range(workloads):
        entry = state.desiredState.workloads.workloads[f"w{number}"]
        entry.agent, entry.runtime, entry.runtimeConfig = f"n{number % AGENTS}", "podman", config
    return state


def measure(what: str, port: int, work: Callable[[], object]) -> bool:
    """Return whether the median response time of another client is within the limit meanwhile."""
    with LatencyProbe(port) as probe:
        begin = time.monotonic()
        work()
        seconds = time.monotonic() - begin
    is_ok = probe.median <= MEDIAN_LIMIT
    print(
        f"{what:42} {seconds:6.2f} s; another client meanwhile: median {probe.median * 1000:5.1f} ms (limit "
        f"{MEDIAN_LIMIT * 1000:.0f} ms), longest {probe.latencies[-1] * 1000:5.0f} ms, {len(probe.latencies)} "
        f"responses: {'ok' if is_ok else 'not ok'}",
        flush=True,
    )
    return is_ok


def main(workloads: int, storage: str) -> int:
    with ServerProcess("--insecure", "--storage", storage) as server, ExitStack() as stack:
        assert server.process is not None
        agents = [stack.enter_context(server.agent(f"n{number}")) for number in range(AGENTS)]
        for agent in agents:
            agent.receive()
        settings = ConnectionSettings(f"http://127.0.0.1:{server.port}")
        session = Session(stack.enter_context(connect_blocking(settings, Method.COMMAND, commander_hello())), 600_000)
        load = ServerLoad(server.process.pid)
        states = [desired(workloads, f"image: {number}") for number in range(ROUNDS + 1)]

        def change() -> None:
            for state in states[1:]:
                session.update(state, WORKLOADS)

        try:
            results = [
                measure("nothing", server.port, lambda: time.sleep(1)),
                measure(f"apply {workloads} workloads", server.port, lambda: session.update(states[0], WORKLOADS)),
                measure(f"change all of them, {ROUNDS} times", server.port, change),
                measure(
                    "read the complete state, 5 times",
                    server.port,
                    lambda: [session.complete_state() for _ in range(5)],
                ),
                measure("delete all of them", server.port, lambda: session.update(desired(0, ""), WORKLOADS)),
            ]
        except AnkaiosError as error:
            print(f"rejected: {error}")
            results = []
        connected = len(session.complete_state("agents").agents.agents)
        is_ok = all(results) and connected == AGENTS and "has disconnected" not in server.log
        print(
            f"agents connected: {connected} of {AGENTS}; memory of the server: {load.memory() / MIB:.0f} MiB, its "
            f"computing time {load.cpu_spent():.1f} s\n{'ok' if is_ok else 'not ok'}"
        )
        return 0 if is_ok else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workloads", type=int, default=10_000)
    parser.add_argument("--storage", default="memory:")
    given = parser.parse_args()
    sys.exit(main(given.workloads, given.storage))
