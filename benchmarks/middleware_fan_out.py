"""Limit: one message to 500 agents costs at most 1.7 times the CPU time of bare h2 and sockets.

The server encodes the message once and frames it for each connection. Bare means: `h2` makes a DATA frame for each
connection, which is written to a socket. The agents are plain sockets in the same process and are not measured.
"""

import asyncio
import socket
import sys
import time
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from ankaios.common.channels import Channel, ToServerChannel
from ankaios.common.messages import BroadcastStates
from ankaios.common.pb.ank_base_pb2 import RUNNING_OK, ExecutionState, WorkloadInstanceName, WorkloadState
from ankaios.common.pb.grpc_api_pb2 import AgentHello, FromServer, ToServer, UpdateWorkloadState
from ankaios.middleware.server import MiddlewareServer
from benchmarks.comparison import run_benchmark

MAX_RATIO, AGENTS, ROUNDS, WINDOW = 1.7, 500, 40, 2**30
BROADCAST, BARE = "one message to 500 agents", "the same with bare h2"
REQUEST = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/grpc_api.AgentConnection/ConnectAgent"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]
PING, PING_RESPONSE = b"ankaios?", b"\0\0\x08\6\1\0\0\0\0ankaios?"
STATE = WorkloadState(
    instanceName=WorkloadInstanceName(workloadName="web", agentName="other", id="x" * 32),
    executionState=ExecutionState(additionalInfo="", running=RUNNING_OK),
)


def prefixed(payload: bytes) -> bytes:
    return b"\0" + len(payload).to_bytes(4, "big") + payload


def a_client(hello: bytes) -> H2Connection:
    """With a window that is never full."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
    client.increment_flow_control_window(WINDOW)
    client.send_headers(1, REQUEST)
    client.send_data(1, hello)
    return client


class Agent:
    """A socket that sends a hello and responds to pings."""

    def __init__(self, name: str, port: int) -> None:
        hello = ToServer(agentHello=AgentHello(agentName=name, protocolVersion="1.0.0"))
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(a_client(prefixed(hello.SerializeToString())).data_to_send())
        self._socket.setblocking(False)

    def received(self) -> int:
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return 0
        if PING in data:
            self._socket.sendall(PING_RESPONSE)
        return len(data)


async def broadcast() -> float:
    channel: ToServerChannel = Channel(1000)
    server = MiddlewareServer(channel, None)
    await server.start("127.0.0.1", 0)
    agents = []
    for number in range(AGENTS):
        agents.append(Agent(f"agent_{number}", server.port))
        await channel.receive()
    await asyncio.sleep(0.1)
    best = float("inf")
    for _ in range(ROUNDS):
        for agent in agents:
            agent.received()
        start = time.process_time()
        server.dispatch(BroadcastStates((STATE,)))
        for _ in range(3):
            await asyncio.sleep(0)
        best = min(best, time.process_time() - start)
        assert all(agent.received() for agent in agents)
    await server.close()
    return best


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far = socket.create_connection(listening.getsockname())
        near, _ = listening.accept()
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def bare() -> float:
    servers, sockets = [], [tcp_pair() for _ in range(AGENTS)]
    for _ in range(AGENTS):
        server = H2Connection(H2Configuration(client_side=False))
        server.initiate_connection()
        server.receive_data(a_client(b"").data_to_send())
        server.send_headers(1, [(":status", "200")])
        servers.append(server)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        message = FromServer(updateWorkloadState=UpdateWorkloadState(workloadStates=[STATE]))
        data = prefixed(message.SerializeToString())
        for server, (near, _) in zip(servers, sockets, strict=True):
            server.send_data(1, data)
            near.send(server.data_to_send())
        best = min(best, time.process_time() - start)
        for _, far in sockets:
            far.recv(65536)
    for near, far in sockets:
        near.close()
        far.close()
    return best


def measure() -> dict[str, float]:
    return {BROADCAST: asyncio.run(broadcast()), BARE: bare()}


def check(times: dict[str, float]) -> int:
    ratio = times[BROADCAST] / times[BARE]
    print(f"{BROADCAST}: {times[BROADCAST] * 1e3:.1f} ms, {BARE}: {times[BARE] * 1e3:.1f} ms")
    print(f"ratio {ratio:.2f}, limit: at most {MAX_RATIO}")
    return 0 if ratio <= MAX_RATIO else 1


if __name__ == "__main__":
    sys.exit(run_benchmark(measure, check))
