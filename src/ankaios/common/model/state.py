"""The declaration of the complete state: every field, its kind, its rules and its meaning.

A new field needs its protobuf field, its declaration here, and the code that acts on it. Parsing with its error texts,
the plain form, protobuf conversion, the JSON schema, the check of manifests and the reference follow. A field of a
workload that agents use is also an attribute of `WorkloadSpec`.

[impl->swdd~common-object-representation~1]
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ankaios.common import health, names
from ankaios.common.execution_state_conversion import HEALTH_WORDS, STATE_WORDS, SUB_STATE_WORDS
from ankaios.common.model.containers import ListOf, MapOf, WrappedMap
from ankaios.common.model.message import Message
from ankaios.common.model.objects import Field
from ankaios.common.model.scalars import Boolean, Duration, Enumeration, Integer, ScalarText, Text, TrimmedText, Words
from ankaios.common.model.unions import ConfigItem, ExecutionStateKind, HealthKind, TextSources, Variants
from ankaios.common.model.values import Form
from ankaios.common.pb import ank_base_pb2 as base

API_VERSION: Final = "v1"
DEPRECATED_API_VERSION: Final = "v0.1"
EMPTY_STATE: Final[Form] = {"apiVersion": API_VERSION, "workloads": {}}

NAME: Final = Text(names.NAME_PATTERN, names.MAX_NAME_LENGTH)
DEVICE_CONFIGURATION_NAME: Final = Text(names.NAME_PATTERN, names.MAX_DEVICE_CONFIGURATION_NAME_LENGTH)
TEXTS: Final = MapOf(Text())

# --- workloads --------------------------------------------------------------------------------------------------------

STATE_RULE = Message(
    base.StateRule,
    operation=Field(
        Enumeration(base.ReadWriteEnum, "Nothing", "Read", "Write", "ReadWrite"),
        "What may be done with the fields.",
        required=True,
    ),
    filterMasks=Field(
        ListOf(Text(names.FILTER_MASK_PATTERN)),
        "Paths of the fields and all below them, such as desiredState.workloads.*.tags.",
        required=True,
        former_name="filterMask",
    ),
)
LOG_RULE = Message(
    base.LogRule,
    workloadNames=Field(
        ListOf(Text(names.LOG_RULE_NAME_PATTERN, names.MAX_NAME_LENGTH + 1)),
        "Workloads whose logs may be read. One * in a name stands for any characters.",
        required=True,
    ),
)
RULE = Variants(
    base.AccessRightsRule,
    "Whether it is about the state or about logs.",
    StateRule=STATE_RULE,
    LogRule=LOG_RULE,
)
CONTROL_INTERFACE_ACCESS = Message(
    base.ControlInterfaceAccess,
    allowRules=Field(ListOf(RULE), "What is allowed. Without any rule the workload has no control interface."),
    denyRules=Field(ListOf(RULE), "What is denied although a rule allows it."),
)
FILE = Message(
    base.File,
    mountPoint=Field(Text(), "Absolute path inside the workload.", required=True),
    data=Field(Text(), "Text. May contain templates."),
    binaryData=Field(Text(), "Bytes as Base64. May contain templates."),
)
RESOURCE_REQUEST = Message(
    base.ResourceRequest,
    name=Field(
        Text(names.RESOURCE_NAME_PATTERN),
        "A device configuration or a single device; without / it means akri.sh/<name>. In the workload of a "
        "broker, {{PLACEHOLDER}} stands for its device.",
        required=True,
    ),
    quantity=Field(Integer(minimum=1), "How many of them.", default=1, stores_default=True),
    container=Field(Text(), "For podman-kube: the container <pod>/<container> that gets the devices."),
    where=Field(TEXTS, "Properties that each device must have, with these values."),
)
PLACEMENT = Message(
    base.Placement,
    tags=Field(TEXTS, "Tags that the agent must have, with these values."),
    replicas=Field(
        Integer(),
        "How many instances run, named <workload>-0, <workload>-1 and so on. Without it there is one, with the name of "
        "the workload.",
    ),
    spread=Field(
        Boolean(), "With replicas: an agent with fewer instances of the workload is preferred.", default=False
    ),
    everyAgent=Field(
        Boolean(),
        "One instance runs on each agent that has the tags, named <workload>-<agent>. Not together with replicas.",
        default=False,
    ),
    replicaOf=Field(Text(), "Only in the effective state: the workload of which this is an instance."),
)

_CHECK_FIELDS = {
    "interval": Field(
        Duration(),
        "Time from one check to the next. For notify: the longest time between two notifications.",
        default=health.CHECK_INTERVAL,
    ),
    "timeout": Field(
        Duration(),
        "A check that takes longer has failed and is ended with all its processes. For notify: how late a "
        "notification may be.",
        default=health.CHECK_TIMEOUT,
    ),
    "startPeriod": Field(
        Duration(),
        "After the start of the workload, failed checks do not count for this long, until one succeeds.",
        default=health.CHECK_START_PERIOD,
    ),
    "failures": Field(
        Integer(minimum=1, maximum=1000),
        "Number of successive failures that make it unhealthy.",
        default=health.CHECK_FAILURES,
    ),
    "successes": Field(
        Integer(minimum=1, maximum=1000),
        "Number of successive successes that make it healthy.",
        default=health.CHECK_SUCCESSES,
    ),
}
_PORT = Integer(minimum=1, maximum=65535)
_CHECKED_CONTAINER = Field(Text(), "For podman-kube: the container <pod>/<container> in which it is checked.")
_CHECKED_ADDRESS = Field(
    Text(max_length=253), "Address inside the network of the workload.", default=health.CHECKED_HOST
)
EXEC_CHECK = Message(
    base.ExecCheck,
    command=Field(
        ListOf(Text()),
        "Command with its arguments, run inside the container or beside the native process. Exit code 0: healthy.",
        required=True,
    ),
    container=_CHECKED_CONTAINER,
    **_CHECK_FIELDS,
)
HTTP_CHECK = Message(
    base.HttpCheck,
    port=Field(_PORT, "Port of the HTTP server.", required=True),
    path=Field(
        Text("^/[!-~]*$", 2048), "Path to get. Status codes from 200 to 399: healthy.", default=health.CHECKED_PATH
    ),
    host=_CHECKED_ADDRESS,
    **_CHECK_FIELDS,
)
TCP_CHECK = Message(
    base.TcpCheck,
    port=Field(_PORT, "Port that must accept a connection.", required=True),
    host=_CHECKED_ADDRESS,
    **_CHECK_FIELDS,
)
FILE_CHECK = Message(
    base.FileCheck,
    path=Field(Text("^/.*$", 4096), "Absolute path inside the workload. The file must exist.", required=True),
    maxAge=Field(Duration(), "The file must have been changed within this time."),
    container=_CHECKED_CONTAINER,
    **_CHECK_FIELDS,
)
NOTIFY_CHECK = Message(base.NotifyCheck, **_CHECK_FIELDS)
HEALTH = HealthKind(
    base.Health,
    exec=Field(EXEC_CHECK, "Runs a command."),
    http=Field(HTTP_CHECK, "Sends an HTTP request."),
    tcp=Field(TCP_CHECK, "Opens a TCP connection."),
    file=Field(FILE_CHECK, "Looks for a file."),
    notify=Field(
        NOTIFY_CHECK,
        "The workload reports regularly that it is healthy: over its control interface or, if it is a native "
        "process, with sd_notify.",
    ),
    image=Field(Boolean(), "Uses the HEALTHCHECK of the container image. Short: health: image."),
    onUnhealthy=Field(
        Enumeration(base.OnUnhealthy, *(word.value for word in health.OnUnhealthy)),
        "What happens to an unhealthy workload. Restarts are delayed like those of workloads that fail.",
        default=health.OnUnhealthy.RESTART.value,
    ),
)
UPDATE_STRATEGY = Message(
    base.UpdateStrategy,
    startNewFirst=Field(
        Boolean(),
        "Whether an update starts the new instance beside the old one and removes the old one when the new one runs "
        "and is healthy.",
        default=False,
    ),
)


class _Workload(Message[base.Workload]):
    def read(self, value: Any) -> Form:
        """The agent is optional for a workload with placement, because the server chooses it."""
        if isinstance(value, dict) and value.get("agent") is None and value.get("placement") is not None:
            value = {**value, "agent": ""}
        return super().read(value)


WORKLOAD = _Workload(
    base.Workload,
    agent=Field(
        ScalarText(names.AGENT_NAME_PATTERN),
        "Name of the agent that runs it. Empty: not scheduled. May contain templates such as {{node.name}}.",
        required=True,
        may_be_supplied=True,
    ),
    runtime=Field(ScalarText(), "For example podman or podman-kube.", required=True),
    runtimeConfig=Field(
        TrimmedText(), "Configuration of the runtime, usually YAML text. May contain templates.", required=True
    ),
    restartPolicy=Field(
        Enumeration(base.RestartPolicy),
        "When an ended workload is started again.",
        default="NEVER",
        stores_default=True,
    ),
    dependencies=Field(
        MapOf(Enumeration(base.AddCondition)), "Workloads by name, and the state they must reach first."
    ),
    tags=Field(TEXTS, "Keywords of the workload, for people and tools."),
    configs=Field(
        MapOf(NAME, keys=NAME),
        "Names used in the templates of this workload, and the configuration items they stand for.",
    ),
    files=Field(ListOf(FILE), "Files that the workload finds at its mount points."),
    controlInterfaceAccess=Field(
        CONTROL_INTERFACE_ACCESS, "What the workload may request from Ankaios.", keeps_empty=False
    ),
    resources=Field(ListOf(RESOURCE_REQUEST), "Devices the workload needs before it starts."),
    placement=Field(
        PLACEMENT,
        "Instead of an agent: the server chooses one that has all these tags and the requested devices, or runs "
        "several instances.",
    ),
    health=Field(
        HEALTH,
        "Checks whether the running workload works. The word image alone stands for the HEALTHCHECK of its image.",
    ),
    updateStrategy=Field(
        UPDATE_STRATEGY, "How an update replaces the running instance. By default the old one is removed first."
    ),
)
WORKLOAD_TEMPLATE = Message(
    base.Workload, **WORKLOAD.fields | {"agent": replace(WORKLOAD.fields["agent"], required=False)}
)
"""The workload of a broker. The server chooses its agent, so the agent is optional."""

# --- devices ----------------------------------------------------------------------------------------------------------

DISCOVERY_HANDLER = Message(
    base.DiscoveryHandler,
    name=Field(Text(), "For example udev, onvif, opcua or debugEcho.", required=True),
    discoveryDetails=Field(Text(), "Configuration of the handler, usually YAML text."),
    discoveryProperties=Field(
        TextSources(
            config=Field(NAME, "Key of a configuration item that is a string."),
            file=Field(Text(names.ABSOLUTE_PATH_PATTERN), "Path of a file that the agent reads, for secrets."),
        ),
        "More configuration of the handler, such as credentials. Each is a text or names where the text is.",
        keeps_empty=False,
    ),
)
BROKER = Message(
    base.Broker,
    strategy=Field(
        Enumeration(base.BrokerStrategy, "perNode", "perDevice", "perConfiguration"),
        "One on each node that sees a device, one for each device, or replicas that share all devices.",
        required=True,
    ),
    workload=Field(WORKLOAD_TEMPLATE, "What to run. Name and agent are chosen by the server.", required=True),
    replicas=Field(
        Integer(), "With perConfiguration: how many to run, as far as there are devices for them.", default=1
    ),
    quantity=Field(Integer(minimum=1), "How many slots each of them gets.", default=1),
)
DEVICE_PLACEMENT = Message(
    base.DevicePlacement,
    agents=Field(ListOf(Text()), "Names of agents."),
    tags=Field(TEXTS, "Tags of agents, with their values."),
)
DEVICE_CONFIGURATION = Message(
    base.DeviceConfiguration,
    discoveryHandler=Field(DISCOVERY_HANDLER, "Which handler finds the devices, and how.", required=True),
    capacity=Field(Integer(), "How many workloads may use one device at the same time.", default=1),
    brokerProperties=Field(TEXTS, "Environment variables for every user of such a device."),
    broker=Field(BROKER, "A workload that is run for discovered devices."),
    placement=Field(
        DEVICE_PLACEMENT,
        "Which agents discover devices: those named, and those that carry all the tags. Neither given: all.",
        keeps_empty=False,
    ),
    distinct=Field(
        Enumeration(base.Distinct, "required", "preferred"),
        "Whether a workload that requests several gets different devices, always or if there are enough.",
        default="required",
    ),
    offlineGraceSeconds=Field(
        Integer(),
        "How long a device that is not seen stays in the list. By default 300 for devices in the network, 30 for "
        "others.",
    ),
    onDeviceLost=Field(
        Enumeration(base.OnDeviceLost, "keep", "stop", "restart"),
        "What happens to a workload whose device is gone for good.",
        default="keep",
    ),
    onDeviceChanged=Field(
        Enumeration(base.OnDeviceChanged, "keep", "restart"),
        "What happens to a workload when the properties, mounts or device nodes of its device change.",
        default="keep",
    ),
)
DEVICE_MOUNT = Message(
    base.DeviceMount,
    containerPath=Field(Text(), "Path inside the workload."),
    hostPath=Field(Text(), "Path on the node."),
    readOnly=Field(Boolean(), "Whether the workload can only read."),
)
DEVICE_NODE = Message(
    base.DeviceNode,
    containerPath=Field(Text(), "Path inside the workload."),
    hostPath=Field(Text(), "Path on the node."),
    permissions=Field(Text(), "Letters of r for read, w for write and m for mknod."),
)
DEVICE_ATTRIBUTES = Message(
    base.DeviceAttributes,
    id=Field(Text(), "Id that the discovery handler reported."),
    mounts=Field(ListOf(DEVICE_MOUNT), "Folders and files that users of the device get."),
    deviceSpecs=Field(ListOf(DEVICE_NODE), "Device nodes that users of the device get."),
    online=Field(Boolean(), "Whether the device is seen at present."),
)
DEVICE_INSTANCE = Message(
    base.DeviceInstance,
    configurationName=Field(Text(), "The device configuration that it belongs to."),
    cdiName=Field(Text(), "Name of the device for the container device interface."),
    capacity=Field(Integer(), "How many slots it has."),
    shared=Field(Boolean(), "Whether several nodes may see it."),
    nodes=Field(ListOf(Text()), "Agents that see it."),
    deviceUsage=Field(
        TEXTS, "Slots by name, and their users: empty, <node>, or C:<virtual id>:<node> for any device of the kind."
    ),
    brokerProperties=Field(TEXTS, "Environment variables for every user of the device."),
    attributes=Field(DEVICE_ATTRIBUTES, "What the discovery handler reported."),
    slotOwners=Field(TEXTS, "Slots by name, and the workload instance that owns each."),
    onlineNodes=Field(ListOf(Text()), "Agents that see it now; the others saw it and may see it again."),
    offlineSinceMs=Field(
        Integer(maximum=2**63 - 1), "Since when no agent sees it, in milliseconds since 1970. Not set while one does."
    ),
    lost=Field(Boolean(), "Whether it is gone for good, and shown because a workload still holds one of its slots."),
)

# --- agents -----------------------------------------------------------------------------------------------------------

AGENT_STATUS = Message(
    base.AgentStatus,
    cpuUsage=Field(Integer(), "Used share of the processors, in percent."),
    freeMemory=Field(Integer(maximum=2**64 - 1), "Free memory in bytes."),
)
NODE_RESOURCE = Message(
    base.NodeResource,
    name=Field(Text(), "Full name of the resource, such as akri.sh/camera."),
    capacity=Field(Integer(), "How many there are."),
    allocatable=Field(Integer(), "How many of them are healthy."),
    allocated=Field(Integer(), "How many of them are in use."),
)
AGENT_ATTRIBUTES = Message(
    base.AgentAttributes,
    status=Field(AGENT_STATUS, "Load of the node, reported by the agent."),
    tags=Field(TEXTS, "Tags of the agent, for placement."),
    resources=Field(ListOf(NODE_RESOURCE), "Devices of the node, by resource."),
)
RESOURCE_USAGE = Message(
    base.ResourceUsage,
    cpuMillis=Field(Integer(), "Used processors in thousandths: 1500 are one and a half."),
    memoryBytes=Field(Integer(maximum=2**64 - 1), "Used memory in bytes."),
    uptimeSeconds=Field(Integer(maximum=2**64 - 1), "Seconds since the start of the first process."),
)
HEALTH_STATE = Message(
    base.HealthState,
    status=Field(Enumeration(base.HealthStatus, *HEALTH_WORDS), "Result of the health checks."),
    text=Field(Text(), "What the health checks found."),
)
EXECUTION_STATE = ExecutionStateKind(
    {
        "additionalInfo": Field(Text(), "Why the workload is in this state."),
        "state": Field(Words(*STATE_WORDS), "What the workload does."),
        "subState": Field(Words(*SUB_STATE_WORDS), "More about the state."),
        "health": Field(HEALTH_STATE, "Only of running workloads with health checks."),
        "restarts": Field(
            Integer(), "How often the agent has started it again since it was created or updated.", keeps_empty=False
        ),
        "usage": Field(RESOURCE_USAGE, "Used resources. Only there while a client requests it."),
    },
)

# --- the state --------------------------------------------------------------------------------------------------------

CONFIG_ITEM = ConfigItem(NAME)


class _State(Message[base.State]):
    def read(self, value: Any) -> Form:
        """Add `workloads` if it is missing: a state always has workloads."""
        return {**EMPTY_STATE, "workloads": {}, **super().read(value)}


STATE = _State(
    base.State,
    apiVersion=Field(ScalarText(f"^{API_VERSION}$"), "Version of this format.", required=True),
    workloads=Field(MapOf(WORKLOAD, keys=NAME, may_be_blank=True), "Workloads by name.", keeps_empty=True),
    configs=Field(
        MapOf(CONFIG_ITEM, keys=NAME, may_be_blank=True),
        "Configuration items by key. Workloads refer to them and use them in templates.",
    ),
    deviceConfigurations=Field(
        MapOf(DEVICE_CONFIGURATION, keys=DEVICE_CONFIGURATION_NAME, may_be_blank=True),
        "Which devices to discover, and how many workloads may share one.",
    ),
)
SECTIONS: Final = {name: field.kind.element for name, field in STATE.fields.items() if isinstance(field.kind, MapOf)}
"""The maps of a desired state, with the kind of their entries. An update replaces an entry as a whole."""

COMPLETE_STATE = Message(
    base.CompleteState,
    desiredState=Field(STATE, "What shall run. Only this part and the tags of agents can be changed."),
    workloadStates=Field(
        MapOf(WrappedMap("wlNameStateMap", WrappedMap("idStateMap", EXECUTION_STATE))),
        "Execution states by agent, workload and instance id.",
        keeps_empty=True,
    ),
    agents=Field(MapOf(AGENT_ATTRIBUTES), "Connected agents by name.", keeps_empty=True),
    effectiveState=Field(STATE, "What agents received: templates are rendered, brokers are added."),
    deviceInstances=Field(MapOf(DEVICE_INSTANCE), "Discovered devices by name."),
)
