"""The shared resources of all health checks of an agent: sockets and the supervisor of their tasks.

Input: running workloads. Output: monitors, and the environment for workloads that report their health. Many agents have
no health checks, so the modules are loaded with the first workload that has checks.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ankaios.agent.run_folder import RunFolder
from ankaios.common.durations import parse_duration
from ankaios.common.execution_state import HealthState
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.runtime_connector import RuntimeConnector, WorkloadId

if TYPE_CHECKING:
    from ankaios.agent.health_monitor import HealthMonitor
    from ankaios.agent.namespace_sockets import NamespaceSockets
    from ankaios.agent.notify_sockets import NotifySocket, NotifySockets

NATIVE = "native"


class HealthChecks:
    """`checked` is called with the kind of each check that is finished, and whether it succeeded."""

    def __init__(self, folder: RunFolder, tasks: Supervisor, checked: Callable[[str, bool], None]) -> None:
        self._checked = checked
        self._folder = folder.path / "notify"
        self._tasks = tasks
        self._sockets: NamespaceSockets | None = None
        self._notify: NotifySockets | None = None

    def start(
        self,
        spec: WorkloadSpec,
        workload: WorkloadId,
        connector: RuntimeConnector,
        sink: Callable[[HealthState], None],
    ) -> "HealthMonitor":
        from ankaios.agent.health_monitor import HealthMonitor
        from ankaios.agent.namespace_sockets import NamespaceSockets

        if self._sockets is None:
            self._sockets = NamespaceSockets()
        notify = self._notify_socket(spec)
        return HealthMonitor(spec, workload, connector, self._sockets, notify, self._tasks, sink, self._checked)

    def environment(self, spec: WorkloadSpec) -> Mapping[str, str]:
        """Return the variables that sd_notify libraries expect, if the workload has a notify check."""
        socket = self._notify_socket(spec)
        if socket is None or spec.health is None or spec.health.notify is None:
            return {}
        interval = parse_duration(spec.health.notify.interval) or 0
        return {"NOTIFY_SOCKET": str(socket.path), "WATCHDOG_USEC": str(interval * 1000)}

    def _notify_socket(self, spec: WorkloadSpec) -> "NotifySocket | None":
        if spec.runtime != NATIVE or spec.health is None or spec.health.notify is None:
            return None
        if self._notify is None:
            from ankaios.agent.notify_sockets import NotifySockets

            self._notify = NotifySockets(self._folder)
        return self._notify.open(spec.instance_name)

    def forget(self, name: InstanceName) -> None:
        """Close the socket of a removed instance."""
        if self._notify is not None:
            self._notify.close(name)
