"""Rounds in which random programs of a cluster are killed under load, and what must be true afterwards.

Each round: clients change workloads at random (one workload, two workloads in one request, workloads that claim
devices, deletions), while a random set of servers, the agent and etcd members is killed with -9 at a random moment.
What was killed is started again. Then:

- the recorded history of each register is linearizable: every acknowledged change exists;
- two workloads that are changed by one request have the same value: no change exists partially;
- each desired workload runs exactly once, nothing else runs; of workloads that claim devices as many run as there are
  slots, and the slots belong to these;
- workloads that no request changed have their first process ids, also the one that has claimed a device.
"""

import json
import random
import threading
import time
from collections import Counter
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
from tests.support.device_manifests import CONFIGURATION, cameras, native, users
from tests.support.linearizability import NEVER, Recorded, violations
from tests.support.shared_state_cluster import SharedStateCluster

CLIENTS = 3
LOAD_SECONDS = 1.0
SETTLE_SECONDS = 90.0
# A register is what one request changes as a whole, with the workloads that get its value.
SINGLES = {f"w{number}": (f"w{number}",) for number in range(3)}
PAIRS = {"pair": ("left", "right")}
CLAIMING = {f"d{number}": (f"d{number}",) for number in range(3)}
REGISTERS = {**SINGLES, **PAIRS, **CLAIMING}
STEADY, HOLDER = "steady", "holder"  # workloads that no request changes
FREE_SLOTS = 2  # besides the slot of the holder
VALUES = 1_000_000
_REJECTED = ("Update rejected", "could not be stored", "cannot accept the request")

Histories = dict[str, list[Recorded]]


class KillRounds:
    """`killed` counts what was killed, by kind."""

    def __init__(self, cluster: SharedStateCluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        # The processes of this object are recognised by their argument; others may run the same test.
        self._first_value = self._counter = random.SystemRandom().randrange(100, 2000) * VALUES
        self._lock = threading.Lock()
        self.histories: Histories = {name: [] for name in REGISTERS}
        self.acknowledged = self.unknown = self.rejected = 0
        self.killed: Counter[str] = Counter()
        self._untouched: dict[int, list[int]] = {}
        cluster.environ["DEBUG_ECHO_INSTANCES_SHARED"] = "true"
        cluster.environ["DISCOVERY_HANDLERS_DIRECTORY"] = str(cluster.folder / "handlers")

    def begin(self) -> None:
        for name in self._cluster.ports:
            self._cluster.launch(name)
        self._cluster.leader()
        self._launch_agent()
        steady, holder = self._next_value(), self._next_value()
        manifest = {
            "apiVersion": "v1",
            "workloads": {STEADY: _form(STEADY, steady), HOLDER: _form(HOLDER, holder)},
            **cameras(*(f"camera{number}" for number in range(FREE_SLOTS + 1)), capacity=1),
        }
        self._cluster.apply(json.dumps(manifest))
        for name in (STEADY, HOLDER):
            self._cluster.wait_for(name, "Running(Ok)", seconds=SETTLE_SECONDS)
        self._untouched = self._running()
        assert set(self._untouched) == {steady, holder}

    def round(self) -> str:
        """Returns what was killed."""
        end = time.monotonic() + LOAD_SECONDS
        clients = [
            threading.Thread(target=self._load, args=(random.Random(self._random.random()), end), name=f"client {n}")
            for n in range(CLIENTS)
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

    # --- load

    def _load(self, chance: random.Random, end: float) -> None:
        while time.monotonic() < end:
            settings = ConnectionSettings(self._cluster.url)
            try:
                with connect_blocking(settings, Method.CLI, commander_hello()) as connection:
                    session = Session(connection, 10_000)
                    for _ in range(chance.randint(1, 5)):
                        self._write(session, chance.choice(list(REGISTERS)), delete=chance.random() < 0.3)
            except (AnkaiosError, RequestFailed):
                time.sleep(0.05)

    def _write(self, session: Session, register: str, *, delete: bool) -> None:
        value = None if delete else self._next_value()
        names = REGISTERS[register]
        workloads = {} if value is None else {name: _form(name, value) for name in names}
        state = {"desiredState": {"apiVersion": "v1", "workloads": workloads}}
        start = time.monotonic()
        try:
            session.update(COMPLETE_STATE.from_form(state), [f"desiredState.workloads.{name}" for name in names])
        except (AnkaiosError, RequestFailed) as error:
            if any(text in str(error) for text in _REJECTED):
                self.rejected += 1
            else:
                self.unknown += 1
                self._record(register, Recorded(start, NEVER, value))
            raise
        self.acknowledged += 1
        self._record(register, Recorded(start, time.monotonic(), value))

    def _next_value(self) -> int:
        with self._lock:
            self._counter += 1
            return self._counter

    def _record(self, register: str, operation: Recorded) -> None:
        with self._lock:
            self.histories[register].append(operation)

    # --- kills

    def _kill(self) -> list[str]:
        cluster, chance = self._cluster, self._random
        # Mostly a minority of the etcd members, sometimes so many that etcd cannot write.
        members = [member.name for member in cluster.etcd.members]
        candidates = [*cluster.servers, "agent", *chance.sample(members, chance.choice([1, 1, 1, 2, 3]))]
        killed = chance.sample(candidates, chance.randint(1, len(candidates)))
        for name in killed:
            self.killed["server" if name in cluster.ports else "etcd member" if name in members else name] += 1
            if name == "agent":
                cluster.kill_agent("node")
            elif name in cluster.ports:
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
                self._launch_agent()
            elif name in cluster.ports:
                cluster.launch(name)
            else:
                cluster.etcd.start(self._member(name))
        cluster.etcd.wait_until_healthy()
        cluster.leader()

    def _launch_agent(self) -> None:
        self._cluster.launch_agent("node", "--state-dir", str(self._cluster.folder / "agent"), runtimes=["native"])

    # --- checks

    def _check(self) -> None:
        seen: list[str] = []

        def settled() -> bool:
            seen[:] = self._differences()
            return not seen

        self._cluster.wait_until(
            "each desired workload runs exactly once", settled, SETTLE_SECONDS, lambda: "; ".join(seen)
        )
        running = self._running()
        for value, pids in self._untouched.items():
            assert running[value] == pids, "a workload that no request changed was started again"
        wrong = violations(self.histories)
        assert not wrong, {name: self.histories[name] for name in wrong}
        self._start_new_histories()

    def _differences(self) -> list[str]:
        """Return all differences from the expected result; the read of the state is part of the histories."""
        try:
            desired = self._desired()
            owners = Counter(users(self._cluster).values())
        except (AnkaiosError, RequestFailed) as error:
            return [f"no server responds: {error}"]
        running = {value: len(pids) for value, pids in self._running().items()}
        claiming = {desired[name]: name for name in CLAIMING if name in desired}
        using = {name for value, name in claiming.items() if value in running}
        waiting = {value for value, name in claiming.items() if name not in using}
        expected = Counter(value for value in [*desired.values(), *self._untouched] if value not in waiting)
        found = []
        if running != expected:
            found.append(f"desired {desired}, running {self._running()}")
        if len(using) != min(FREE_SLOTS, len(claiming)):
            found.append(f"{sorted(using)} of {sorted(claiming.values())} run with {FREE_SLOTS} slots")
        if owners != Counter({HOLDER, *using}):
            found.append(f"the slots belong to {dict(owners)}, {sorted(using)} run")
        return found

    def _desired(self) -> dict[str, int]:
        """The values of the workloads that requests change."""
        start = time.monotonic()
        state = self._cluster.state("desiredState.workloads")
        end = time.monotonic()
        workloads = state.get("desiredState", {}).get("workloads", {})
        assert {STEADY, HOLDER} <= set(workloads), f"an acknowledged workload is missing: {sorted(workloads)}"
        values = {name: _value(form) for name, form in workloads.items() if name not in (STEADY, HOLDER)}
        for register, names in REGISTERS.items():
            (value,) = {values.get(name) for name in names}  # else a change is stored partially
            self._record(register, Recorded(start, end, value, writes=False))
        return values

    def _start_new_histories(self) -> None:
        """Begin with the present values, so that the histories stay short. What is not known may still happen."""
        for register, history in self.histories.items():
            last = max((each for each in history if not each.writes), key=lambda each: each.start)
            unknown = [each for each in history if each.end == NEVER and each.start > last.start - 60.0]
            self.histories[register] = [Recorded(0.0, 0.0, last.value), *unknown]

    def _running(self) -> dict[int, list[int]]:
        """The process ids of the workloads of this object by value."""
        found: dict[int, list[int]] = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"sleep") and len(words) > 1 and words[1].isdigit():
                value = int(words[1])
                if self._first_value <= value < self._first_value + VALUES:
                    found.setdefault(value, []).append(int(path.parent.name))
        return found


def _form(name: str, value: int) -> dict[str, Any]:
    form = {"agent": "node", "restartPolicy": "NEVER", **native(["sleep", str(value)])}
    if name in CLAIMING or name == HOLDER:
        form["resources"] = [{"name": CONFIGURATION, "quantity": 1}]
    return form


def _value(form: Mapping[str, Any]) -> int:
    return int(json.loads(form["runtimeConfig"])["command"][-1])
