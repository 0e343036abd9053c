"""What a workload is once its templates are rendered: the unit that is compared, sent to agents and run.

All of it is frozen; a change makes a new object, so equality tells whether a workload changed.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from msgspec import Struct, field

from ankaios.common.names import has_allowed_characters

NOTHING: Mapping[str, str] = MappingProxyType({})


class InstanceName(Struct, frozen=True, order=True):
    """Identifies one configuration of a workload on one agent.

    [impl->swdd~common-workload-execution-instance-naming~1]
    [impl->swdd~common-workload-state-identification~1]
    """

    workload: str
    id: str
    agent: str

    def __str__(self) -> str:
        return f"{self.workload}.{self.id}.{self.agent}"

    @property
    def short(self) -> str:
        """The default container name."""
        return f"{self.workload}.{self.id[:7]}.{self.agent}"

    @classmethod
    def parse(cls, text: str) -> "InstanceName | None":
        """None if it is no name the server could have given: whoever made a container chose its labels."""
        parts = text.split(".")
        if len(parts) != 3 or not parts[0] or not all(map(has_allowed_characters, parts)):
            return None
        return cls(*parts)

    @classmethod
    def of(cls, workload: str, agent: str, runtime_config: str) -> "InstanceName":
        return cls(workload, runtime_config_id(runtime_config), agent)


def runtime_config_id(runtime_config: str) -> str:
    """The id is the hash of the rendered runtimeConfig and of nothing else."""
    from hashlib import sha256  # loads OpenSSL, which an agent can do without: the server assigns ids

    return sha256(runtime_config.encode()).hexdigest()


class AddCondition(IntEnum):
    """[impl->swdd~workload-add-conditions-for-dependencies~1]"""

    ADD_COND_RUNNING = 0
    ADD_COND_SUCCEEDED = 1
    ADD_COND_FAILED = 2


class DeleteCondition(IntEnum):
    """[impl->swdd~workload-delete-conditions-for-dependencies~1]"""

    DEL_COND_RUNNING = 0
    DEL_COND_NOT_PENDING_NOR_RUNNING = 1


class RestartPolicy(IntEnum):
    NEVER = 0
    ON_FAILURE = 1
    ALWAYS = 2


class Operation(IntEnum):
    """Numbers as on the wire; the names in manifests are Nothing, Read, Write, ReadWrite."""

    NOTHING = 0
    READ = 1
    WRITE = 2
    READ_WRITE = 5


class StateRule(Struct, frozen=True):
    operation: Operation
    filter_masks: tuple[str, ...]


class LogRule(Struct, frozen=True):
    workload_names: tuple[str, ...]


AccessRule = StateRule | LogRule


class ControlInterfaceAccess(Struct, frozen=True):
    allow: tuple[AccessRule, ...] = ()
    deny: tuple[AccessRule, ...] = ()


class File(Struct, frozen=True):
    """Either text or base64 is set."""

    mount_point: str
    data: str | None = None
    binary_data: str | None = None


DEFAULT_RESOURCE_PREFIX = "akri.sh/"


class ResourceRequest(Struct, frozen=True):
    """`name` as written in the manifest; `resource` is the full extended resource name."""

    name: str
    quantity: int
    container: str | None = None

    @property
    def resource(self) -> str:
        return self.name if "/" in self.name else DEFAULT_RESOURCE_PREFIX + self.name


class Placement(Struct, frozen=True):
    tags: Mapping[str, str] = field(default_factory=lambda: NOTHING)


class WorkloadSpec(Struct, frozen=True):
    """A rendered workload. Mappings are never changed after construction."""

    instance_name: InstanceName
    runtime: str
    runtime_config: str
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    dependencies: Mapping[str, AddCondition] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    files: tuple[File, ...] = ()
    access: ControlInterfaceAccess = ControlInterfaceAccess()
    resources: tuple[ResourceRequest, ...] = ()
    placement: Placement | None = None

    @property
    def name(self) -> str:
        return self.instance_name.workload

    @property
    def needs_control_interface(self) -> bool:
        """Deny rules alone give nothing to talk about.

        [impl->swdd~common-workload-needs-control-interface~1]
        """
        return bool(self.access.allow)

    @property
    def has_files(self) -> bool:
        """[impl->swdd~common-workload-has-files~1]"""
        return bool(self.files)


class DeletedWorkload(Struct, frozen=True):
    instance_name: InstanceName
    dependencies: Mapping[str, DeleteCondition] = field(default_factory=dict)
