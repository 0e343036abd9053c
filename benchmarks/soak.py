"""Limit: a cluster under constant change needs no more resources at the end than after the first minute.

Real processes: a server with a stored state, three agents, 50 workloads (47 native processes, 3 podman containers).
Workloads are changed, deleted, created and killed, one agent is killed and restarted, logs are followed, and events
subscribed to; clients start and end. Once a minute the load pauses until all workloads run, and the memory (PSS), file
descriptors, threads, tasks, processes and files are counted. At the end each may be at most 5 % above its value after
the first minute. Buffers with a limit are filled before, with entries as large as those of the load: the history (1,000
revisions) and the records (30 of each workload). Without podman all workloads are native.

    python benchmarks/soak.py [MINUTES]
"""

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ankaios.cli.connection import commander_hello
from ankaios.cli.session import Session
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from tests.support.cluster import Cluster, free_port
from tests.support.isolated_podman import IMAGE, IsolatedPodman, why_no_podman
from tests.support.leftovers import processes_of

MINUTES, LIMIT = 10.0, 1.05
AGENTS, RESTARTED = ("agent_A", "agent_B", "agent_C"), "agent_C"
WORKLOADS, CONTAINERS, PRINTING = 50, 3, 6
FOLLOWERS, SUBSCRIBERS = 5, 5
CHANGES_FOR_RECORDS, REVISIONS = 6, 1000  # 30 records for each workload, and the limit of the history
PAUSE = 0.4  # seconds between two operations
TIME_LIMIT = 120.0
RUNNING = "Running(Ok)"
PRINTS = ["/bin/busybox", "sh", "-c", "while :; do echo $0 $RANDOM; sleep 0.5; done"]
SLEEPS = ["/bin/busybox", "sleep"]


class Soak:
    """Owns the load: what the workloads are, and the clients."""

    def __init__(self, cluster: Cluster, podman: IsolatedPodman | None, outputs: Path) -> None:
        self.cluster = cluster
        self._podman = podman
        self._outputs = outputs
        self._random = random.Random(1)
        self._version = itertools.count(1)
        self._clients: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {name: free_port() for name in ("server", *AGENTS)}
        self.operations: Counter[str] = Counter()

    # --- what runs

    def start(self) -> None:
        metrics = f"127.0.0.1:{self._ports['server']}"
        storage = f"sqlite:{self.cluster.folder}/store/state.db"
        self.cluster.start_server(None, "--storage", storage, "--metrics", metrics)
        for agent in AGENTS:
            self._start_agent(agent)
        self._update({f"w{number}": self._workload(number) for number in range(WORKLOADS)})
        self.wait_until_running()
        self._fill_buffers()
        for number in range(FOLLOWERS):
            self._follow(number)
        for number in range(SUBSCRIBERS):
            self._subscribe(number)

    def _fill_buffers(self) -> None:
        """The history and the records of workloads grow to their limits; this is not what is measured.

        A revision contains the changed workload, so the history is filled with changes of a workload. Its agent does
        not exist, so that nothing has to start.
        """
        for _ in range(CHANGES_FOR_RECORDS):
            self._update({f"w{number}": self._workload(number) for number in range(WORKLOADS)})
            self.wait_until_running()
        for number in range(REVISIONS):
            self._update({"filling": {**self._workload(number % WORKLOADS), "agent": "absent"}})
        self._update({}, "filling")

    def _start_agent(self, name: str) -> None:
        folder = self.cluster.folder / f"state-{name}"
        metrics = f"127.0.0.1:{self._ports[name]}"
        runtimes = ["native", "podman"] if self._podman else ["native"]
        self.cluster.start_agent(name, "--state-dir", str(folder), "--metrics", metrics, runtimes=runtimes)

    def _workload(self, number: int) -> dict[str, Any]:
        version = str(next(self._version))
        if self._podman and number >= WORKLOADS - CONTAINERS:
            options = ["--stop-signal=KILL"]
            config = {"image": IMAGE, "commandOptions": options, "commandArgs": ["sleep", f"10{version}"]}
            return {"agent": AGENTS[0], "runtime": "podman", "restartPolicy": "ALWAYS", **_config(config)}
        command = [*PRINTS, version] if number < PRINTING else [*SLEEPS, f"10000{version}"]
        agent = AGENTS[number % len(AGENTS)]
        return {"agent": agent, "runtime": "native", "restartPolicy": "ALWAYS", **_config({"command": command})}

    def _update(self, workloads: dict[str, Any], *gone: str) -> None:
        state = {"desiredState": {"apiVersion": "v1", "workloads": workloads}}
        self._send(state, [f"desiredState.workloads.{name}" for name in (*workloads, *gone)])

    def _send(self, state: dict[str, Any], masks: list[str]) -> None:
        settings = ConnectionSettings(self.cluster.url)
        with connect_blocking(settings, Method.COMMAND, commander_hello()) as connection:
            Session(connection, 30_000).update(COMPLETE_STATE.from_form(state), masks)

    def wait_until_running(self) -> None:
        def all_run() -> bool:
            states = self.cluster.states()
            return len(states) == WORKLOADS and all(state == RUNNING for state, _ in states.values())

        self.cluster.wait_until("all workloads run", all_run, TIME_LIMIT, lambda: f"states: {self.cluster.states()}")

    # --- the load

    def operate(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        begin_restart = time.monotonic() + 10
        while time.monotonic() < end:
            self._one_operation()
            if time.monotonic() > begin_restart:
                self._restart_agent()
                begin_restart = time.monotonic() + 25
            time.sleep(PAUSE)

    def _one_operation(self) -> None:
        choices = (self._change, self._kill, self._delete, self._replace_follower, self._replace_subscriber)
        operation = self._random.choices(choices, (5, 3, 1, 1, 1))[0]
        operation()
        self.operations[operation.__name__.strip("_").replace("_", " ")] += 1

    def _any(self) -> int:
        return self._random.randrange(WORKLOADS)

    def _change(self) -> None:
        number = self._any()
        self._update({f"w{number}": self._workload(number)})

    def _delete(self) -> None:
        number = self._any()
        self._update({}, f"w{number}")
        time.sleep(PAUSE)
        self._update({f"w{number}": self._workload(number)})

    def _kill(self) -> None:
        """The main process of a workload."""
        if self._podman and self._random.random() < 0.1:
            self._podman.podman("kill", "--all", check=False)
            return
        notes = list((self.cluster.folder / "run").glob("**/process"))
        with suppress(OSError, ValueError, IndexError):
            os.kill(int(self._random.choice(notes).read_text().split()[0]), signal.SIGKILL)

    def _restart_agent(self) -> None:
        """By turns with and without time to end."""
        number = signal.SIGTERM if self.operations["restart agent"] % 2 else signal.SIGKILL
        self.cluster.kill_agent(RESTARTED, number)
        self._start_agent(RESTARTED)
        self.operations["restart agent"] += 1

    def _replace_follower(self) -> None:
        self._follow(self._random.randrange(FOLLOWERS))

    def _replace_subscriber(self) -> None:
        self._subscribe(self._random.randrange(SUBSCRIBERS))

    def _follow(self, number: int) -> None:
        self._replace(f"logs{number}", "logs", "--follow", f"w{number % PRINTING}", f"w{(number + 1) % PRINTING}")

    def _subscribe(self, number: int) -> None:
        self._replace(f"events{number}", "get", "events", "-o", "json", "workloadStates")

    def _replace(self, name: str, *words: str) -> None:
        self._end_client(name)
        with (self._outputs / name).open("wb") as output:
            command = self.cluster.ank_command(*words)
            self._clients[name] = subprocess.Popen(command, env=self.cluster.environ, stdout=output, stderr=output)

    def _end_client(self, name: str) -> None:
        if client := self._clients.pop(name, None):
            client.terminate()
            client.wait(30)

    def end_clients(self) -> None:
        for name in tuple(self._clients):
            self._end_client(name)

    # --- what is counted

    def figures(self) -> dict[str, float]:
        """At rest."""
        self.wait_until_running()
        self._check_clients()
        self.wait_until_running()
        time.sleep(3)
        assert self.cluster.server is not None
        programs = {"server": self.cluster.server.pid, **{name: it.pid for name, it in self.cluster.agents.items()}}
        found: dict[str, float] = {f"PSS {name} MiB": _pss(pid) for name, pid in programs.items()}
        found |= {f"tasks {name}": self._tasks(name) for name in programs}
        for name, pid in programs.items():
            found[f"descriptors {name}"] = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        found["threads"] = sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in programs.values())
        found["processes"] = len(self._processes())
        found["files"] = sum(len(files) + len(folders) for _, folders, files in os.walk(self.cluster.folder))
        if self._podman:
            found["containers"] = len(self._podman.containers())
        return found

    def _processes(self) -> set[int]:
        """Programs, clients, and the workloads with the processes that keep them."""
        found = set(processes_of(self.cluster.folder, os.getpid()))
        found |= set(processes_of(self._podman.root)) if self._podman else set()
        for cwd in Path("/proc").glob("[0-9]*/cwd"):
            with suppress(OSError):
                if cwd.readlink().is_relative_to(self.cluster.folder):
                    found.add(int(cwd.parts[2]))
        return found

    def _tasks(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[name]}/metrics", timeout=30) as answer:
            found = re.search(r"^ankaios_\w+_tasks (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found
        return float(found[1])

    def _check_clients(self) -> None:
        """`ank logs` ends when its workloads are replaced, and is started again. Every client has to receive.

        A client that has just started may subscribe after a change, so there are changes until it receives one.
        """
        for number in range(FOLLOWERS):
            if self._clients[f"logs{number}"].poll() is not None:
                self._follow(number)
        self.cluster.wait_until("all clients receive", self._change_until_received, TIME_LIMIT)
        for name, client in self._clients.items():
            if client.poll():
                output = (self._outputs / name).read_text()[-1000:]
                raise SystemExit(f"'{name}' ended with {client.returncode}:\n{output}")

    def _change_until_received(self) -> bool:
        number = WORKLOADS - CONTAINERS - 1
        self._update({f"w{number}": self._workload(number)})
        time.sleep(1)
        return all((self._outputs / name).stat().st_size for name in self._clients)


def _config(form: dict[str, Any]) -> dict[str, str]:
    return {"runtimeConfig": json.dumps(form)}


def _pss(pid: int) -> float:
    found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def _print_table(rows: list[dict[str, float]]) -> bool:
    """One line for each figure, one column for each minute. Returns whether all are within the limit."""
    holds = True
    for name in rows[0]:
        values = [row[name] for row in rows]
        within = values[-1] <= values[0] * LIMIT
        holds &= within
        shown = "".join(f"{value:8.1f}" if "MiB" in name else f"{value:8.0f}" for value in values)
        print(f"{name:22}{shown}   {values[-1] / values[0] * 100 - 100:+6.1f} %  {'ok' if within else 'NOT OK'}")
    return holds


def main(minutes: float) -> int:
    podman_missing = why_no_podman()
    with ExitStack() as stack:
        outputs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ank-soak-")))
        podman = None if podman_missing else stack.enter_context(IsolatedPodman())
        cluster = stack.enter_context(Cluster(podman.environ if podman else None))
        soak = Soak(cluster, podman, outputs)
        stack.callback(soak.end_clients)
        (cluster.folder / "store").mkdir()
        soak.start()
        rows, begin = [], time.monotonic()
        for minute in itertools.count(1):
            soak.operate(min(minute, minutes) * 60 - (time.monotonic() - begin))
            rows.append(soak.figures())
            sizes = ", ".join(f"{rows[-1][f'PSS {name} MiB']:.1f}" for name in ("server", *AGENTS))
            print(f"minute {minute}: {dict(soak.operations)}, PSS in MiB {sizes}", flush=True)
            if time.monotonic() - begin >= minutes * 60:
                break
        log = cluster.logs()
    holds = _print_table(rows)
    if "Traceback" in log or "internal error" in log.lower():
        print(log)
        holds = False
    print(f"limit: {LIMIT * 100 - 100:.0f} % above the value of the first minute: {'ok' if holds else 'NOT OK'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES))
