"""Plays a scenario on a simulated cluster and checks the invariants.

Input: a scenario. Output: a `SimulationResult` with all violations and the record of what happened. The same scenario
gives the same result.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.workload import InstanceName
from ankaios.simulation import invariants as inv
from ankaios.simulation import scenario as sc
from ankaios.simulation.checks import RunningChecks
from ankaios.simulation.cluster import ClusterOptions, Happening, SimulatedCluster
from ankaios.simulation.determinism import seeded
from ankaios.simulation.disk import SimulatedDisks
from ankaios.simulation.isolation import InternalErrors, close, quiet
from ankaios.simulation.leaders import ObservedLeaders
from ankaios.simulation.network import USUAL_DELAY
from ankaios.simulation.operator import ACCEPTED, Operator, OperatorChange, Subscriber, watched_part
from ankaios.simulation.runtime import RuntimeFaults, SimulatedContainer
from ankaios.simulation.scenario import Action, Fault, Scenario, UserAction, Workloads
from ankaios.simulation.virtual_time import EndlessWork, VirtualTimeLoop
from ankaios.simulation.workload_requests import WorkloadSubscriber, request_through_fifos

# Seconds after the last fault in which the cluster must reach the desired state. A failed start is retried after up to
# 300 s, and the workload that depends on it starts after it.
CONVERGENCE_LIMIT = 900.0
# Leases of leaders, in seconds: renewals are most of the work of a long simulation with etcd.
SHORT_LEASE, LONG_LEASE = 10, 30
RESTART_LIMIT = 90.0  # seconds until a server answers after all of them have been restarted
_LOOK_INTERVAL = 5.0
_TOTAL_FAILURE = 10.0  # seconds; in longer faults every call of a runtime fails
_FAST = Path("/dev/shm")
_NO_ANSWER = [(inv.CONVERGENCE, "no server answered")]


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
        with quiet(errors), seeded(loop, Random(scenario.seed), lambda: player.clock_difference, replaced):
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
        self.clock_difference = 0.0
        self._loop = loop
        self._scenario = scenario
        self._random = Random(scenario.seed)
        self._folder = folder
        self._errors = errors
        self._stop_early = stop_early
        self._violations: list[inv.Violation] = []
        self._workloads = Workloads(scenario.nodes)
        self._disks = SimulatedDisks(self._random)
        self._leaders = ObservedLeaders(partial(self.violated, inv.TERMS), lambda *line: self._cluster.note(*line))
        self._cluster: SimulatedCluster
        self._operator: Operator
        self._checks: RunningChecks
        self._subscriber: Subscriber
        self._watcher = WorkloadSubscriber()
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: dict[str, asyncio.Lock] = {}
        self._requests = 0

    def replaced(self) -> list[tuple[Any, str, Any]]:
        return [*self._disks.replaced(), *self._leaders.replaced()]

    def result(self) -> SimulationResult:
        operations = Counter(operation.outcome for operation in self._operator.operations)
        return SimulationResult(self._scenario, self._violations, self._cluster.record, self._loop.now, operations)

    async def run(self) -> None:
        scenario = self._scenario
        lease = LONG_LEASE if scenario.is_long else SHORT_LEASE
        options = ClusterOptions(scenario.nodes, scenario.servers, scenario.storage, lease=lease)
        self._cluster = SimulatedCluster(self._loop, self._random, self._folder / "hosts", options, self._disks)
        self._operator = Operator(self._cluster.server_urls)
        self._checks = RunningChecks(self._cluster, self._workloads, self._operator, self.violated)
        self._subscriber = self._new_subscriber()
        self._cluster.start()
        self._begin(self._subscriber.run(), "the subscriber")
        self._begin(self._checks.run(self._subscriber, self._watcher), "the periodic checks")
        self._begin(self._subscribe_as_workload(), "the subscribed workload")
        for node in self._cluster.nodes:
            self._plug(node)
        await self._configure_devices()
        for action in scenario.actions:
            await asyncio.sleep(max(0.0, action.time - self._loop.now))
            if self._is_over:
                break
            self._perform(action)
        await asyncio.sleep(max(0.0, scenario.hours * 3600 - self._loop.now))
        if not self._is_over:
            await self._settle()
        if not self._is_over and scenario.storage != "memory":
            await self._check_stored_state()
        self._check_internal_errors()

    async def _configure_devices(self) -> None:
        """The server may still be starting."""
        for _ in range(100):
            if await self._operator.configure_devices(sc.DEVICE_CONFIGURATIONS):
                return
            await asyncio.sleep(0.1)

    def end(self) -> None:
        self._cluster.end()
        for task in self._tasks:
            task.cancel()

    @property
    def _is_over(self) -> bool:
        return bool(self._violations) and self._stop_early

    def _begin(self, work: object, name: str) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def violated(self, invariant: str, text: str) -> None:
        self._violations.append(inv.Violation(self._loop.now, invariant, text))
        self._cluster.note("", f"VIOLATION {invariant}: {text}")

    def _new_subscriber(self) -> Subscriber:
        subscriber = Subscriber(self._cluster.server_urls, lambda paths: checks.states_reported(subscriber, paths))
        checks = self._checks
        return subscriber

    # --- devices ---

    def _plug(self, node: str) -> None:
        devices = self._cluster.nodes[node].handler
        devices.plug("udev", f"cam-{node}")
        devices.plug("onvif", "lens")

    def _unplug(self, node: str) -> None:
        devices = self._cluster.nodes[node].handler
        devices.unplug("udev", f"cam-{node}")
        devices.unplug("onvif", "lens")

    def _check_internal_errors(self) -> None:
        for text in self._errors.texts:
            self.violated(inv.INTERNAL_ERRORS, text)

    # --- actions ---

    def _perform(self, action: Action) -> None:
        self._cluster.note("", f"-- {str(action).strip()}")
        cluster = self._cluster
        if action.kind in tuple(Fault) and action.kind != Fault.CLOCK_JUMP:
            self._checks.fault_lasts(action.seconds)
        match action:
            case Action(_, UserAction.APPLY, name, version):
                self._begin(self._write(name, version), "an apply")
            case Action(_, UserAction.DELETE, name):
                self._begin(self._write(name, None), "a delete")
            case Action(_, UserAction.UNDO, name, version):
                self._begin(self._write_and_undo(name, version), "a rollback")
            case Action(_, UserAction.SUBSCRIBE):
                self._begin(self._subscribe(action.seconds), "a further subscriber")
            case Action(_, UserAction.REQUEST, _, config):
                self._begin(self._request_of_workload(config), "a workload request")
            case Action(_, Fault.KILL_AGENT, node):
                cluster.kill_agent(node)
                self._later(action, lambda: cluster.start_agent(node))
            case Action(_, Fault.POWER_NODE, node):
                cluster.power_off_node(node)
                self._later(action, lambda: cluster.start_agent(node))
            case Action(_, Fault.KILL_SERVER, server):
                cluster.kill_server(server)
                self._later(action, lambda: cluster.start_server(server))
            case Action(_, Fault.POWER_SERVER, server):
                cluster.power_off_server(server)
                self._later(action, lambda: cluster.start_server(server))
            case Action(_, Fault.CUT | Fault.PARTITION | Fault.HALF_OPEN | Fault.DELAYED):
                for host in self._second_hosts(action):
                    self._disturb_network(action, host)
            case Action(_, Fault.FULL_DISK, host):
                self._disks.fill(host)
                self._later(action, lambda: self._disks.free(host))
            case Action(_, Fault.SLOW_NETWORK):
                cluster.network.longest_delay = 0.5
                self._later(action, self._fast_network)
            case Action(_, Fault.CLOCK_JUMP):
                self.clock_difference += action.seconds
            case Action(_, Fault.KILL_ETCD, host) if cluster.etcd is not None:
                etcd = cluster.etcd
                etcd.kill_member(host)
                self._later(action, lambda: etcd.start_member(host))
            case Action(_, Fault.CONTAINER_DIES | Fault.CONTAINER_REMOVED, name):
                self._harm_container(name, action.kind)
            case Action(_, Fault.UNPLUG, node):
                self._unplug(node)
                self._later(action, lambda: self._plug(node))
            case Action(_, kind, node) if node in cluster.nodes:
                self._disturb_runtime(node, kind, action.seconds)
                self._later(action, lambda: self._calm_runtime(node))

    def _second_hosts(self, action: Action) -> tuple[str, ...]:
        return sc.MEMBER_HOSTS if action.other == sc.ALL_MEMBERS else (action.other,)

    def _disturb_network(self, action: Action, other: str) -> None:
        network, one = self._cluster.network, action.target
        match action.kind:
            case Fault.CUT:
                network.cut(one, other)
            case Fault.PARTITION:
                network.block(one, other)
                self._later(action, lambda: network.unblock(one, other))
            case Fault.HALF_OPEN:
                network.silence(one, other)
            case Fault.DELAYED:
                network.stall(one, other, action.seconds)

    def _later(self, action: Action, call: object) -> None:
        self._loop.call_later(action.seconds, call)  # type: ignore[arg-type]

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
        state = {"desiredState": {"apiVersion": "v1", "workloads": {}, "configs": {config: str(self._requests)}}}
        update = base.UpdateStateRequest(
            newState=COMPLETE_STATE.from_form(state), updateMask=[f"desiredState.configs.{config}"]
        )
        request = base.Request(requestId=f"w{self._requests}", updateStateRequest=update)
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

    def _harm_container(self, name: str, kind: str) -> None:
        for node in self._cluster.nodes.values():
            for container in node.containers.running():
                if container.instance_name.workload == name:
                    if kind == Fault.CONTAINER_DIES:
                        node.containers.end(container.id)
                    else:
                        node.containers.remove(container.id)
                    return

    def _disturb_runtime(self, node: str, kind: str, seconds: float) -> None:
        faults = self._cluster.nodes[node].containers.faults
        match kind:
            case Fault.RUNTIME_SLOW:
                faults.longest_call = 8.0
            case Fault.RUNTIME_FAILS:
                faults.failure_rate = 1.0 if seconds > _TOTAL_FAILURE else 0.5
            case Fault.RUNTIME_HANGS:
                faults.hangs_until = self._loop.now + seconds
            case Fault.WRONG_STATES:
                faults.wrong_state_rate = 0.2

    def _calm_runtime(self, node: str) -> None:
        self._cluster.nodes[node].containers.faults = RuntimeFaults()

    def _fast_network(self) -> None:
        self._cluster.network.longest_delay = USUAL_DELAY

    # --- rest ---

    async def _settle(self) -> None:
        """End all faults, wait for the desired state, and check everything."""
        began = self._loop.now
        cluster = self._cluster
        cluster.network.unblock_all()
        self._disks.free_all()
        self._fast_network()
        await asyncio.sleep(61)  # the longest fault
        for name in cluster.nodes:
            self._calm_runtime(name)
            self._plug(name)
            cluster.start_agent(name)
        for name in cluster.servers:
            cluster.start_server(name)
        faults = _NO_ANSWER
        while faults and self._loop.now - began < CONVERGENCE_LIMIT:
            await asyncio.sleep(_LOOK_INTERVAL)
            faults = await self._faults_at_rest()
        for invariant, fault in faults:
            self.violated(invariant, fault)
        await self._check_state()

    async def _faults_at_rest(self) -> list[tuple[str, str]]:
        """What is not as it should be yet, with its invariant."""
        if any(not task.done() and task.get_name() in ("an apply", "a delete", "a rollback") for task in self._tasks):
            return [(inv.CONVERGENCE, "an operator still waits")]
        state = await self._operator.read()
        if state is None:
            return _NO_ANSWER
        running, desired = self._running(), state["desiredState"]
        unfinished = inv.check_convergence(desired, running, self._cluster.nodes, self._group_of)
        unfinished = unfinished or inv.check_states(desired, state.get("workloadStates", {}), running)
        return [
            *((inv.CONVERGENCE, fault) for fault in unfinished),
            *((inv.SLOTS, fault) for fault in self._checks.slots_at_rest()),
            *((inv.BOUNDED, fault) for fault in self._checks.observed_at_rest()),
        ]

    def _group_of(self, workload: str) -> str | None:
        """Workloads that compete for the same slot."""
        device = self._workloads.device_of(workload)
        return f"{device} of {self._workloads.node_of(workload)}" if device == sc.LOCAL else device

    def _running(self) -> dict[str, list[InstanceName]]:
        return {
            name: [container.instance_name for container in node.containers.running()]
            for name, node in self._cluster.nodes.items()
        }

    async def _check_stored_state(self) -> None:
        """What the servers have shown is what they have stored: after a restart, they show the same."""
        before = await self._operator.read("desiredState")
        for name in self._cluster.servers:
            self._cluster.kill_server(name)
        for name in self._cluster.servers:
            self._cluster.start_server(name)
        after, began = None, self._loop.now
        while after is None and self._loop.now - began < RESTART_LIMIT:
            await asyncio.sleep(_LOOK_INTERVAL)
            after = await self._operator.read("desiredState")
        if before is not None and after != before:
            self.violated(inv.LOST_CHANGE, f"the stored state is {after}, the servers have shown {before}")

    async def _check_state(self) -> None:
        state = await self._operator.read()
        if state is None:
            return
        for fault in inv.check_changes(self._operator.operations, state["desiredState"], self._workloads.names):
            self.violated(inv.LOST_CHANGE, fault)
        self._checks.configs_at_rest(state["desiredState"].get("configs", {}))
        self._checks.events_seen(self._subscriber)
        copy = self._subscriber.copy
        if copy is None:
            self.violated(inv.EVENTS, "the subscriber has no connection")
        elif watched_part(copy) != watched_part(state):
            self.violated(inv.EVENTS, f"the copy differs: {watched_part(copy)} instead of {watched_part(state)}")
        copy = self._watcher.copy
        if copy is not None and watched_part(copy) != watched_part(state):
            text = f"the copy of a workload differs: {watched_part(copy)} instead of {watched_part(state)}"
            self.violated(inv.EVENTS, text)
