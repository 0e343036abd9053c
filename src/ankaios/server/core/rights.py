"""What requesters may read, and updates by which a workload would gain rights that it does not have.

Input: the access rules of effective workloads, and the entries that an update changes. The agent has already checked
the update masks; this module checks what is written: the access rules of written workloads must stay within
those of the writer, and they may reference only configs that the writer may read. Brokers of device configurations are
workloads as well.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import convert

from ankaios.common.access_rules import READING, excess_of, is_path_granted, log_patterns, matches_name, state_masks
from ankaios.common.state_manipulation import Form, Path
from ankaios.common.workload import ControlInterfaceAccess
from ankaios.server.core.config_renderer import RenderedWorkload
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.requester import Requester
from ankaios.server.core.update_rejected import RightsExceeded


class RequesterRights:
    """What requesters may read and write. Command connections may read and write everything.

    A workload has the rights of its access rules; none if it is not on the agent that sent the request.
    """

    def __init__(self, effective: Mapping[str, RenderedWorkload]) -> None:
        self._effective = effective

    def check_change(self, requester: Requester | None, change: DesiredChange) -> None:
        """Raises `RightsExceeded`."""
        if requester is not None and requester.workload:
            _check_workloads(requester.workload, self._access_of(requester), change)

    def readable_paths(self, requester: Requester | None) -> Callable[[Path], bool]:
        """Whether the requester may read a path of the state."""
        if requester is None or not requester.workload:
            return lambda _: True
        return _readable_paths(self._access_of(requester))

    def readable_logs(self, requester: Requester) -> Callable[[str], bool]:
        """Whether the requester may read the output of a workload."""
        if not requester.workload:
            return lambda _: True
        access = self._access_of(requester)
        allow, deny = log_patterns(access.allow), log_patterns(access.deny)
        return lambda name: (
            any(matches_name(it, name) for it in allow) and not any(matches_name(it, name) for it in deny)
        )

    def _access_of(self, requester: Requester) -> ControlInterfaceAccess:
        workload = self._effective.get(requester.workload)
        if workload is None or workload.instance_name.agent != requester.peer:
            return ControlInterfaceAccess()
        return _access_rules(workload.form)


def _access_rules(form: Form) -> ControlInterfaceAccess:
    return convert(form.get("controlInterfaceAccess", {}), ControlInterfaceAccess)


def _readable_paths(access: ControlInterfaceAccess) -> Callable[[Path], bool]:
    allow, deny = state_masks(access.allow, READING), state_masks(access.deny, READING)
    return lambda path: is_path_granted(path, allow, deny)


def _check_workloads(writer: str, access: ControlInterfaceAccess, change: DesiredChange) -> None:
    is_readable = _readable_paths(access)
    for place, workload in _written_workloads(change):
        if excess := excess_of(_access_rules(workload), access):
            raise RightsExceeded(
                f"Access denied: workload '{writer}' cannot give {place} the right to {excess}, it does not have it "
                "itself. Extend the access rules of the writer or remove the rule"
            )
        for key in workload.get("configs", {}).values():
            if not is_readable(("desiredState", "configs", key)):
                raise RightsExceeded(
                    f"Access denied: workload '{writer}' cannot reference the config '{key}' in {place}, it may not "
                    f"read 'desiredState.configs.{key}' itself. Allow it to read the config or remove the reference"
                )


def _written_workloads(change: DesiredChange) -> Iterator[tuple[str, Form]]:
    for name, workload in change.workloads.items():
        if workload is not None:
            yield f"workload '{name}'", workload
    for name, configuration in change.device_configurations.items():
        broker = (configuration or {}).get("broker", {}).get("workload")
        if broker is not None:
            yield f"the broker of device configuration '{name}'", broker
