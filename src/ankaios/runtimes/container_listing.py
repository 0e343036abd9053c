"""All containers of podman or containerd at one moment, found by id, label or pod. Pure."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from ankaios.common.execution_state import ExecutionState
from ankaios.common.workload import InstanceName

NAME_LABEL = "name"
AGENT_LABEL = "agent"
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Container(Struct, frozen=True):
    """`pid` is 0 if the container has no process."""

    id: str
    state: ExecutionState
    pid: int = 0
    pod: str = ""
    infra: bool = False
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    names: tuple[str, ...] = ()

    @property
    def instance_name(self) -> InstanceName | None:
        return InstanceName.parse(self.labels.get(NAME_LABEL, ""))


class Listing:
    """All containers by id.

    [impl->swdd~podmancli-container-state-cache-all-containers~1]
    """

    def __init__(self, containers: list[Container]) -> None:
        self.by_id = {container.id: container for container in containers}
        self._by_name: dict[str, list[Container]] = {}
        self._by_pod: dict[str, list[Container]] = {}
        for container in containers:
            if name := container.labels.get(NAME_LABEL):
                self._by_name.setdefault(name, []).append(container)
            if container.pod:
                self._by_pod.setdefault(container.pod, []).append(container)

    def of_agent(self, agent: str) -> list[Container]:
        """[impl->swdd~podman-list-of-existing-workloads-uses-labels~1]"""
        return [container for container in self.by_id.values() if container.labels.get(AGENT_LABEL) == agent]

    def of_instance(self, name: InstanceName) -> list[Container]:
        """[impl->swdd~podman-get-workload-id-uses-label~1]"""
        return self._by_name.get(str(name), [])

    def of_pod(self, pod: str) -> list[Container]:
        return self._by_pod.get(pod, [])

    def pods(self) -> set[str]:
        """Return the ids of all pods that have containers."""
        return set(self._by_pod)


def integer(value: object) -> int | None:
    """Return None for an invalid value in the output of a program."""
    return value if type(value) is int else None


def text_labels(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        return _NO_LABELS
    return {key: text for key, text in value.items() if isinstance(text, str)}
