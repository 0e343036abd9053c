"""The metrics of the agent, derived from its messages and its calls of runtimes.

Input: messages to and from the server, calls of runtimes, denied requests and health checks of workloads. Owns the
counters, and for each workload instance the times that durations are measured from. Nothing in the agent depends on it.
"""

import re
from collections import Counter as Tally
from collections.abc import Callable, Mapping
from time import monotonic

from ankaios import __version__
from ankaios.agent.observer import AgentObserver
from ankaios.common.errors import Rejected
from ankaios.common.execution_state import ExecutionState
from ankaios.common.metrics import Counter, Gauge, Histogram
from ankaios.common.pb.grpc_api_pb2 import DeviceReport, FromServer, ToServer
from ankaios.common.proto_conversion import instance_name_from_pb, workload_state_from_pb
from ankaios.common.workload import InstanceName

MAX_INSTANCES = 10_000
LONG_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_EXIT_CODE = re.compile(r"Exit code: '(-?\d+)'")


class _Instance:
    """The times of one workload instance."""

    def __init__(self) -> None:
        self.state = ""
        self.health = ""
        self.update_received: float | None = None
        self.exit_seen: float | None = None
        self.has_exited = False


class AgentMetrics(AgentObserver):
    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._instances: dict[InstanceName, _Instance] = {}
        self._slots: dict[str, tuple[int, int, int]] = {}
        self._connected = False
        self.info = Gauge("ankaios_agent_info", "Version of the agent; the value is always 1.", "version")
        self.server_connected = Gauge("ankaios_agent_server_connected", "Whether the agent is connected to its server.")
        self.tasks = Gauge("ankaios_agent_tasks", "Tasks of the event loop.")
        self.workloads = Gauge("ankaios_agent_workloads", "Workload instances of this agent.", "state")
        self.health = Gauge("ankaios_agent_workload_health", "Running workloads with health checks.", "status")
        self.health_checks = Counter(
            "ankaios_agent_health_checks",
            "Results of health checks (exec, http, tcp, file, notify): ok or failed.",
            "check",
            "result",
        )
        self.starts = Counter("ankaios_agent_workload_starts", "Workloads that reached the state Running.")
        self.exits = Counter("ankaios_agent_workload_exits", "Workloads that ended by themselves.", "code")
        self.restarts = Counter("ankaios_agent_workload_restarts", "Ended workloads that the agent started again.")
        self.retries = Counter("ankaios_agent_workload_retries", "Failed attempts that the agent repeats.")
        self.running_seconds = Histogram(
            "ankaios_agent_update_to_running_seconds",
            "From the message of the server to the state Running, waiting for dependencies included.",
            bounds=LONG_BOUNDS,
        )
        self.report_seconds = Histogram(
            "ankaios_agent_exit_to_report_seconds", "From the moment the agent notices an exit to its report."
        )
        self.runtime_calls = Counter(
            "ankaios_agent_runtime_calls", "Calls of runtimes: ok or failed.", "runtime", "call", "result"
        )
        self.runtime_seconds = Histogram(
            "ankaios_agent_runtime_call_duration_seconds", "Duration of calls of runtimes.", "runtime", "call"
        )
        self.control_requests = Counter(
            "ankaios_agent_control_interface_requests", "Requests of workloads that were sent to the server."
        )
        self.control_denials = Counter(
            "ankaios_agent_control_interface_denials", "Requests of workloads that their rights do not allow."
        )
        self.device_slots = Gauge(
            "ankaios_agent_device_slots", "Slots of devices: used, free or unhealthy.", "resource", "state"
        )
        self.info.read = lambda: {(__version__,): 1}
        self.server_connected.read = lambda: {(): int(self._connected)}
        self.workloads.read = lambda: Tally((one.state,) for one in self._instances.values() if one.state)
        self.device_slots.read = self._read_slots
        self.health.read = lambda: Tally((one.health,) for one in self._instances.values() if one.health)

    # --- connection to the server ---

    def connected(self, is_connected: bool) -> None:
        self._connected = is_connected

    def received(self, message: FromServer) -> None:
        for added in (*message.serverHello.addedWorkloads, *message.updateWorkload.addedWorkloads):
            instance = self._instance(instance_name_from_pb(added.instanceName))
            if instance.state != "Running":
                instance.update_received = self._clock()
                instance.has_exited = False

    def sent(self, message: ToServer) -> None:
        match message.WhichOneof("ToServerEnum"):
            case "updateWorkloadState":
                for state in message.updateWorkloadState.workloadStates:
                    try:
                        self._reported(*workload_state_from_pb(state))
                    except Rejected:
                        continue
            case "request":
                self.control_requests.add()
            case "deviceReport":
                self._device_report(message.deviceReport)

    def _reported(self, name: InstanceName, state: ExecutionState) -> None:
        instance = self._instance(name)
        if state.additional_info.startswith("Retry "):
            self.retries.add()
        instance.health = state.health.status.lower() if state.health is not None else ""
        if state.state == "Removed":
            instance.state = ""
            if not instance.has_exited:  # otherwise it may be restarted
                del self._instances[name]
            return
        if state.state == "Running" != instance.state:
            self._started(instance)
        elif state.state in ("Succeeded", "Failed") and state.state != instance.state:
            self._exited(instance, state)
        instance.state = state.state

    def _started(self, instance: _Instance) -> None:
        self.starts.add()
        if instance.has_exited:
            self.restarts.add()
            instance.has_exited = False
        if instance.update_received is not None:
            self.running_seconds.observe(self._clock() - instance.update_received)
            instance.update_received = None

    def _exited(self, instance: _Instance, state: ExecutionState) -> None:
        found = _EXIT_CODE.search(state.additional_info)
        if state.state == "Failed" and found is None:
            return  # it is lost or unknown, so its exit was not observed
        instance.has_exited = True
        self.exits.add(found[1] if found is not None else "0")
        if instance.exit_seen is not None:
            self.report_seconds.observe(self._clock() - instance.exit_seen)
            instance.exit_seen = None

    # --- workloads and runtimes ---

    def request_denied(self) -> None:
        self.control_denials.add()

    def health_checked(self, check: str, succeeded: bool) -> None:
        self.health_checks.add(check, "ok" if succeeded else "failed")

    def exit_seen(self, name: InstanceName) -> None:
        instance = self._instance(name)
        if instance.exit_seen is None:
            instance.exit_seen = self._clock()

    def runtime_call(self, runtime: str, call: str, result: str, seconds: float) -> None:
        self.runtime_calls.add(runtime, call, result)
        self.runtime_seconds.observe(seconds, runtime, call)

    def _instance(self, name: InstanceName) -> _Instance:
        if name not in self._instances and len(self._instances) >= MAX_INSTANCES:
            del self._instances[next(iter(self._instances))]
        return self._instances.setdefault(name, _Instance())

    # --- devices ---

    def _device_report(self, report: DeviceReport) -> None:
        if report.complete:
            self._slots.clear()
        for resource in report.resources:
            self._slots[resource.name] = (resource.capacity, resource.allocatable, resource.allocated)
        for name in report.goneResources:
            self._slots.pop(name, None)

    def _read_slots(self) -> Mapping[tuple[str, ...], float]:
        values: dict[tuple[str, ...], float] = {}
        for name, (capacity, allocatable, allocated) in self._slots.items():
            values[name, "used"] = allocated
            values[name, "free"] = max(allocatable - allocated, 0)
            values[name, "unhealthy"] = max(capacity - allocatable, 0)
        return values
