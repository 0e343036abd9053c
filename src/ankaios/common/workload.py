"""Typed workloads as agents run them: their templates are rendered.

All objects are frozen; a change makes a new object, so a workload changed if it is not equal. Field names and words are
those of the plain form (`model.state`), in snake case, so that msgspec converts between the two.
"""

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from ankaios.common.health import Health
from ankaios.common.names import has_allowed_characters


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
        """Return None if the name is invalid: labels of containers can also come from other programs."""
        parts = text.split(".")
        if len(parts) != 3 or not parts[0] or not all(map(has_allowed_characters, parts)):
            return None
        return cls(*parts)

    @classmethod
    def of(cls, workload: str, agent: str, runtime_config: str) -> "InstanceName":
        return cls(workload, runtime_config_id(runtime_config), agent)


def runtime_config_id(runtime_config: str) -> str:
    """Return the id, which is the hash of the rendered runtimeConfig."""
    from hashlib import sha256  # loads OpenSSL, which agents do not need: the server assigns ids

    return sha256(runtime_config.encode()).hexdigest()


class AddCondition(Enum):
    """[impl->swdd~workload-add-conditions-for-dependencies~1]"""

    ADD_COND_RUNNING = "ADD_COND_RUNNING"
    ADD_COND_SUCCEEDED = "ADD_COND_SUCCEEDED"
    ADD_COND_FAILED = "ADD_COND_FAILED"
    ADD_COND_HEALTHY = "ADD_COND_HEALTHY"


class DeleteCondition(Enum):
    """[impl->swdd~workload-delete-conditions-for-dependencies~1]"""

    DEL_COND_RUNNING = "DEL_COND_RUNNING"
    DEL_COND_NOT_PENDING_NOR_RUNNING = "DEL_COND_NOT_PENDING_NOR_RUNNING"


class RestartPolicy(Enum):
    NEVER = "NEVER"
    ON_FAILURE = "ON_FAILURE"
    ALWAYS = "ALWAYS"


class Operation(Enum):
    NOTHING = "Nothing"
    READ = "Read"
    WRITE = "Write"
    READ_WRITE = "ReadWrite"


class StateRule(Struct, frozen=True, rename="camel", tag_field="type", tag="StateRule"):
    operation: Operation
    filter_masks: tuple[str, ...]


class LogRule(Struct, frozen=True, rename="camel", tag_field="type", tag="LogRule"):
    workload_names: tuple[str, ...]


AccessRule = StateRule | LogRule


class ControlInterfaceAccess(Struct, frozen=True):
    allow: tuple[AccessRule, ...] = field(name="allowRules", default=())
    deny: tuple[AccessRule, ...] = field(name="denyRules", default=())


class File(Struct, frozen=True, rename="camel"):
    """Either `data` or `binary_data`, which is Base64, is set."""

    mount_point: str
    data: str | None = None
    binary_data: str | None = None


DEFAULT_RESOURCE_PREFIX = "akri.sh/"


class ResourceRequest(Struct, frozen=True):
    """`name` as written in the manifest; `resource` is the full extended resource name."""

    name: str
    quantity: int
    container: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)

    @property
    def resource(self) -> str:
        return self.name if "/" in self.name else DEFAULT_RESOURCE_PREFIX + self.name

    @property
    def description(self) -> str:
        """The resource with the selector, for messages."""
        return described_resource(self.resource, self.where)


def described_resource(resource: str, where: Mapping[str, str]) -> str:
    properties = ", ".join(f"{key}={value}" for key, value in sorted(where.items()))
    return f"{resource} with {properties}" if properties else resource


class Placement(Struct, frozen=True, rename="camel"):
    tags: Mapping[str, str] = field(default_factory=dict)
    replicas: int | None = None
    spread: bool = False
    every_agent: bool = False
    replica_of: str | None = None


class UpdateStrategy(Struct, frozen=True, rename="camel"):
    start_new_first: bool = False


class WorkloadSpec(Struct, frozen=True, rename="camel"):
    """A rendered workload. Mappings are never changed after construction."""

    instance_name: InstanceName
    runtime: str
    runtime_config: str
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    dependencies: Mapping[str, AddCondition] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    access: ControlInterfaceAccess = field(name="controlInterfaceAccess", default=ControlInterfaceAccess())
    resources: tuple[ResourceRequest, ...] = ()
    placement: Placement | None = None
    health: Health | None = None
    update_strategy: UpdateStrategy = UpdateStrategy()

    @property
    def name(self) -> str:
        return self.instance_name.workload

    @property
    def needs_control_interface(self) -> bool:
        """Deny rules alone permit no request. Native processes report their health with sd_notify instead.

        [impl->swdd~common-workload-needs-control-interface~1]
        """
        reports_health = self.health is not None and self.health.notify is not None and self.runtime != "native"
        return bool(self.access.allow) or reports_health

    @property
    def has_files(self) -> bool:
        """[impl->swdd~common-workload-has-files~1]"""
        return bool(self.files)


class DeletedWorkload(Struct, frozen=True):
    instance_name: InstanceName
    dependencies: Mapping[str, DeleteCondition] = field(default_factory=dict)
