"""Rounds in which random programs of a cluster are killed under load, and what must be true afterwards.

Each round: clients change and read workloads at random while a random set of servers, the agent and etcd members is
killed with -9 at a random moment. What was killed is started again. Then the recorded history must be linearizable
(every acknowledged change exists, none partially), every desired workload runs exactly once, nothing else runs, and a
workload that nobody touched has its first process id.
"""

import json
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ankaios.cli.connection import commander_hello
from ankaios.cli.session import RequestFailed, Session
from ankaios.common.errors import AnkaiosError
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from tests.support.device_manifests import native
from tests.support.linearizability import NEVER, Recorded, violations
from tests.support.shared_state_cluster import SharedStateCluster

WORKLOADS = 4
CLIENTS = 3
LOAD_SECONDS = 1.5
_SETTLE_SECONDS = 60.0
_SECRET = 730_000_000  # seconds of sleep; with this offset the processes of this test are recognised
_REJECTED = ("Update rejected", "could not be stored", "cannot accept the request")


class KillRounds:
    def __init__(self, cluster: SharedStateCluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._counter = 0
        self._lock = threading.Lock()
        self.histories: dict[str, list[Recorded]] = {f"w{number}": [] for number in range(WORKLOADS)}
        self.acknowledged = self.unknown = 0
        self._steady = 0

    def begin(self) -> None:
        for name in self._cluster.ports:
            self._cluster.launch(name)
        self._cluster.leader()
        self._cluster.start_agent("node", runtimes=["native"])
        self._cluster.apply(_manifest("steady", _SECRET))
        self._cluster.wait_for("steady", "Running(Ok)")
        self._steady = _running()[_SECRET][0]

    def round(self) -> str:
        """Returns what was killed."""
        end = time.monotonic() + LOAD_SECONDS
        seeds = [self._random.random() for _ in range(CLIENTS)]
        clients = [
            threading.Thread(target=self._load, args=(random.Random(seed), end), name=f"client {number}")
            for number, seed in enumerate(seeds)
        ]
        for client in clients:
            client.start()
        time.sleep(self._random.uniform(0.0, LOAD_SECONDS))
        killed = self._kill()
        for client in clients:
            client.join()
        self._restart(killed)
        self._check()
        return ", ".join(killed)

    def _load(self, chance: random.Random, end: float) -> None:
        while time.monotonic() < end:
            name = chance.choice(list(self.histories))
            try:
                with connect_blocking(
                    ConnectionSettings(self._cluster.url), Method.CLI, commander_hello()
                ) as connection:
                    session = Session(connection, 10_000)
                    for _ in range(chance.randint(1, 5)):
                        self._write(session, name, delete=chance.random() < 0.2)
            except (AnkaiosError, RequestFailed):
                time.sleep(0.05)

    def _write(self, session: Session, name: str, *, delete: bool) -> None:
        with self._lock:
            self._counter += 1
            value = None if delete else _SECRET + self._counter
        state = {"desiredState": {"apiVersion": "v1", "workloads": {} if value is None else {name: _form(value)}}}
        start = time.monotonic()
        try:
            session.update(COMPLETE_STATE.from_form(state), [f"desiredState.workloads.{name}"])
        except (AnkaiosError, RequestFailed) as error:
            if not any(text in str(error) for text in _REJECTED):
                self._record(name, Recorded(start, NEVER, value))
            raise
        self._record(name, Recorded(start, time.monotonic(), value))

    def _record(self, name: str, operation: Recorded) -> None:
        with self._lock:
            self.histories[name].append(operation)
            if operation.end == NEVER:
                self.unknown += 1
            else:
                self.acknowledged += 1

    def _kill(self) -> list[str]:
        cluster, chance = self._cluster, self._random
        candidates = [*cluster.servers, "agent", chance.choice(cluster.etcd.members).name]
        killed = chance.sample(candidates, chance.randint(1, len(candidates)))
        for name in killed:
            if name == "agent":
                cluster.kill_agent("node")
            elif name in cluster.servers:
                cluster.kill(name)
            else:
                self._member(name).kill()
        return killed

    def _member(self, name: str) -> Any:
        return next(member for member in self._cluster.etcd.members if member.name == name)

    def _restart(self, killed: list[str]) -> None:
        cluster = self._cluster
        for name in killed:
            if name == "agent":
                cluster.launch_agent("node", runtimes=["native"])
            elif name in cluster.ports:
                cluster.launch(name)
            else:
                cluster.etcd.start(self._member(name))
        cluster.etcd.wait_until_healthy()
        cluster.leader()

    def _check(self) -> None:
        desired: dict[str, int] = {}

        def settled() -> bool:
            desired.clear()
            desired.update(self._desired())
            return {value: len(pids) for value, pids in _running().items()} == dict.fromkeys(desired.values(), 1)

        self._cluster.wait_until(
            "each desired workload runs exactly once",
            settled,
            _SETTLE_SECONDS,
            lambda: f"desired {desired}, running {_running()}",
        )
        assert _running()[_SECRET] == [self._steady], "the untouched workload was started again"
        wrong = violations(self.histories)
        assert not wrong, {name: self.histories[name] for name in wrong}
        self._forget(desired)

    def _desired(self) -> dict[str, int]:
        """The values of all workloads; the reads are part of the history."""
        start = time.monotonic()
        try:
            state = self._cluster.state("desiredState.workloads")
        except (AnkaiosError, RequestFailed):
            return {}
        workloads = state.get("desiredState", {}).get("workloads", {})
        values = {name: _value(form) for name, form in workloads.items()}
        for name in self.histories:
            self._record(name, Recorded(start, time.monotonic(), values.get(name), writes=False))
            self.acknowledged -= 1
        return values

    def _forget(self, desired: Mapping[str, int]) -> None:
        """Start the next round with the present values, so that the histories stay short."""
        now = time.monotonic()
        for name in self.histories:
            self.histories[name] = [Recorded(now, now, desired.get(name))]


def _form(value: int) -> dict[str, Any]:
    return {"agent": "node", "restartPolicy": "NEVER", **native(["sleep", str(value)])}


def _manifest(name: str, value: int) -> str:
    return json.dumps({"apiVersion": "v1", "workloads": {name: _form(value)}})


def _value(form: Mapping[str, Any]) -> int:
    digits = [word for word in str(form["runtimeConfig"]).replace('"', " ").replace("]", " ").split() if word.isdigit()]
    return int(digits[-1])


def _running() -> dict[int, list[int]]:
    """The process ids of the workloads of this test by value."""
    found: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"sleep") and len(words) > 1 and words[1].isdigit() and int(words[1]) >= _SECRET:
            found.setdefault(int(words[1]), []).append(int(path.parent.name))
    return found
