"""Plays a scenario on a simulated cluster and checks the invariants.

Input: a scenario. Output: a `SimulationResult` with all violations and the record of what happened. The same scenario
gives the same result.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

from ankaios.common.workload import InstanceName
from ankaios.simulation import invariants as inv
from ankaios.simulation import scenario as sc
from ankaios.simulation.checks import RunningChecks
from ankaios.simulation.cluster import ClusterOptions, Happening, SimulatedCluster
from ankaios.simulation.determinism import seeded
from ankaios.simulation.disk import SimulatedDisks
from ankaios.simulation.faults import FaultInjector
from ankaios.simulation.isolation import InternalErrors, close, quiet
from ankaios.simulation.leaders import ObservedLeaders
from ankaios.simulation.operator import ACCEPTED, Operator, OperatorChange, Subscriber, desired_state_request
from ankaios.simulation.rest import LOOK_INTERVAL, Finding, RestChecks
from ankaios.simulation.runtime import SimulatedContainer
from ankaios.simulation.scenario import Action, Fault, Scenario, UserAction, Workloads
from ankaios.simulation.virtual_time import EndlessWork, VirtualTimeLoop
from ankaios.simulation.workload_requests import WorkloadSubscriber, request_through_fifos

# Seconds after the last fault in which the cluster must reach the desired state. A failed start is retried after up to
# 300 s, and the workload that depends on it starts after it.
CONVERGENCE_LIMIT = 900.0
# Leases of leaders, in seconds: renewals are most of the work of a long simulation with etcd.
SHORT_LEASE, LONG_LEASE = 10, 30
LONGEST_FAULT = 61.0  # seconds
_FAST = Path("/dev/shm")
# The names of the tasks of operators that change the state.
_APPLY, _DELETE, _ROLLBACK = "an apply", "a delete", "a rollback"


class SimulationResult(Struct):
    scenario: Scenario
    violations: list[inv.Violation]
    record: list[Happening]
    virtual_seconds: float
    operations: Counter[str]


def play(scenario: Scenario, *, stop_early: bool = True) -> SimulationResult:
    """Run the scenario from its start to rest. `stop_early`: the first violation ends it."""
    loop = VirtualTimeLoop()
    errors = InternalErrors()
    loop.set_exception_handler(errors.in_callback)
    parent = _FAST if _FAST.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="ank-sim-", dir=parent, ignore_cleanup_errors=True) as folder:
        player = Player(loop, scenario, Path(folder), errors, stop_early=stop_early)
        replaced = player.replaced()
        with quiet(errors), seeded(loop, Random(scenario.seed), lambda: player.faults.clock_difference, replaced):
            try:
                loop.run_until_complete(player.run())
            except EndlessWork as endless:
                player.violated(inv.BOUNDED, str(endless))
            finally:
                player.end()
                close(loop, Path(folder))
        return player.result()


class Player:
    """Performs the actions of one scenario."""

    def __init__(
        self, loop: VirtualTimeLoop, scenario: Scenario, folder: Path, errors: InternalErrors, *, stop_early: bool
    ) -> None:
        self._loop = loop
        self._scenario = scenario
        self._errors = errors
        self._stop_early = stop_early
        self._violations: list[inv.Violation] = []
        self._workloads = Workloads(scenario.nodes)
        lease = LONG_LEASE if scenario.is_long else SHORT_LEASE
        options = ClusterOptions(scenario.nodes, scenario.servers, scenario.storage, lease=lease)
        random = Random(scenario.seed)
        self._cluster = SimulatedCluster(loop, random, folder / "hosts", options, SimulatedDisks(random))
        self._leaders = ObservedLeaders(partial(self.violated, inv.TERMS), self._cluster.note)
        self._operator = Operator(self._cluster.server_urls)
        self._checks = RunningChecks(self._cluster, self._workloads, self._operator, self.violated)
        self._rest = RestChecks(self._cluster, self._workloads, self._operator, self._checks, self.violated)
        self._subscriber = self._new_subscriber()
        self._watcher = WorkloadSubscriber()
        self.faults = FaultInjector(self._cluster)
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: dict[str, asyncio.Lock] = {}
        self._requests = 0

    def replaced(self) -> list[tuple[Any, str, Any]]:
        return [*self._cluster.disks.replaced(), *self._leaders.replaced()]

    def result(self) -> SimulationResult:
        operations = Counter(operation.outcome for operation in self._operator.operations)
        return SimulationResult(self._scenario, self._violations, self._cluster.record, self._loop.now, operations)

    async def run(self) -> None:
        scenario = self._scenario
        self._cluster.start()
        self._begin(self._subscriber.run(), "the subscriber")
        self._begin(self._checks.run(self._subscriber, self._watcher), "the periodic checks")
        self._begin(self._subscribe_as_workload(), "the subscribed workload")
        for node in self._cluster.nodes:
            self.faults.plug(node)
        await self._configure_devices()
        for action in scenario.actions:
            await asyncio.sleep(max(0.0, action.time - self._loop.now))
            if self._is_over:
                break
            self._perform(action)
        await asyncio.sleep(max(0.0, scenario.hours * 3600 - self._loop.now))
        if not self._is_over:
            await self._come_to_rest()
        if not self._is_over and scenario.storage != "memory":
            await self._rest.check_stored_state()
        for text in self._errors.texts:
            self.violated(inv.INTERNAL_ERRORS, text)

    async def _configure_devices(self) -> None:
        """The server may still be starting."""
        for _ in range(100):
            if await self._operator.configure_devices(sc.DEVICE_CONFIGURATIONS):
                return
            await asyncio.sleep(0.1)

    async def _come_to_rest(self) -> None:
        """End all faults, wait for the desired state, and check everything."""
        began = self._loop.now
        self.faults.end_network_and_disk_faults()
        await asyncio.sleep(LONGEST_FAULT)
        self.faults.restore_hosts()
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            found = await self._unfinished()
            if not found or self._loop.now - began >= CONVERGENCE_LIMIT:
                break
        for invariant, text in found:
            self.violated(invariant, text)
        await self._rest.check_state(self._subscriber, self._watcher)

    async def _unfinished(self) -> list[Finding]:
        if any(not task.done() and task.get_name() in (_APPLY, _DELETE, _ROLLBACK) for task in self._tasks):
            return [(inv.CONVERGENCE, "an operator still waits")]
        return await self._rest.unfinished()

    def end(self) -> None:
        self._cluster.end()
        for task in self._tasks:
            task.cancel()

    @property
    def _is_over(self) -> bool:
        return bool(self._violations) and self._stop_early

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def violated(self, invariant: str, text: str) -> None:
        self._violations.append(inv.Violation(self._loop.now, invariant, text))
        self._cluster.note("", f"VIOLATION {invariant}: {text}")

    def _new_subscriber(self) -> Subscriber:
        checks = self._checks
        subscriber = Subscriber(self._cluster.server_urls, lambda paths: checks.states_reported(subscriber, paths))
        return subscriber

    # --- actions ---

    def _perform(self, action: Action) -> None:
        self._cluster.note("", f"-- {str(action).strip()}")
        if action.kind in tuple(Fault):
            if action.kind != Fault.CLOCK_JUMP:
                self._checks.fault_lasts(action.seconds)
            self.faults.cause(action)
            return
        match action:
            case Action(_, UserAction.APPLY, name, version):
                self._begin(self._write(name, version), _APPLY)
            case Action(_, UserAction.DELETE, name):
                self._begin(self._write(name, None), _DELETE)
            case Action(_, UserAction.UNDO, name, version):
                self._begin(self._write_and_undo(name, version), _ROLLBACK)
            case Action(_, UserAction.SUBSCRIBE):
                self._begin(self._subscribe(action.seconds), "a further subscriber")
            case Action(_, UserAction.REQUEST, _, config):
                self._begin(self._request_of_workload(config), "a workload request")

    async def _write(self, name: str, version: str | None) -> None:
        """Changes of one workload follow each other, so that the last accepted one decides."""
        async with self._lock(name):
            await self._change(name, version)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._busy.setdefault(name, asyncio.Lock())

    async def _change(self, name: str, version: str | None) -> OperatorChange:
        form = None if version is None else self._workloads.form(name, version)
        operation = await self._operator.write(name, form, version)
        self._note_operation("", operation)
        return operation

    def _note_operation(self, prefix: str, done: OperatorChange) -> None:
        text = f"{prefix}{done.workload} = {done.value}: {done.outcome} {done.text}".rstrip()
        self._cluster.note("operator", text)

    async def _write_and_undo(self, name: str, version: str) -> None:
        """The version before is known for certain if the state can be read and the change is accepted."""
        async with self._lock(name):
            state = await self._operator.read("desiredState")
            done = await self._change(name, version)
            if state is not None and done.outcome == ACCEPTED:
                before = inv.stored_values(state.get("desiredState", {})).get(name)
                self._note_operation("roll back ", await self._operator.undo(done, before))

    async def _subscribe(self, seconds: float) -> None:
        subscriber = self._new_subscriber()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await subscriber.run()
        self._checks.events_seen(subscriber)

    async def _subscribe_as_workload(self) -> None:
        """A workload follows events through its control interface, and again after a restart of it or of its agent."""
        node = self._cluster.nodes[self._workloads.node_of(sc.WATCHER)]
        while True:
            process, found = node.process, self._running_of(sc.WATCHER)
            if found is not None and found.control_interface is not None and process is not None:
                await self._watcher.follow(
                    found.control_interface,
                    lambda alive=process, one=found: node.process is alive and one in node.containers.running(),  # type: ignore[misc]
                )
            await asyncio.sleep(1)

    def _running_of(self, name: str) -> SimulatedContainer | None:
        containers = self._cluster.nodes[self._workloads.node_of(name)].containers
        return next((each for each in containers.running() if each.instance_name.workload == name), None)

    async def _request_of_workload(self, config: str) -> None:
        """The first workload writes a configuration item through its control interface."""
        found = self._running_of(sc.MANAGER)
        if found is None or found.control_interface is None:
            return
        self._requests += 1
        request = desired_state_request({"configs": {config: str(self._requests)}}, f"desiredState.configs.{config}")
        request.requestId = f"w{self._requests}"
        response = await request_through_fifos(found.control_interface, request)
        outcome = "no response" if response is None else response.WhichOneof("ResponseContent")
        self._cluster.note(sc.MANAGER, f"writes '{config}': {outcome}")
        if response is not None:
            version = self._version_of(found.instance_name)
            self._checks.response_received(version, config, response.HasField("UpdateStateSuccess"))

    def _version_of(self, name: InstanceName) -> str:
        versions = (done.value for done in self._operator.operations if done.workload == name.workload)
        return next(
            version
            for version in versions
            if version is not None and InstanceName.of(name.workload, name.agent, version) == name
        )
