"""What must hold in every simulation. Pure functions and small records over what was observed.

Input: changes of containers, operations of operators, states. Output: violations as text, each with the name of its
invariant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ankaios.common.workload import InstanceName
from ankaios.simulation.operator import ACCEPTED, REJECTED, OperatorChange

LOST_CHANGE = "no acknowledged change is lost"
TWO_INSTANCES = "never two live instances of a workload on a node"
ORDER = "start and stop order is kept"
RIGHTS = "access rights never widen"
EVENTS = "subscribers see every change once and in order"
CONVERGENCE = "the cluster converges after the last fault"
TRUE_STATES = "a reported state is true"
INTERNAL_ERRORS = "no internal errors"
BOUNDED = "memory and queues stay bounded"
TERMS = "at most one effective leader"
SLOTS = "slots are never allocated twice and never leak"
RETRIES = "failed calls are not repeated without a delay"


class Violation(Struct, frozen=True):
    time: float
    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.time:10.3f}  {self.invariant}: {self.text}"


def permitted_values(operations: Sequence[OperatorChange], workload: str) -> set[str | None]:
    """The versions that a workload may have now, if each operation began after the one before had ended.

    The last accepted change decides. A change without an answer may be stored or not, at any later time.
    """
    accepted: str | None = None
    unknown: set[str | None] = set()
    for operation in operations:
        if operation.workload == workload and operation.outcome == ACCEPTED:
            accepted = operation.value
        elif operation.workload == workload and operation.outcome != REJECTED:
            unknown.add(operation.value)
    return {accepted, *unknown}


def stored_values(desired: Mapping[str, Any]) -> dict[str, str]:
    """The versions of all workloads in a desired state."""
    return {name: form["runtimeConfig"] for name, form in desired.get("workloads", {}).items()}


def check_changes(operations: Sequence[OperatorChange], desired: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    stored = stored_values(desired)
    faults = []
    for name in names:
        permitted = permitted_values(operations, name)
        if stored.get(name) not in permitted:
            shown = ", ".join(sorted(map(str, permitted)))
            faults.append(f"'{name}' has version {stored.get(name)}, permitted: {shown}")
    return faults


class LiveInstances:
    """The running containers of each node, as they start and end."""

    def __init__(self) -> None:
        self._running: dict[str, dict[str, set[str]]] = {}
        self._last_running: dict[InstanceName, float] = {}
        self._started_at: dict[str, float] = {}  # running containers
        self._started_once: set[str] = set()

    def changed(self, node: str, container: str, name: InstanceName, what: str, now: float) -> str | None:
        """Return a violation of `TWO_INSTANCES`, or None."""
        running = self._running.setdefault(node, {}).setdefault(name.workload, set())
        self._last_running[name] = float("inf") if what == "started" else now
        if what == "started":
            self._started_once.add(name.workload)
            self._started_at[container] = now
            running.add(container)
            if len(running) > 1:
                return f"'{name.workload}' runs as {' and '.join(sorted(running))} on {node}"
        else:
            running.discard(container)
            self._started_at.pop(container, None)
        return None

    def has_run(self, name: InstanceName) -> bool:
        return name in self._last_running

    def ran_since(self, workload: str, time: float) -> bool:
        """Whether an instance ran at this time or later."""
        return any(last >= time for name, last in self._last_running.items() if name.workload == workload)

    def running_since(self, workload: str, time: float) -> list[str]:
        """The running containers that were started before this time."""
        containers = (found for workloads in self._running.values() for found in workloads.get(workload, ()))
        return [container for container in containers if self._started_at[container] < time]

    def was_started(self, workload: str) -> bool:
        return workload in self._started_once

    def was_running_since(self, name: InstanceName, time: float) -> bool:
        return self._last_running.get(name, float("-inf")) >= time

    def users(self, needs_device: Callable[[str], bool], node: str | None = None) -> list[str]:
        """The running workloads that need a device, on one node or on all."""
        return [
            workload
            for host, workloads in self._running.items()
            for workload, containers in workloads.items()
            if containers and node in (None, host) and needs_device(workload)
        ]


def check_convergence(
    desired: Mapping[str, Any],
    running: Mapping[str, Sequence[InstanceName]],
    nodes: Iterable[str],
    group_of: Callable[[str], str | None] = lambda _: None,
) -> list[str]:
    """Every desired workload runs exactly once where it should, and nothing else runs.

    A workload may wait while its dependency does not run. Of a group that competes for one device, one runs. The old
    instance of a workload that was deleted or changed may run, and delay its successor, while a workload runs that
    depends on it.
    """
    workloads = desired.get("workloads", {})
    found = Counter(instance for instances in running.values() for instance in instances)
    alive = {instance.workload for instance in found}
    needed = _needed(workloads, found)
    expected = {
        InstanceName.of(name, form["agent"], form["runtimeConfig"]): form.get("dependencies", {}).keys() <= alive
        for name, form in workloads.items()
        if form["agent"] in nodes
    }
    kept = {instance.workload for instance in found if instance not in expected and instance.workload in needed}
    served = {group_of(instance.workload) for instance in found} - {None}
    faults = [
        f"'{name}' does not run"
        for name, must_run in expected.items()
        if must_run and name not in found and name.workload not in kept and group_of(name.workload) not in served
    ]
    faults += [
        f"'{name}' runs and is not desired" for name in found if name not in expected and name.workload not in kept
    ]
    return faults + [f"'{name}' runs {count} times" for name, count in found.items() if count > 1]


def _needed(workloads: Mapping[str, Any], instances: Iterable[InstanceName]) -> set[str]:
    """The workloads that these instances depend on."""
    return {
        dependency
        for instance in instances
        for dependency in workloads.get(instance.workload, {}).get("dependencies", {})
    }


def check_states(
    desired: Mapping[str, Any], states: Mapping[str, Any], running: Mapping[str, Sequence[InstanceName]]
) -> list[str]:
    """At rest, the server shows Running for exactly the instances that run, or Stopping for those that have to wait.

    It shows no state of an instance that neither runs nor is desired, unless its delete waits for a running dependent.
    Such an instance may wait for a device meanwhile.
    """
    shown = {
        InstanceName(workload, identifier, agent): state.get("state")
        for agent, workloads in states.items()
        for workload, instances in workloads.items()
        for identifier, state in instances.items()
    }
    actual = {instance for instances in running.values() for instance in instances}
    faults = [
        f"'{name}' runs and is shown as {shown.get(name)}" for name in actual if not _means_running(shown.get(name))
    ]
    workloads = desired.get("workloads", {})
    waiting = _needed(workloads, actual)
    wanted = {InstanceName.of(name, form["agent"], form["runtimeConfig"]) for name, form in workloads.items()}
    return faults + [
        f"'{name}' is shown as {state} and does not run"
        for name, state in shown.items()
        if name not in actual
        and (state == "Running" or name not in wanted)
        and not (state in ("Stopping", "Pending") and name.workload in waiting)
    ]


def _means_running(state: str | None) -> bool:
    return state in ("Running", "Stopping")
