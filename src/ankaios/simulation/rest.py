"""Checks of a cluster at rest: after the last fault it reaches the desired state, and nothing was lost.

Input: the state that the servers show, the simulated containers, and the changes that operators requested. Output:
violations, each with the name of its invariant.
"""

from __future__ import annotations

import asyncio

from ankaios.simulation import invariants as inv
from ankaios.simulation import scenario as sc
from ankaios.simulation.checks import Report, RunningChecks
from ankaios.simulation.cluster import SimulatedCluster
from ankaios.simulation.operator import Operator, StateCopy, Subscriber, watched_part

LOOK_INTERVAL = 5.0
RESTART_LIMIT = 90.0  # seconds until a server answers after all of them have been restarted

Finding = tuple[str, str]
"""An invariant, and how it is violated."""


class RestChecks:
    def __init__(
        self,
        cluster: SimulatedCluster,
        workloads: sc.Workloads,
        operator: Operator,
        checks: RunningChecks,
        report: Report,
    ) -> None:
        self._cluster = cluster
        self._workloads = workloads
        self._operator = operator
        self._checks = checks
        self._report = report

    async def unfinished(self) -> list[Finding]:
        """What is not as desired yet."""
        state = await self._operator.read()
        if state is None:
            return [(inv.CONVERGENCE, "no server answered")]
        running = {
            name: [container.instance_name for container in node.containers.running()]
            for name, node in self._cluster.nodes.items()
        }
        desired = state["desiredState"]
        found = inv.check_convergence(desired, running, self._cluster.nodes, self._group_of)
        found = found or inv.check_states(desired, state.get("workloadStates", {}), running)
        return [
            *((inv.CONVERGENCE, text) for text in found),
            *((inv.SLOTS, text) for text in self._checks.slots_at_rest()),
            *((inv.BOUNDED, text) for text in self._checks.observed_at_rest()),
        ]

    def _group_of(self, workload: str) -> str | None:
        """Workloads that compete for the same slot."""
        device = self._workloads.device_of(workload)
        return f"{device} of {self._workloads.node_of(workload)}" if device == sc.LOCAL else device

    async def check_state(self, subscriber: Subscriber, watcher: StateCopy) -> None:
        """The state has all acknowledged changes, and subscribers have seen all of it."""
        state = await self._operator.read()
        if state is None:
            return
        desired = state["desiredState"]
        for text in inv.check_changes(self._operator.operations, desired, self._workloads.names):
            self._report(inv.LOST_CHANGE, text)
        self._checks.configs_at_rest(desired.get("configs", {}))
        self._checks.events_seen(subscriber)
        shown, seen, watched = watched_part(state), subscriber.copy, watcher.copy
        if seen is None:
            self._report(inv.EVENTS, "the subscriber has no connection")
        elif watched_part(seen) != shown:
            self._report(inv.EVENTS, f"the copy differs: {watched_part(seen)} instead of {shown}")
        if watched is not None and watched_part(watched) != shown:
            text = f"the copy of a workload differs: {watched_part(watched)} instead of {shown}"
            self._report(inv.EVENTS, text)

    async def check_stored_state(self) -> None:
        """What the servers have shown is what they have stored: after a restart, they show the same."""
        before = await self._operator.read("desiredState")
        for name in self._cluster.servers:
            self._cluster.kill_server(name)
        for name in self._cluster.servers:
            self._cluster.start_server(name)
        after, began = None, self._cluster.loop.now
        while after is None and self._cluster.loop.now - began < RESTART_LIMIT:
            await asyncio.sleep(LOOK_INTERVAL)
            after = await self._operator.read("desiredState")
        if before is not None and after != before:
            self._report(inv.LOST_CHANGE, f"the stored state is {after}, the servers have shown {before}")
