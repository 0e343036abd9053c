"""Causes the faults of a scenario, and ends them.

Input: actions. Output: changes of the simulated cluster. Owns the difference between the wall clock and virtual time.
"""

from __future__ import annotations

from collections.abc import Callable

from ankaios.simulation.cluster import SimulatedCluster
from ankaios.simulation.network import USUAL_DELAY
from ankaios.simulation.runtime import RuntimeFaults
from ankaios.simulation.scenario import ALL_MEMBERS, MEMBER_HOSTS, Action, Fault

_LONG_DELAY = 0.5  # seconds that a piece of data takes in a slow network
_LONG_CALL = 8.0  # seconds that a call of a slow runtime takes
_TOTAL_FAILURE = 10.0  # seconds; in longer faults every call of a runtime fails


class FaultInjector:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.clock_difference = 0.0

    def cause(self, action: Action) -> None:
        """Begin the fault, and plan its end."""
        cluster = self._cluster
        match action:
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
                for host in MEMBER_HOSTS if action.other == ALL_MEMBERS else (action.other,):
                    self._disturb_connections(action, host)
            case Action(_, Fault.FULL_DISK, host):
                cluster.disks.fill(host)
                self._later(action, lambda: cluster.disks.free(host))
            case Action(_, Fault.SLOW_NETWORK):
                cluster.network.longest_delay = _LONG_DELAY
                self._later(action, self._end_slow_network)
            case Action(_, Fault.CLOCK_JUMP):
                self.clock_difference += action.seconds
            case Action(_, Fault.KILL_ETCD, host) if cluster.etcd is not None:
                etcd = cluster.etcd
                etcd.kill_member(host)
                self._later(action, lambda: etcd.start_member(host))
            case Action(_, Fault.CONTAINER_DIES | Fault.CONTAINER_REMOVED, name):
                self._end_container(name, action.kind)
            case Action(_, Fault.UNPLUG, node):
                self._unplug(node)
                self._later(action, lambda: self.plug(node))
            case Action(_, kind, node) if node in cluster.nodes:
                self._disturb_runtime(node, kind, action.seconds)
                self._later(action, lambda: self._reset_runtime(node))

    def end_network_and_disk_faults(self) -> None:
        self._cluster.network.unblock_all()
        self._cluster.disks.free_all()
        self._end_slow_network()

    def restore_hosts(self) -> None:
        """Start all programs, and let runtimes and devices work."""
        for name in self._cluster.nodes:
            self._reset_runtime(name)
            self.plug(name)
            self._cluster.start_agent(name)
        for name in self._cluster.servers:
            self._cluster.start_server(name)

    def _later(self, action: Action, call: Callable[[], object]) -> None:
        self._cluster.loop.call_later(action.seconds, call)

    # --- devices ---

    def plug(self, node: str) -> None:
        """Connect the local and the shared device."""
        devices = self._cluster.nodes[node].handler
        devices.plug("udev", f"cam-{node}")
        devices.plug("onvif", "lens")

    def _unplug(self, node: str) -> None:
        devices = self._cluster.nodes[node].handler
        devices.unplug("udev", f"cam-{node}")
        devices.unplug("onvif", "lens")

    # --- network ---

    def _disturb_connections(self, action: Action, other: str) -> None:
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

    def _end_slow_network(self) -> None:
        self._cluster.network.longest_delay = USUAL_DELAY

    # --- containers ---

    def _end_container(self, name: str, kind: str) -> None:
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
                faults.longest_call = _LONG_CALL
            case Fault.RUNTIME_FAILS:
                faults.failure_rate = 1.0 if seconds > _TOTAL_FAILURE else 0.5
            case Fault.RUNTIME_HANGS:
                faults.hangs_until = self._cluster.loop.now + seconds
            case Fault.WRONG_STATES:
                faults.wrong_state_rate = 0.2

    def _reset_runtime(self, node: str) -> None:
        self._cluster.nodes[node].containers.faults = RuntimeFaults()
