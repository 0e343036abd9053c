"""Limit: `ank get workloads` takes at most as long as a minimal Python client on grpcio.

That is a process which imports grpcio and the generated messages and makes one round trip. Both connect to the same
local server with ten workloads. Runs alternate, so that other load affects both equally; medians count. The start of
the interpreter is measured and shown as well.
"""

import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.installed import installed_python

MAX_RATIO, ROUNDS, WORKLOADS, START_LIMIT = 1.0, 15, 10, 20.0

INTERPRETER = "bare interpreter"
BARE_CLIENT = """
import queue, sys
import grpc
from ankaios.common.pb.ank_base_pb2 import CompleteStateRequest, Request
from ankaios.common.pb.grpc_api_pb2 import CommanderHello, FromServer, ToServer

requests = queue.SimpleQueue()
requests.put(ToServer(commanderHello=CommanderHello(protocolVersion="1.0.0")))
requests.put(ToServer(request=Request(requestId="1", completeStateRequest=CompleteStateRequest())))
with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}") as channel:
    connect = channel.stream_stream(
        "/grpc_api.CliConnection/ConnectCli",
        request_serializer=ToServer.SerializeToString,
        response_deserializer=FromServer.FromString,
    )
    response = next(connect(iter(requests.get, None))).response
    requests.put(None)
    print(len(response.completeStateResponse.completeState.desiredState.workloads.workloads))
"""


def manifest() -> str:
    workload = "{agent: n1, runtime: podman, runtimeConfig: 'image: docker.io/library/alpine:3'}"
    listed = "".join(f"  workload-{number}: {workload}\n" for number in range(WORKLOADS))
    return f"apiVersion: v1\nworkloads:\n{listed}"


@contextmanager
def running_server() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "startup.yaml"
        file.write_text(manifest())
        words = ["--insecure", "--address", f"127.0.0.1:{port}", "--startup-manifest", str(file)]
        server = subprocess.Popen([installed_python().with_name("ank-server"), *words], stderr=subprocess.DEVNULL)
        try:
            wait_for(port)
            yield port
        finally:
            server.terminate()
            server.wait(10)


def wait_for(port: int) -> None:
    limit = time.monotonic() + START_LIMIT
    while time.monotonic() < limit:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit("the server did not start")


def seconds(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    with running_server() as port:
        url = f"http://127.0.0.1:{port}"
        commands = {
            "ank get workloads": (str(installed_python().with_name("ank")), "-k", "-s", url, "get", "workloads"),
            "bare grpcio client": (sys.executable, "-c", BARE_CLIENT, str(port)),
            INTERPRETER: (str(installed_python()), "-c", "pass"),
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                times[name].append(seconds(*command))
    medians = {name: statistics.median(measured) for name, measured in times.items()}
    for name, median in medians.items():
        print(f"{name:<22} median {median * 1000:6.1f} ms   best {min(times[name]) * 1000:6.1f} ms")
    own = min(times["ank get workloads"]) - min(times[INTERPRETER])
    print(f"of the best ank get workloads {own * 1000:.1f} ms come on top of the interpreter")
    ratio = medians["ank get workloads"] / medians["bare grpcio client"]
    print(f"ratio {ratio:.2f}, limit: at most {MAX_RATIO}")
    return 0 if ratio <= MAX_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
