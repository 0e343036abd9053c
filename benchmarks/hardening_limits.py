"""Limit: the limits against exhaustion are effective. One line for each: value, limit, ok; all of one run.

Hostile peers attack a real server with three agents that must stay connected, and a workload that ends immediately runs
on a real agent. Times are meaningful on an idle machine only. Takes a minute. Without podman, `podman pause` is
left out; the limits of the handling of many workloads are measured in `benchmarks/large_updates.py` with more detail.

    PYTHONPATH=. python benchmarks/hardening_limits.py
"""

import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from ankaios.cli.connection import commander_hello as greeting
from ankaios.cli.session import Session
from ankaios.common.pb.ank_base_pb2 import CompleteState
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from benchmarks import server_listen
from benchmarks.budgets import Budgets, show_pause
from benchmarks.large_updates import WORKLOADS, desired
from benchmarks.real_cluster import real_cluster
from tests.support.certificates import Authority
from tests.support.cluster import Cluster
from tests.support.flooding_client import FloodingClient
from tests.support.hostile_peers import (
    DATA,
    MIB,
    RST_STREAM,
    WINDOW_UPDATE,
    RawPeer,
    ServerLoad,
    an_admitted_peer,
    commander_hello,
    connect_and_close,
    frame,
    in_background,
    open_idle_connections,
    state_request,
)
from tests.support.isolated_podman import why_no_podman
from tests.support.latency_probe import LatencyProbe
from tests.support.wire.peer import ServerProcess

AGENTS = 3
MEDIAN_LIMIT = 50.0  # ms


class Target:
    """A server with three agents."""

    def __init__(self, server: ServerProcess, stack: ExitStack) -> None:
        assert server.process is not None
        self.server, self.port, self.pid = server, server.port, server.process.pid
        for number in range(AGENTS):
            stack.enter_context(server.agent(f"n{number}")).receive()
        self.load = ServerLoad(self.pid)

    @property
    def lines(self) -> int:
        return len(self.server.log.splitlines())

    def lost_agents(self) -> int:
        with self.session() as session:
            return AGENTS - len(session.complete_state("agents").agents.agents)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A new one for each use, because it does not respond to the server while it is not used."""
        settings = ConnectionSettings(f"http://127.0.0.1:{self.port}")
        with connect_blocking(settings, Method.COMMAND, greeting()) as connection:
            yield Session(connection, 600_000)

    def update(self, *states: CompleteState) -> None:
        with self.session() as session:
            for state in states:
                session.update(state, WORKLOADS)


@contextmanager
def attacked(budgets: Budgets) -> Iterator[Target]:
    with ServerProcess("--insecure") as server, ExitStack() as stack:
        target = Target(server, stack)
        yield target
        disconnections = server.log.count("has disconnected") + target.lost_agents()
        budgets.show("  agents that were disconnected by it", disconnections, 0, "")


def show_connections(budgets: Budgets) -> None:
    with attacked(budgets) as target:
        connect_and_close(target.port, 15_000)
        target.lost_agents()  # a response: the server has handled what came before
        budgets.show("15,000 connect-and-close: memory that stays", target.load.memory_growth() / MIB, 30, "MiB")
    with attacked(budgets) as target:
        in_use = target.load.descriptors()
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (in_use + 20, in_use + 20))
        peers = open_idle_connections(target.port, 200)
        time.sleep(3)
        budgets.show("EMFILE for 3 s: lines in the log", target.lines, 50, "")
        for peer in peers:
            peer.close()


def show_handshakes(budgets: Budgets) -> None:
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder), "ecdsa")
        crt, key = authority.certificate_files("server", san="DNS:ank-server", usage="serverAuth")
        flags = ("--ca_pem", str(authority.certificate), "--crt_pem", str(crt), "--key_pem", str(key))
        with ServerProcess(*flags) as server:
            assert server.process is not None
            load = ServerLoad(server.process.pid)
            peers = open_idle_connections(server.port, 600, source="127.0.0.2")
            for peer in peers:
                in_background(partial(peer.sendall, b"\x16\x03\x01\x02\x00"))
            time.sleep(1)
            budgets.show("600 unfinished TLS handshakes: memory", load.memory_growth() / MIB, 100, "MiB")
            for peer in peers:
                peer.close()


def show_unfinished_messages(budgets: Budgets) -> None:
    """Three connections with ten calls, each of which announces 64 MiB and sends as much as it may."""
    with attacked(budgets) as target, ExitStack() as stack:
        for _ in range(3):
            peer = stack.enter_context(RawPeer(target.port))
            streams = [peer.open() for _ in range(10)]
            for stream in streams:
                peer.data(stream, commander_hello() + b"\0" + struct.pack(">I", 64 * MIB))
            in_background(partial(send_parts, peer, streams))
        most, end = 0, time.monotonic() + 6
        while time.monotonic() < end:
            most = max(most, target.load.memory_growth())
            time.sleep(0.05)
        budgets.show("30 unfinished messages: most memory", most / MIB, 280, "MiB")


def send_parts(peer: RawPeer, streams: list[int]) -> None:
    for _ in range(1000):
        for stream in streams:
            peer.send(frame(DATA, 0, stream, bytes(16_384)))


def show_ended_flood(budgets: Budgets) -> None:
    with attacked(budgets) as target:
        peer, stream = an_admitted_peer(target.port)
        time.sleep(0.5)
        peer.data(stream, b"".join(state_request(str(number)) for number in range(10_000)))
        peer.close()
        target.lost_agents()
        before = target.load.cpu()
        time.sleep(2)
        budgets.show("flood of an ended connection: CPU after it", target.load.cpu() - before, 0.5, "s")


def tiny_data(peer: RawPeer, stream: int) -> None:
    peer.send(frame(DATA, 0, stream, b"\0") * 300)


def window_updates(peer: RawPeer, stream: int) -> None:
    peer.send(frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\1") * 90)


def resets(peer: RawPeer, _: int) -> None:
    for _ in range(20):
        peer.send(frame(RST_STREAM, 0, peer.open(), b"\0\0\0\x08"))


def header_churn(peer: RawPeer, _: int) -> None:
    for _ in range(9):
        peer.open()


def show_frames(budgets: Budgets) -> None:
    for attack in (tiny_data, window_updates, resets, header_churn):
        with attacked(budgets) as target:
            threads = [in_background(partial(flood, target.port, attack)) for _ in range(20)]
            with LatencyProbe(target.port) as probe:
                for thread in threads:
                    thread.join(60)
            what = attack.__name__.replace("_", " ")
            budgets.show(f"{what} of 20 peers: others, median", probe.median * 1000, MEDIAN_LIMIT, "ms")


def flood(port: int, attack: Callable[[RawPeer, int], None]) -> None:
    end = time.monotonic() + 2
    peer, stream = an_admitted_peer(port)
    with peer:
        while time.monotonic() < end:
            attack(peer, stream)
            time.sleep(0.1)


def show_fairness(budgets: Budgets) -> None:
    with attacked(budgets) as target:
        target.update(desired(500, "image: x"))
        flooding = FloodingClient(target.port, "desiredState"), FloodingClient(target.port, "desiredState")
        with flooding[0], flooding[1], LatencyProbe(target.port) as probe:
            time.sleep(3)
        budgets.show("two clients that flood: others, median", probe.median * 1000, MEDIAN_LIMIT, "ms")


def show_large_updates(budgets: Budgets) -> None:
    with attacked(budgets) as target:
        target.update(desired(2_000, "image: x"))
        with LatencyProbe(target.port) as probe:
            target.update(desired(0, ""))
        budgets.show("2,000 workloads deleted: longest response", probe.latencies[-1] * 1000, 200, "ms")
        states = [desired(10_000, f"image: {number}") for number in range(3)]
        with LatencyProbe(target.port) as probe:
            target.update(*states)
        budgets.show("10,000 workloads changed: others, median", probe.median * 1000, MEDIAN_LIMIT, "ms")
        budgets.show("10,000 workloads changed: others, longest", probe.latencies[-1] * 1000, 500, "ms")


def show_restarts(budgets: Budgets) -> None:
    with Cluster() as cluster:
        runs = cluster.folder / "runs"
        config = f'command: [sh, -c, "echo run >> {runs}; exit 7"]'
        workload = f"{{agent: agent_A, runtime: native, restartPolicy: ALWAYS, runtimeConfig: '{config}'}}"
        cluster.start_server(f"apiVersion: v1\nworkloads:\n  web: {workload}\n")
        cluster.start_agent("agent_A", runtimes=["native"])
        cluster.wait_until("it ran", runs.exists)
        load = ServerLoad(cluster.agents["agent_A"].pid)
        time.sleep(10)
        count = len(runs.read_text().splitlines())
        budgets.show("workload that ends immediately: starts in 10 s", count, 8, "")
        budgets.show("  CPU of the agent for it", load.cpu_spent() * 10, 10, "%")


def show_listening(budgets: Budgets) -> None:
    times = sorted(server_listen.one_start()[0] for _ in range(5))
    budgets.show("ank-server: listens after (median)", times[2] * 1000, server_listen.LIMIT * 1000, "ms")


def main() -> int:
    budgets = Budgets()
    show_handshakes(budgets)
    show_connections(budgets)
    show_unfinished_messages(budgets)
    show_ended_flood(budgets)
    show_frames(budgets)
    show_fairness(budgets)
    show_large_updates(budgets)
    show_restarts(budgets)
    show_listening(budgets)
    if reason := why_no_podman():
        print(f"podman pause was not measured: {reason}")
    else:
        with real_cluster() as cluster:
            cluster.apply_and_wait(["web"])
            show_pause(budgets, cluster)
    return 0 if budgets.holds else 1


if __name__ == "__main__":
    sys.exit(main())
