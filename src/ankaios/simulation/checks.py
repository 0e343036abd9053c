"""Checks of the invariants while a simulation runs: at each change of a container, at each event, and periodically.

Input: what the simulated cluster does. Output: violations, through `report`. Owns what was observed.

Some invariants hold only if all hosts know the state of the others. They are checked after a time without faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ankaios.common.state_manipulation import get_value
from ankaios.common.workload import InstanceName
from ankaios.simulation import invariants as inv
from ankaios.simulation import scenario as sc
from ankaios.simulation.cluster import SimulatedCluster
from ankaios.simulation.operator import Operator, StateCopy, Subscriber
from ankaios.simulation.runtime import DELETED, STARTED, SimulatedContainer

# Seconds between the end of a container and the last report that it runs.
REPORT_DELAY = 10.0
# Seconds without a fault after which every host knows the state of the others.
QUIET_SECONDS = 30.0
# Seconds that the end of a container takes at most.
STOP_SECONDS = 2.0
# Calls of the runtime of a node in an interval. Restarts and retries are delayed, so there are few.
INTERVAL, MOST_CALLS = 10.0, 60
MOST_ATTEMPTS = 250  # to connect, of one host in an interval; the operator has several clients with two addresses each
# Upper limits for one cluster; their real values are several times lower.
MOST_TASKS_OF_PROCESS, MOST_CONNECTIONS, MOST_TIMERS, MOST_HELD_BYTES = 150, 20, 2000, 8 * 1024 * 1024
MOST_CHECKERS_OF_NODE = 20

Report = Callable[[str, str], None]


class RunningChecks:
    def __init__(self, cluster: SimulatedCluster, workloads: sc.Workloads, operator: Operator, report: Report) -> None:
        self._cluster = cluster
        self._workloads = workloads
        self._operator = operator
        self._report = report
        self._live = inv.LiveInstances()
        self._faults_until = 0.0
        cluster.observers.append(self._container_changed)

    def fault_lasts(self, seconds: float) -> None:
        self._faults_until = max(self._faults_until, self._cluster.loop.now + seconds)

    @property
    def _is_quiet(self) -> bool:
        return self._cluster.loop.now > self._faults_until + QUIET_SECONDS

    # --- containers ---

    def _container_changed(self, node: str, container: SimulatedContainer, what: str) -> None:
        name, now = container.instance_name, self._cluster.loop.now
        is_first = not self._live.has_run(name)
        if fault := self._live.changed(node, container.id, name, what, now):
            self._report(inv.TWO_INSTANCES, fault)
        if what == STARTED:
            if is_first:
                self._check_start(name)
            self._check_slots(node, self._workloads.device_of(name.workload))
        elif what == DELETED:
            self._check_stop(name)

    def _check_start(self, name: InstanceName) -> None:
        dependency = self._workloads.dependency_of(name.workload)
        if dependency is None:
            return
        since = self._cluster.loop.now - REPORT_DELAY
        if not self._live.was_started(dependency):
            self._report(inv.ORDER, f"'{name.workload}' started before '{dependency}', which it depends on")
        elif self._is_quiet and not self._live.ran_since(dependency, since):
            self._report(inv.ORDER, f"'{name.workload}' started although '{dependency}' does not run")

    def _check_stop(self, name: InstanceName) -> None:
        """A workload that is deleted or replaced stops after the one that depends on it has begun to stop."""
        dependent = self._workloads.dependent_of(name.workload)
        if dependent is None or not self._is_quiet or self._is_desired(name):
            return
        for container in self._live.running_since(dependent, self._cluster.loop.now - REPORT_DELAY):
            self._cluster.loop.call_later(STOP_SECONDS, self._check_stopped, name, dependent, container)

    def _check_stopped(self, name: InstanceName, dependent: str, container: str) -> None:
        if self._is_quiet and container in self._live.running_since(dependent, self._cluster.loop.now):
            self._report(inv.ORDER, f"'{name.workload}' was stopped while '{dependent}', which depends on it, runs")

    def _is_desired(self, name: InstanceName) -> bool:
        versions = inv.permitted_values(self._operator.operations, name.workload)
        return any(
            version is not None and InstanceName.of(name.workload, name.agent, version) == name for version in versions
        )

    def _check_slots(self, node: str, device: str | None) -> None:
        """Each node has one local device with one slot, and there is one shared device with one slot."""
        if device is None or (device == sc.SHARED and not self._is_quiet):
            return
        where = node if device == sc.LOCAL else None
        users = self._live.users(lambda workload: self._workloads.device_of(workload) == device, where)
        if len(users) > 1:
            self._report(inv.SLOTS, f"{' and '.join(users)} use the only slot of '{device}'")

    # --- reports ---

    def states_reported(self, subscriber: StateCopy, paths: Sequence[tuple[str, ...]]) -> None:
        """Running may be reported only of what ran shortly before."""
        for path in {path[:4] for path in paths if path[0] == "workloadStates" and len(path) >= 4}:
            _, agent, workload, identifier = path
            name = InstanceName(workload, identifier, agent)
            is_running = (get_value(subscriber.copy, path) or {}).get("state") == "Running"
            if is_running and not self._live.was_running_since(name, self._cluster.loop.now - REPORT_DELAY):
                self._report(inv.TRUE_STATES, f"'{name}' was reported as running and did not run")

    def events_seen(self, subscriber: StateCopy) -> None:
        now = self._cluster.loop.now
        for fault in (*subscriber.faults, *subscriber.missed(self._operator.operations, now)):
            self._report(inv.EVENTS, fault)
        subscriber.faults.clear()

    # --- limits ---

    async def run(self, subscriber: Subscriber, watcher: StateCopy) -> None:
        """Check what is checked periodically, until cancelled."""
        while True:
            before = {name: node.containers.calls for name, node in self._cluster.nodes.items()}
            self._cluster.network.attempts.clear()
            await asyncio.sleep(INTERVAL)
            self._check_calls(before)
            for host, made in self._cluster.network.attempts.items():
                if made > MOST_ATTEMPTS:
                    self._report(inv.RETRIES, f"{made} attempts of {host} to connect in {INTERVAL:g} s")
            self._check_limits()
            self.events_seen(subscriber)
            if not self._is_quiet and watcher.copy is not None:
                # A workload whose agent has no connection sees the last of the changes made meanwhile.
                watcher.connected_since = self._cluster.loop.now
            self.events_seen(watcher)

    def _check_calls(self, before: dict[str, int]) -> None:
        for name, node in self._cluster.nodes.items():
            calls = node.containers.calls - before[name]
            if calls > MOST_CALLS:
                self._report(inv.RETRIES, f"{calls} calls of the runtime in {INTERVAL:g} s on {name}")

    def _check_limits(self) -> None:
        cluster = self._cluster
        found = {
            "timers": (cluster.loop.timer_count, MOST_TIMERS),
            "unsent bytes": (cluster.network.held_bytes, MOST_HELD_BYTES),
        }
        for name, node in cluster.nodes.items():
            found[f"observed containers of {name}"] = len(node.containers.observed()), MOST_CHECKERS_OF_NODE
        for hosts, number in cluster.network.open_connections().items():
            found[f"connections between {' and '.join(hosts)}"] = number, MOST_CONNECTIONS
        for process in cluster.processes:
            found[f"tasks of {process.name}"] = len(process.tasks), MOST_TASKS_OF_PROCESS
        for what, (value, limit) in found.items():
            if value > limit:
                self._report(inv.BOUNDED, f"{value} {what}, the limit is {limit}")

    # --- access rights ---

    def response_received(self, version: str, config: str, accepted: bool) -> None:
        """A workload has requested to write a configuration item."""
        if accepted and not self._workloads.may_write(sc.MANAGER, version, config):
            self._report(inv.RIGHTS, f"'{sc.MANAGER}' has written '{config}' with version {version}")

    def configs_at_rest(self, configs: Sequence[str]) -> None:
        if sc.OTHER_CONFIG in configs:
            self._report(inv.RIGHTS, f"the configuration item '{sc.OTHER_CONFIG}' exists")

    # --- rest ---

    def observed_at_rest(self) -> list[str]:
        """Each container is observed once, and nothing else is."""
        faults = []
        for name, node in self._cluster.nodes.items():
            observed, existing = node.containers.observed(), node.containers.containers
            if gone := [each for each in observed if each not in existing]:
                faults.append(f"the agent of {name} observes {' and '.join(gone)}, which do not exist")
            if len(set(observed)) < len(observed):
                faults.append(f"the agent of {name} observes a container twice")
        return faults

    def slots_at_rest(self) -> list[str]:
        users = self._live.users(lambda workload: self._workloads.device_of(workload) == sc.SHARED)
        return [f"{' and '.join(users)} use the only slot of '{sc.SHARED}'"] if len(users) > 1 else []
