"""What the benchmarks of a whole cluster share: real processes with an isolated podman, and a subscriber.

`real_cluster` starts `ank-server` and one `ank-agent` and removes everything afterwards. `Listener` runs `ank get
events` and notes when each state of a workload arrives. Times are of the monotonic clock, in seconds.
"""

import json
import os
import queue
import select
import statistics
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.installed import installed_python
from tests.support.cluster import Cluster
from tests.support.isolated_podman import IMAGE, IsolatedPodman, why_no_podman

AGENT = "agent_A"
RUNNING = "Running(Ok)"
CONNECTED = "connected"
LIMIT = 90.0
MASKS = ("workloadStates", "agents")
# Ends immediately after the stop signal, so that its own delay is not measured.
OPTIONS = ("--stop-signal=KILL",)
COMMAND = ("sleep", "10000")
PODMAN_RUN = ("podman", "run", "-d", *OPTIONS, IMAGE, *COMMAND)
PODMAN_PS = ("podman", "ps", "--all", "--format=json")
_WORKLOAD = """\
  {name}:
    agent: {agent}
    runtime: podman
    runtimeConfig: |
      image: {image}
      commandOptions: {options}
      commandArgs: {command}
"""


def _program(name: str) -> str:
    """As it is installed: `python -m` would take a few milliseconds more than the installed program."""
    return str(installed_python().with_name(name))


class RealCluster(Cluster):
    """A cluster whose only agent runs containers of `podman`."""

    def __init__(self, podman: IsolatedPodman) -> None:
        super().__init__(podman.environ, [str(installed_python())])
        self.podman = podman

    def ank_command(self, *arguments: str) -> list[str]:
        return [_program("ank"), "--insecure", "--server-url", self.url, *arguments]

    def manifest(self, names: Iterable[str]) -> str:
        options, command = json.dumps(OPTIONS), json.dumps(COMMAND)
        workloads = (
            _WORKLOAD.format(name=name, agent=AGENT, image=IMAGE, options=options, command=command) for name in names
        )
        return "apiVersion: v1\nworkloads:\n" + "".join(workloads)

    def apply_and_wait(self, names: Collection[str]) -> float:
        """`ank apply` until all are running; the seconds from the start of `ank` to its end."""
        command = self.ank_command("apply", str(self.write("apply.yaml", self.manifest(names))))
        output = self.folder / "apply.out"
        seconds = seconds_of(command, self.environ, output)
        text = output.read_text()
        if (running := text.rpartition("WORKLOAD NAME")[2].count(RUNNING)) != len(names):
            raise SystemExit(f"{running} of {len(names)} workloads are running\n{text}\n{self.logs()}")
        return seconds

    def launch_installed_agent(self) -> None:
        """Without waiting for anything."""
        run_folder = self.folder / "run"
        run_folder.mkdir(exist_ok=True)
        settings = self.write("agent.conf", "version = 'v1'\n")
        with (self.folder / f"{AGENT}.log").open("ab") as log:
            self.agents[AGENT] = subprocess.Popen(
                [_program("ank-agent"), "-k", "-n", AGENT, "-s", self.url, "-r", str(run_folder), "-x", str(settings)],
                env=self.environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    @property
    def agent_pid(self) -> int:
        return self.agents[AGENT].pid

    @property
    def server_pid(self) -> int:
        assert self.server is not None
        return self.server.pid

    def pids(self) -> dict[str, int]:
        """The main process of each running container, by container id."""
        return {entry["Id"]: entry["Pid"] for entry in self.podman.containers() if entry["State"] == "running"}


@contextmanager
def real_cluster() -> Iterator[RealCluster]:
    if reason := why_no_podman():
        raise SystemExit(f"this cannot be measured here: {reason}")
    with IsolatedPodman() as podman, closing(RealCluster(podman)) as cluster:
        cluster.start_server()
        cluster.launch_installed_agent()
        cluster.wait_until("the agent is connected", lambda: AGENT in cluster.state("agents").get("agents", {}))
        yield cluster


class Listener:
    """A subscriber of `ank get events`. `next` returns the time of arrival, a workload and its state, one by one.

    An agent that appears is returned like a workload in the state `CONNECTED`.
    """

    def __init__(self, cluster: RealCluster) -> None:
        self._states: queue.SimpleQueue[tuple[float, str, str]] = queue.SimpleQueue()
        self._ready = threading.Event()
        command = cluster.ank_command("get", "events", "-o", "json", "--include-current-state", *MASKS)
        self._process = subprocess.Popen(command, env=cluster.environ, stdout=subprocess.PIPE)
        threading.Thread(target=self._read, name="events", daemon=True).start()
        if not self._ready.wait(LIMIT):
            raise SystemExit(f"no answer of 'ank get events' within {LIMIT:g} s\n{cluster.logs()}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            now = time.monotonic()
            event = json.loads(line)
            for path in event.get("addedFields", ()):
                if path.startswith("agents."):
                    self._states.put((now, path.split(".")[1], CONNECTED))
            for workloads in event["completeState"].get("workloadStates", {}).values():
                for name, instances in workloads.items():
                    for state in instances.values():
                        self._states.put((now, name, f"{state['state']}({state['subState']})"))
            self._ready.set()

    def next(self) -> tuple[float, str, str]:
        try:
            return self._states.get(timeout=LIMIT)
        except queue.Empty:
            raise SystemExit(f"no event within {LIMIT:g} s") from None

    def wait_for(self, name: str, state: str) -> float:
        return self.wait_for_all({name}, state)

    def wait_for_all(self, names: Collection[str], state: str) -> float:
        """The time at which the last of them was reported in this state."""
        missing = set(names)
        while True:
            now, name, found = self.next()
            if found == state:
                missing.discard(name)
            if not missing:
                return now

    def skip(self) -> None:
        """Drop all states that have arrived so far."""
        while not self._states.empty():
            self._states.get_nowait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(10)


def seconds_of(command: Sequence[str], environ: Mapping[str, str], output: Path = Path(os.devnull)) -> float:
    """From its start to its end, which a process descriptor reports: `wait` with a limit polls only every 50 ms."""
    with output.open("wb") as stdout:
        begin = time.monotonic()
        process = subprocess.Popen(command, env=environ, stdout=stdout)
        descriptor = os.pidfd_open(process.pid)
        ended, _, _ = select.select([descriptor], [], [], LIMIT)
        seconds = time.monotonic() - begin
    os.close(descriptor)
    if not ended:
        process.kill()
    if process.wait() != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode} after {seconds:.1f} s")
    return seconds


def spread(name: str, seconds: Sequence[float]) -> str:
    """One line for a table."""
    median, best, worst = (1000 * value for value in (statistics.median(seconds), min(seconds), max(seconds)))
    return f"{name:<34} median {median:7.1f} ms   best {best:7.1f} ms   worst {worst:7.1f} ms"


def verdict(holds: bool) -> int:
    """The last line and the exit code."""
    load = os.getloadavg()[0]
    print(
        f"{'within the limit' if holds else 'LIMIT EXCEEDED'} (load of the machine {load:.1f}, {os.cpu_count()} cores)"
    )
    return 0 if holds else 1
