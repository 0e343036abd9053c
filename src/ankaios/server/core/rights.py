"""Rejects updates by which a workload would gain rights that it does not have.

Input: the access rules of the requesting workload and the entries that its update changes. The agent has already
checked the update masks; this module checks what is written: the access rules of written workloads must stay within
those of the writer, and they may reference only configs that the writer may read. Brokers of device configurations are
workloads as well.
"""

from collections.abc import Callable, Iterator

from msgspec import convert

from ankaios.common.access_rules import (
    READING,
    excess_of,
    is_path_granted,
    log_patterns,
    matches_name,
    state_masks,
)
from ankaios.common.state_manipulation import Form
from ankaios.common.workload import ControlInterfaceAccess
from ankaios.server.core.desired_state_draft import DesiredChange
from ankaios.server.core.update_rejected import RightsExceeded


def check_rights(writer: str, own: Form, change: DesiredChange) -> None:
    """`own` is the plain form of the writer's `controlInterfaceAccess`. Raises `RightsExceeded`."""
    access = convert(own, ControlInterfaceAccess)
    allow, deny = state_masks(access.allow, READING), state_masks(access.deny, READING)
    for place, workload in _written_workloads(change):
        if excess := excess_of(convert(workload.get("controlInterfaceAccess", {}), ControlInterfaceAccess), access):
            raise RightsExceeded(
                f"Access denied: workload '{writer}' cannot give {place} the right to {excess}, it does not have it "
                "itself. Extend the access rules of the writer or remove the rule"
            )
        for key in workload.get("configs", {}).values():
            if not is_path_granted(("desiredState", "configs", key), allow, deny):
                raise RightsExceeded(
                    f"Access denied: workload '{writer}' cannot reference the config '{key}' in {place}, it may not "
                    f"read 'desiredState.configs.{key}' itself. Allow it to read the config or remove the reference"
                )


def readable_paths(own: Form) -> Callable[[tuple[str, ...]], bool]:
    """Whether a workload with these access rules may read a path of the state."""
    access = convert(own, ControlInterfaceAccess)
    allow, deny = state_masks(access.allow, READING), state_masks(access.deny, READING)
    return lambda path: is_path_granted(path, allow, deny)


def readable_logs(own: Form) -> Callable[[str], bool]:
    """Whether a workload with these access rules may read the output of another one."""
    access = convert(own, ControlInterfaceAccess)
    allow, deny = log_patterns(access.allow), log_patterns(access.deny)
    return lambda name: any(matches_name(it, name) for it in allow) and not any(matches_name(it, name) for it in deny)


def _written_workloads(change: DesiredChange) -> Iterator[tuple[str, Form]]:
    for name, workload in change.workloads.items():
        if workload is not None:
            yield f"workload '{name}'", workload
    for name, configuration in change.device_configurations.items():
        broker = (configuration or {}).get("broker", {}).get("workload")
        if broker is not None:
            yield f"the broker of device configuration '{name}'", broker
