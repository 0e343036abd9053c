from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AddCondition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADD_COND_RUNNING: _ClassVar[AddCondition]
    ADD_COND_SUCCEEDED: _ClassVar[AddCondition]
    ADD_COND_FAILED: _ClassVar[AddCondition]
    ADD_COND_HEALTHY: _ClassVar[AddCondition]

class OnUnhealthy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_UNHEALTHY_RESTART: _ClassVar[OnUnhealthy]
    ON_UNHEALTHY_STOP: _ClassVar[OnUnhealthy]
    ON_UNHEALTHY_NONE: _ClassVar[OnUnhealthy]

class RestartPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NEVER: _ClassVar[RestartPolicy]
    ON_FAILURE: _ClassVar[RestartPolicy]
    ALWAYS: _ClassVar[RestartPolicy]

class ReadWriteEnum(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RW_NOTHING: _ClassVar[ReadWriteEnum]
    RW_READ: _ClassVar[ReadWriteEnum]
    RW_WRITE: _ClassVar[ReadWriteEnum]
    RW_READ_WRITE: _ClassVar[ReadWriteEnum]

class HealthStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_STARTING: _ClassVar[HealthStatus]
    HEALTH_HEALTHY: _ClassVar[HealthStatus]
    HEALTH_UNHEALTHY: _ClassVar[HealthStatus]

class AgentDisconnected(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGENT_DISCONNECTED: _ClassVar[AgentDisconnected]

class Pending(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PENDING_INITIAL: _ClassVar[Pending]
    PENDING_WAITING_TO_START: _ClassVar[Pending]
    PENDING_STARTING: _ClassVar[Pending]
    PENDING_STARTING_FAILED: _ClassVar[Pending]

class Running(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUNNING_OK: _ClassVar[Running]

class Stopping(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOPPING: _ClassVar[Stopping]
    STOPPING_WAITING_TO_STOP: _ClassVar[Stopping]
    STOPPING_REQUESTED_AT_RUNTIME: _ClassVar[Stopping]
    STOPPING_DELETE_FAILED: _ClassVar[Stopping]

class Succeeded(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUCCEEDED_OK: _ClassVar[Succeeded]

class Failed(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILED_EXEC_FAILED: _ClassVar[Failed]
    FAILED_UNKNOWN: _ClassVar[Failed]
    FAILED_LOST: _ClassVar[Failed]

class NotScheduled(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOT_SCHEDULED: _ClassVar[NotScheduled]

class Removed(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REMOVED: _ClassVar[Removed]

class Distinct(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISTINCT_REQUIRED: _ClassVar[Distinct]
    DISTINCT_PREFERRED: _ClassVar[Distinct]

class OnDeviceLost(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DEVICE_LOST_KEEP: _ClassVar[OnDeviceLost]
    ON_DEVICE_LOST_STOP: _ClassVar[OnDeviceLost]
    ON_DEVICE_LOST_RESTART: _ClassVar[OnDeviceLost]

class OnDeviceChanged(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DEVICE_CHANGED_KEEP: _ClassVar[OnDeviceChanged]
    ON_DEVICE_CHANGED_RESTART: _ClassVar[OnDeviceChanged]

class BrokerStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BROKER_PER_NODE: _ClassVar[BrokerStrategy]
    BROKER_PER_DEVICE: _ClassVar[BrokerStrategy]
    BROKER_PER_CONFIGURATION: _ClassVar[BrokerStrategy]

class PlannedAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLANNED_CREATE: _ClassVar[PlannedAction]
    PLANNED_UPDATE: _ClassVar[PlannedAction]
    PLANNED_RESTART: _ClassVar[PlannedAction]
    PLANNED_MOVE: _ClassVar[PlannedAction]
    PLANNED_DELETE: _ClassVar[PlannedAction]

class RolloutPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLLOUT_WAITING: _ClassVar[RolloutPhase]
    ROLLOUT_SETTLING: _ClassVar[RolloutPhase]
    ROLLOUT_RESTORING: _ClassVar[RolloutPhase]
    ROLLOUT_COMPLETED: _ClassVar[RolloutPhase]
    ROLLOUT_RESTORED: _ClassVar[RolloutPhase]
    ROLLOUT_RESTORE_INCOMPLETE: _ClassVar[RolloutPhase]
ADD_COND_RUNNING: AddCondition
ADD_COND_SUCCEEDED: AddCondition
ADD_COND_FAILED: AddCondition
ADD_COND_HEALTHY: AddCondition
ON_UNHEALTHY_RESTART: OnUnhealthy
ON_UNHEALTHY_STOP: OnUnhealthy
ON_UNHEALTHY_NONE: OnUnhealthy
NEVER: RestartPolicy
ON_FAILURE: RestartPolicy
ALWAYS: RestartPolicy
RW_NOTHING: ReadWriteEnum
RW_READ: ReadWriteEnum
RW_WRITE: ReadWriteEnum
RW_READ_WRITE: ReadWriteEnum
HEALTH_STARTING: HealthStatus
HEALTH_HEALTHY: HealthStatus
HEALTH_UNHEALTHY: HealthStatus
AGENT_DISCONNECTED: AgentDisconnected
PENDING_INITIAL: Pending
PENDING_WAITING_TO_START: Pending
PENDING_STARTING: Pending
PENDING_STARTING_FAILED: Pending
RUNNING_OK: Running
STOPPING: Stopping
STOPPING_WAITING_TO_STOP: Stopping
STOPPING_REQUESTED_AT_RUNTIME: Stopping
STOPPING_DELETE_FAILED: Stopping
SUCCEEDED_OK: Succeeded
FAILED_EXEC_FAILED: Failed
FAILED_UNKNOWN: Failed
FAILED_LOST: Failed
NOT_SCHEDULED: NotScheduled
REMOVED: Removed
DISTINCT_REQUIRED: Distinct
DISTINCT_PREFERRED: Distinct
ON_DEVICE_LOST_KEEP: OnDeviceLost
ON_DEVICE_LOST_STOP: OnDeviceLost
ON_DEVICE_LOST_RESTART: OnDeviceLost
ON_DEVICE_CHANGED_KEEP: OnDeviceChanged
ON_DEVICE_CHANGED_RESTART: OnDeviceChanged
BROKER_PER_NODE: BrokerStrategy
BROKER_PER_DEVICE: BrokerStrategy
BROKER_PER_CONFIGURATION: BrokerStrategy
PLANNED_CREATE: PlannedAction
PLANNED_UPDATE: PlannedAction
PLANNED_RESTART: PlannedAction
PLANNED_MOVE: PlannedAction
PLANNED_DELETE: PlannedAction
ROLLOUT_WAITING: RolloutPhase
ROLLOUT_SETTLING: RolloutPhase
ROLLOUT_RESTORING: RolloutPhase
ROLLOUT_COMPLETED: RolloutPhase
ROLLOUT_RESTORED: RolloutPhase
ROLLOUT_RESTORE_INCOMPLETE: RolloutPhase

class Request(_message.Message):
    __slots__ = ("requestId", "updateStateRequest", "completeStateRequest", "logsRequest", "logsCancelRequest", "eventsCancelRequest", "planRequest", "historyRequest", "rollbackRequest", "recordsRequest", "whyRequest", "rolloutsRequest", "serversRequest", "usageRequest")
    REQUESTID_FIELD_NUMBER: _ClassVar[int]
    UPDATESTATEREQUEST_FIELD_NUMBER: _ClassVar[int]
    COMPLETESTATEREQUEST_FIELD_NUMBER: _ClassVar[int]
    LOGSREQUEST_FIELD_NUMBER: _ClassVar[int]
    LOGSCANCELREQUEST_FIELD_NUMBER: _ClassVar[int]
    EVENTSCANCELREQUEST_FIELD_NUMBER: _ClassVar[int]
    PLANREQUEST_FIELD_NUMBER: _ClassVar[int]
    HISTORYREQUEST_FIELD_NUMBER: _ClassVar[int]
    ROLLBACKREQUEST_FIELD_NUMBER: _ClassVar[int]
    RECORDSREQUEST_FIELD_NUMBER: _ClassVar[int]
    WHYREQUEST_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTSREQUEST_FIELD_NUMBER: _ClassVar[int]
    SERVERSREQUEST_FIELD_NUMBER: _ClassVar[int]
    USAGEREQUEST_FIELD_NUMBER: _ClassVar[int]
    requestId: str
    updateStateRequest: UpdateStateRequest
    completeStateRequest: CompleteStateRequest
    logsRequest: LogsRequest
    logsCancelRequest: LogsCancelRequest
    eventsCancelRequest: EventsCancelRequest
    planRequest: PlanRequest
    historyRequest: HistoryRequest
    rollbackRequest: RollbackRequest
    recordsRequest: RecordsRequest
    whyRequest: WhyRequest
    rolloutsRequest: RolloutsRequest
    serversRequest: ServersRequest
    usageRequest: UsageRequest
    def __init__(self, requestId: _Optional[str] = ..., updateStateRequest: _Optional[_Union[UpdateStateRequest, _Mapping]] = ..., completeStateRequest: _Optional[_Union[CompleteStateRequest, _Mapping]] = ..., logsRequest: _Optional[_Union[LogsRequest, _Mapping]] = ..., logsCancelRequest: _Optional[_Union[LogsCancelRequest, _Mapping]] = ..., eventsCancelRequest: _Optional[_Union[EventsCancelRequest, _Mapping]] = ..., planRequest: _Optional[_Union[PlanRequest, _Mapping]] = ..., historyRequest: _Optional[_Union[HistoryRequest, _Mapping]] = ..., rollbackRequest: _Optional[_Union[RollbackRequest, _Mapping]] = ..., recordsRequest: _Optional[_Union[RecordsRequest, _Mapping]] = ..., whyRequest: _Optional[_Union[WhyRequest, _Mapping]] = ..., rolloutsRequest: _Optional[_Union[RolloutsRequest, _Mapping]] = ..., serversRequest: _Optional[_Union[ServersRequest, _Mapping]] = ..., usageRequest: _Optional[_Union[UsageRequest, _Mapping]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("requestId", "error", "completeStateResponse", "UpdateStateSuccess", "logsRequestAccepted", "logEntriesResponse", "logsStopResponse", "logsCancelAccepted", "eventsCancelAccepted", "planResponse", "historyResponse", "recordsResponse", "whyResponse", "rolloutsResponse", "serversResponse", "usageResponse")
    REQUESTID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COMPLETESTATERESPONSE_FIELD_NUMBER: _ClassVar[int]
    UPDATESTATESUCCESS_FIELD_NUMBER: _ClassVar[int]
    LOGSREQUESTACCEPTED_FIELD_NUMBER: _ClassVar[int]
    LOGENTRIESRESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOGSSTOPRESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOGSCANCELACCEPTED_FIELD_NUMBER: _ClassVar[int]
    EVENTSCANCELACCEPTED_FIELD_NUMBER: _ClassVar[int]
    PLANRESPONSE_FIELD_NUMBER: _ClassVar[int]
    HISTORYRESPONSE_FIELD_NUMBER: _ClassVar[int]
    RECORDSRESPONSE_FIELD_NUMBER: _ClassVar[int]
    WHYRESPONSE_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTSRESPONSE_FIELD_NUMBER: _ClassVar[int]
    SERVERSRESPONSE_FIELD_NUMBER: _ClassVar[int]
    USAGERESPONSE_FIELD_NUMBER: _ClassVar[int]
    requestId: str
    error: Error
    completeStateResponse: CompleteStateResponse
    UpdateStateSuccess: UpdateStateSuccess
    logsRequestAccepted: LogsRequestAccepted
    logEntriesResponse: LogEntriesResponse
    logsStopResponse: LogsStopResponse
    logsCancelAccepted: LogsCancelAccepted
    eventsCancelAccepted: EventsCancelAccepted
    planResponse: PlanResponse
    historyResponse: HistoryResponse
    recordsResponse: RecordsResponse
    whyResponse: WhyResponse
    rolloutsResponse: RolloutsResponse
    serversResponse: ServersResponse
    usageResponse: UsageResponse
    def __init__(self, requestId: _Optional[str] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., completeStateResponse: _Optional[_Union[CompleteStateResponse, _Mapping]] = ..., UpdateStateSuccess: _Optional[_Union[UpdateStateSuccess, _Mapping]] = ..., logsRequestAccepted: _Optional[_Union[LogsRequestAccepted, _Mapping]] = ..., logEntriesResponse: _Optional[_Union[LogEntriesResponse, _Mapping]] = ..., logsStopResponse: _Optional[_Union[LogsStopResponse, _Mapping]] = ..., logsCancelAccepted: _Optional[_Union[LogsCancelAccepted, _Mapping]] = ..., eventsCancelAccepted: _Optional[_Union[EventsCancelAccepted, _Mapping]] = ..., planResponse: _Optional[_Union[PlanResponse, _Mapping]] = ..., historyResponse: _Optional[_Union[HistoryResponse, _Mapping]] = ..., recordsResponse: _Optional[_Union[RecordsResponse, _Mapping]] = ..., whyResponse: _Optional[_Union[WhyResponse, _Mapping]] = ..., rolloutsResponse: _Optional[_Union[RolloutsResponse, _Mapping]] = ..., serversResponse: _Optional[_Union[ServersResponse, _Mapping]] = ..., usageResponse: _Optional[_Union[UsageResponse, _Mapping]] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("workloadNames", "follow", "tail", "since", "until")
    WORKLOADNAMES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    workloadNames: _containers.RepeatedCompositeFieldContainer[WorkloadInstanceName]
    follow: bool
    tail: int
    since: str
    until: str
    def __init__(self, workloadNames: _Optional[_Iterable[_Union[WorkloadInstanceName, _Mapping]]] = ..., follow: bool = ..., tail: _Optional[int] = ..., since: _Optional[str] = ..., until: _Optional[str] = ...) -> None: ...

class LogsCancelRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EventsCancelRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LogsCancelAccepted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EventsCancelAccepted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LogsRequestAccepted(_message.Message):
    __slots__ = ("workloadNames",)
    WORKLOADNAMES_FIELD_NUMBER: _ClassVar[int]
    workloadNames: _containers.RepeatedCompositeFieldContainer[WorkloadInstanceName]
    def __init__(self, workloadNames: _Optional[_Iterable[_Union[WorkloadInstanceName, _Mapping]]] = ...) -> None: ...

class LogEntriesResponse(_message.Message):
    __slots__ = ("logEntries",)
    LOGENTRIES_FIELD_NUMBER: _ClassVar[int]
    logEntries: _containers.RepeatedCompositeFieldContainer[LogEntry]
    def __init__(self, logEntries: _Optional[_Iterable[_Union[LogEntry, _Mapping]]] = ...) -> None: ...

class LogsStopResponse(_message.Message):
    __slots__ = ("workloadName",)
    WORKLOADNAME_FIELD_NUMBER: _ClassVar[int]
    workloadName: WorkloadInstanceName
    def __init__(self, workloadName: _Optional[_Union[WorkloadInstanceName, _Mapping]] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("workloadName", "message")
    WORKLOADNAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    workloadName: WorkloadInstanceName
    message: str
    def __init__(self, workloadName: _Optional[_Union[WorkloadInstanceName, _Mapping]] = ..., message: _Optional[str] = ...) -> None: ...

class CompleteStateRequest(_message.Message):
    __slots__ = ("fieldMask", "subscribeForEvents")
    FIELDMASK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBEFOREVENTS_FIELD_NUMBER: _ClassVar[int]
    fieldMask: _containers.RepeatedScalarFieldContainer[str]
    subscribeForEvents: bool
    def __init__(self, fieldMask: _Optional[_Iterable[str]] = ..., subscribeForEvents: bool = ...) -> None: ...

class UpdateStateRequest(_message.Message):
    __slots__ = ("newState", "updateMask", "ifRevision", "atomic")
    NEWSTATE_FIELD_NUMBER: _ClassVar[int]
    UPDATEMASK_FIELD_NUMBER: _ClassVar[int]
    IFREVISION_FIELD_NUMBER: _ClassVar[int]
    ATOMIC_FIELD_NUMBER: _ClassVar[int]
    newState: CompleteState
    updateMask: _containers.RepeatedScalarFieldContainer[str]
    ifRevision: int
    atomic: AtomicOptions
    def __init__(self, newState: _Optional[_Union[CompleteState, _Mapping]] = ..., updateMask: _Optional[_Iterable[str]] = ..., ifRevision: _Optional[int] = ..., atomic: _Optional[_Union[AtomicOptions, _Mapping]] = ...) -> None: ...

class UpdateStateSuccess(_message.Message):
    __slots__ = ("addedWorkloads", "deletedWorkloads", "revision", "rollout")
    ADDEDWORKLOADS_FIELD_NUMBER: _ClassVar[int]
    DELETEDWORKLOADS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    addedWorkloads: _containers.RepeatedScalarFieldContainer[str]
    deletedWorkloads: _containers.RepeatedScalarFieldContainer[str]
    revision: int
    rollout: str
    def __init__(self, addedWorkloads: _Optional[_Iterable[str]] = ..., deletedWorkloads: _Optional[_Iterable[str]] = ..., revision: _Optional[int] = ..., rollout: _Optional[str] = ...) -> None: ...

class HistoryRequest(_message.Message):
    __slots__ = ("workloads", "first", "last", "limit", "values")
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    workloads: _containers.RepeatedScalarFieldContainer[str]
    first: int
    last: int
    limit: int
    values: bool
    def __init__(self, workloads: _Optional[_Iterable[str]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., limit: _Optional[int] = ..., values: bool = ...) -> None: ...

class HistoryResponse(_message.Message):
    __slots__ = ("revisions", "current")
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    revisions: _containers.RepeatedCompositeFieldContainer[RevisionInfo]
    current: int
    def __init__(self, revisions: _Optional[_Iterable[_Union[RevisionInfo, _Mapping]]] = ..., current: _Optional[int] = ...) -> None: ...

class RevisionInfo(_message.Message):
    __slots__ = ("number", "timeMs", "requester", "updateMasks", "entries", "note")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIMEMS_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    UPDATEMASKS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    number: int
    timeMs: int
    requester: str
    updateMasks: _containers.RepeatedScalarFieldContainer[str]
    entries: _containers.RepeatedCompositeFieldContainer[EntryChange]
    note: str
    def __init__(self, number: _Optional[int] = ..., timeMs: _Optional[int] = ..., requester: _Optional[str] = ..., updateMasks: _Optional[_Iterable[str]] = ..., entries: _Optional[_Iterable[_Union[EntryChange, _Mapping]]] = ..., note: _Optional[str] = ...) -> None: ...

class EntryChange(_message.Message):
    __slots__ = ("kind", "name", "before", "after")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    before: str
    after: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("revision", "workloads", "atomic")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    ATOMIC_FIELD_NUMBER: _ClassVar[int]
    revision: int
    workloads: _containers.RepeatedScalarFieldContainer[str]
    atomic: AtomicOptions
    def __init__(self, revision: _Optional[int] = ..., workloads: _Optional[_Iterable[str]] = ..., atomic: _Optional[_Union[AtomicOptions, _Mapping]] = ...) -> None: ...

class ServersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServersResponse(_message.Message):
    __slots__ = ("servers",)
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedCompositeFieldContainer[ServerInfo]
    def __init__(self, servers: _Optional[_Iterable[_Union[ServerInfo, _Mapping]]] = ...) -> None: ...

class ServerInfo(_message.Message):
    __slots__ = ("name", "url", "leader", "term", "version", "storage", "revision", "lagMs", "problem", "members")
    NAME_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LAGMS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    url: str
    leader: bool
    term: int
    version: str
    storage: str
    revision: int
    lagMs: int
    problem: str
    members: _containers.RepeatedCompositeFieldContainer[StorageMember]
    def __init__(self, name: _Optional[str] = ..., url: _Optional[str] = ..., leader: bool = ..., term: _Optional[int] = ..., version: _Optional[str] = ..., storage: _Optional[str] = ..., revision: _Optional[int] = ..., lagMs: _Optional[int] = ..., problem: _Optional[str] = ..., members: _Optional[_Iterable[_Union[StorageMember, _Mapping]]] = ...) -> None: ...

class StorageMember(_message.Message):
    __slots__ = ("name", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    problem: str
    def __init__(self, name: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class CompleteStateResponse(_message.Message):
    __slots__ = ("completeState", "alteredFields")
    COMPLETESTATE_FIELD_NUMBER: _ClassVar[int]
    ALTEREDFIELDS_FIELD_NUMBER: _ClassVar[int]
    completeState: CompleteState
    alteredFields: AlteredFields
    def __init__(self, completeState: _Optional[_Union[CompleteState, _Mapping]] = ..., alteredFields: _Optional[_Union[AlteredFields, _Mapping]] = ...) -> None: ...

class AlteredFields(_message.Message):
    __slots__ = ("addedFields", "updatedFields", "removedFields")
    ADDEDFIELDS_FIELD_NUMBER: _ClassVar[int]
    UPDATEDFIELDS_FIELD_NUMBER: _ClassVar[int]
    REMOVEDFIELDS_FIELD_NUMBER: _ClassVar[int]
    addedFields: _containers.RepeatedScalarFieldContainer[str]
    updatedFields: _containers.RepeatedScalarFieldContainer[str]
    removedFields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, addedFields: _Optional[_Iterable[str]] = ..., updatedFields: _Optional[_Iterable[str]] = ..., removedFields: _Optional[_Iterable[str]] = ...) -> None: ...

class CompleteState(_message.Message):
    __slots__ = ("desiredState", "workloadStates", "agents", "effectiveState", "deviceInstances")
    DESIREDSTATE_FIELD_NUMBER: _ClassVar[int]
    WORKLOADSTATES_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVESTATE_FIELD_NUMBER: _ClassVar[int]
    DEVICEINSTANCES_FIELD_NUMBER: _ClassVar[int]
    desiredState: State
    workloadStates: WorkloadStatesMap
    agents: AgentMap
    effectiveState: State
    deviceInstances: DeviceInstanceMap
    def __init__(self, desiredState: _Optional[_Union[State, _Mapping]] = ..., workloadStates: _Optional[_Union[WorkloadStatesMap, _Mapping]] = ..., agents: _Optional[_Union[AgentMap, _Mapping]] = ..., effectiveState: _Optional[_Union[State, _Mapping]] = ..., deviceInstances: _Optional[_Union[DeviceInstanceMap, _Mapping]] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("apiVersion", "workloads", "configs", "deviceConfigurations")
    APIVERSION_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    DEVICECONFIGURATIONS_FIELD_NUMBER: _ClassVar[int]
    apiVersion: str
    workloads: WorkloadMap
    configs: ConfigMap
    deviceConfigurations: DeviceConfigurationMap
    def __init__(self, apiVersion: _Optional[str] = ..., workloads: _Optional[_Union[WorkloadMap, _Mapping]] = ..., configs: _Optional[_Union[ConfigMap, _Mapping]] = ..., deviceConfigurations: _Optional[_Union[DeviceConfigurationMap, _Mapping]] = ...) -> None: ...

class WorkloadMap(_message.Message):
    __slots__ = ("workloads",)
    class WorkloadsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Workload
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Workload, _Mapping]] = ...) -> None: ...
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    workloads: _containers.MessageMap[str, Workload]
    def __init__(self, workloads: _Optional[_Mapping[str, Workload]] = ...) -> None: ...

class Workload(_message.Message):
    __slots__ = ("agent", "restartPolicy", "dependencies", "tags", "runtime", "runtimeConfig", "controlInterfaceAccess", "configs", "files", "resources", "placement", "health", "updateStrategy")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    RESTARTPOLICY_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    RUNTIMECONFIG_FIELD_NUMBER: _ClassVar[int]
    CONTROLINTERFACEACCESS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    UPDATESTRATEGY_FIELD_NUMBER: _ClassVar[int]
    agent: str
    restartPolicy: RestartPolicy
    dependencies: Dependencies
    tags: Tags
    runtime: str
    runtimeConfig: str
    controlInterfaceAccess: ControlInterfaceAccess
    configs: ConfigMappings
    files: Files
    resources: ResourceRequests
    placement: Placement
    health: Health
    updateStrategy: UpdateStrategy
    def __init__(self, agent: _Optional[str] = ..., restartPolicy: _Optional[_Union[RestartPolicy, str]] = ..., dependencies: _Optional[_Union[Dependencies, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., runtime: _Optional[str] = ..., runtimeConfig: _Optional[str] = ..., controlInterfaceAccess: _Optional[_Union[ControlInterfaceAccess, _Mapping]] = ..., configs: _Optional[_Union[ConfigMappings, _Mapping]] = ..., files: _Optional[_Union[Files, _Mapping]] = ..., resources: _Optional[_Union[ResourceRequests, _Mapping]] = ..., placement: _Optional[_Union[Placement, _Mapping]] = ..., health: _Optional[_Union[Health, _Mapping]] = ..., updateStrategy: _Optional[_Union[UpdateStrategy, _Mapping]] = ...) -> None: ...

class Health(_message.Message):
    __slots__ = ("image", "exec", "http", "tcp", "file", "notify", "onUnhealthy")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    EXEC_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    TCP_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    ONUNHEALTHY_FIELD_NUMBER: _ClassVar[int]
    image: bool
    exec: ExecCheck
    http: HttpCheck
    tcp: TcpCheck
    file: FileCheck
    notify: NotifyCheck
    onUnhealthy: OnUnhealthy
    def __init__(self, image: bool = ..., exec: _Optional[_Union[ExecCheck, _Mapping]] = ..., http: _Optional[_Union[HttpCheck, _Mapping]] = ..., tcp: _Optional[_Union[TcpCheck, _Mapping]] = ..., file: _Optional[_Union[FileCheck, _Mapping]] = ..., notify: _Optional[_Union[NotifyCheck, _Mapping]] = ..., onUnhealthy: _Optional[_Union[OnUnhealthy, str]] = ...) -> None: ...

class ExecCheck(_message.Message):
    __slots__ = ("interval", "timeout", "startPeriod", "failures", "successes", "command", "container")
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    STARTPERIOD_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SUCCESSES_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    interval: int
    timeout: int
    startPeriod: int
    failures: int
    successes: int
    command: _containers.RepeatedScalarFieldContainer[str]
    container: str
    def __init__(self, interval: _Optional[int] = ..., timeout: _Optional[int] = ..., startPeriod: _Optional[int] = ..., failures: _Optional[int] = ..., successes: _Optional[int] = ..., command: _Optional[_Iterable[str]] = ..., container: _Optional[str] = ...) -> None: ...

class HttpCheck(_message.Message):
    __slots__ = ("interval", "timeout", "startPeriod", "failures", "successes", "port", "path", "host")
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    STARTPERIOD_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SUCCESSES_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    interval: int
    timeout: int
    startPeriod: int
    failures: int
    successes: int
    port: int
    path: str
    host: str
    def __init__(self, interval: _Optional[int] = ..., timeout: _Optional[int] = ..., startPeriod: _Optional[int] = ..., failures: _Optional[int] = ..., successes: _Optional[int] = ..., port: _Optional[int] = ..., path: _Optional[str] = ..., host: _Optional[str] = ...) -> None: ...

class TcpCheck(_message.Message):
    __slots__ = ("interval", "timeout", "startPeriod", "failures", "successes", "port", "host")
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    STARTPERIOD_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SUCCESSES_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    interval: int
    timeout: int
    startPeriod: int
    failures: int
    successes: int
    port: int
    host: str
    def __init__(self, interval: _Optional[int] = ..., timeout: _Optional[int] = ..., startPeriod: _Optional[int] = ..., failures: _Optional[int] = ..., successes: _Optional[int] = ..., port: _Optional[int] = ..., host: _Optional[str] = ...) -> None: ...

class FileCheck(_message.Message):
    __slots__ = ("interval", "timeout", "startPeriod", "failures", "successes", "path", "maxAge", "container")
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    STARTPERIOD_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SUCCESSES_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MAXAGE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    interval: int
    timeout: int
    startPeriod: int
    failures: int
    successes: int
    path: str
    maxAge: int
    container: str
    def __init__(self, interval: _Optional[int] = ..., timeout: _Optional[int] = ..., startPeriod: _Optional[int] = ..., failures: _Optional[int] = ..., successes: _Optional[int] = ..., path: _Optional[str] = ..., maxAge: _Optional[int] = ..., container: _Optional[str] = ...) -> None: ...

class NotifyCheck(_message.Message):
    __slots__ = ("interval", "timeout", "startPeriod", "failures", "successes")
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    STARTPERIOD_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SUCCESSES_FIELD_NUMBER: _ClassVar[int]
    interval: int
    timeout: int
    startPeriod: int
    failures: int
    successes: int
    def __init__(self, interval: _Optional[int] = ..., timeout: _Optional[int] = ..., startPeriod: _Optional[int] = ..., failures: _Optional[int] = ..., successes: _Optional[int] = ...) -> None: ...

class Tags(_message.Message):
    __slots__ = ("tags",)
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TAGS_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.ScalarMap[str, str]
    def __init__(self, tags: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Dependencies(_message.Message):
    __slots__ = ("dependencies",)
    class DependenciesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AddCondition
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AddCondition, str]] = ...) -> None: ...
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    dependencies: _containers.ScalarMap[str, AddCondition]
    def __init__(self, dependencies: _Optional[_Mapping[str, AddCondition]] = ...) -> None: ...

class ConfigMappings(_message.Message):
    __slots__ = ("configs",)
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    configs: _containers.ScalarMap[str, str]
    def __init__(self, configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Files(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[File]
    def __init__(self, files: _Optional[_Iterable[_Union[File, _Mapping]]] = ...) -> None: ...

class File(_message.Message):
    __slots__ = ("mountPoint", "data", "binaryData")
    MOUNTPOINT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    BINARYDATA_FIELD_NUMBER: _ClassVar[int]
    mountPoint: str
    data: str
    binaryData: str
    def __init__(self, mountPoint: _Optional[str] = ..., data: _Optional[str] = ..., binaryData: _Optional[str] = ...) -> None: ...

class ConfigMap(_message.Message):
    __slots__ = ("configs",)
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ConfigItem
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ConfigItem, _Mapping]] = ...) -> None: ...
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    configs: _containers.MessageMap[str, ConfigItem]
    def __init__(self, configs: _Optional[_Mapping[str, ConfigItem]] = ...) -> None: ...

class ConfigItem(_message.Message):
    __slots__ = ("String", "array", "object")
    STRING_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    String: str
    array: ConfigArray
    object: ConfigObject
    def __init__(self, String: _Optional[str] = ..., array: _Optional[_Union[ConfigArray, _Mapping]] = ..., object: _Optional[_Union[ConfigObject, _Mapping]] = ...) -> None: ...

class ConfigArray(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[ConfigItem]
    def __init__(self, values: _Optional[_Iterable[_Union[ConfigItem, _Mapping]]] = ...) -> None: ...

class ConfigObject(_message.Message):
    __slots__ = ("fields",)
    class FieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ConfigItem
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ConfigItem, _Mapping]] = ...) -> None: ...
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.MessageMap[str, ConfigItem]
    def __init__(self, fields: _Optional[_Mapping[str, ConfigItem]] = ...) -> None: ...

class ControlInterfaceAccess(_message.Message):
    __slots__ = ("allowRules", "denyRules")
    ALLOWRULES_FIELD_NUMBER: _ClassVar[int]
    DENYRULES_FIELD_NUMBER: _ClassVar[int]
    allowRules: _containers.RepeatedCompositeFieldContainer[AccessRightsRule]
    denyRules: _containers.RepeatedCompositeFieldContainer[AccessRightsRule]
    def __init__(self, allowRules: _Optional[_Iterable[_Union[AccessRightsRule, _Mapping]]] = ..., denyRules: _Optional[_Iterable[_Union[AccessRightsRule, _Mapping]]] = ...) -> None: ...

class AccessRightsRule(_message.Message):
    __slots__ = ("stateRule", "logRule")
    STATERULE_FIELD_NUMBER: _ClassVar[int]
    LOGRULE_FIELD_NUMBER: _ClassVar[int]
    stateRule: StateRule
    logRule: LogRule
    def __init__(self, stateRule: _Optional[_Union[StateRule, _Mapping]] = ..., logRule: _Optional[_Union[LogRule, _Mapping]] = ...) -> None: ...

class StateRule(_message.Message):
    __slots__ = ("operation", "filterMasks")
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    FILTERMASKS_FIELD_NUMBER: _ClassVar[int]
    operation: ReadWriteEnum
    filterMasks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, operation: _Optional[_Union[ReadWriteEnum, str]] = ..., filterMasks: _Optional[_Iterable[str]] = ...) -> None: ...

class LogRule(_message.Message):
    __slots__ = ("workloadNames",)
    WORKLOADNAMES_FIELD_NUMBER: _ClassVar[int]
    workloadNames: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, workloadNames: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkloadStatesMap(_message.Message):
    __slots__ = ("agentStateMap",)
    class AgentStateMapEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ExecutionsStatesOfWorkload
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ExecutionsStatesOfWorkload, _Mapping]] = ...) -> None: ...
    AGENTSTATEMAP_FIELD_NUMBER: _ClassVar[int]
    agentStateMap: _containers.MessageMap[str, ExecutionsStatesOfWorkload]
    def __init__(self, agentStateMap: _Optional[_Mapping[str, ExecutionsStatesOfWorkload]] = ...) -> None: ...

class ExecutionsStatesOfWorkload(_message.Message):
    __slots__ = ("wlNameStateMap",)
    class WlNameStateMapEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ExecutionsStatesForId
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ExecutionsStatesForId, _Mapping]] = ...) -> None: ...
    WLNAMESTATEMAP_FIELD_NUMBER: _ClassVar[int]
    wlNameStateMap: _containers.MessageMap[str, ExecutionsStatesForId]
    def __init__(self, wlNameStateMap: _Optional[_Mapping[str, ExecutionsStatesForId]] = ...) -> None: ...

class ExecutionsStatesForId(_message.Message):
    __slots__ = ("idStateMap",)
    class IdStateMapEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ExecutionState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ExecutionState, _Mapping]] = ...) -> None: ...
    IDSTATEMAP_FIELD_NUMBER: _ClassVar[int]
    idStateMap: _containers.MessageMap[str, ExecutionState]
    def __init__(self, idStateMap: _Optional[_Mapping[str, ExecutionState]] = ...) -> None: ...

class ExecutionState(_message.Message):
    __slots__ = ("additionalInfo", "agentDisconnected", "pending", "running", "stopping", "succeeded", "failed", "notScheduled", "removed", "health", "usage", "restarts")
    ADDITIONALINFO_FIELD_NUMBER: _ClassVar[int]
    AGENTDISCONNECTED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    NOTSCHEDULED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    additionalInfo: str
    agentDisconnected: AgentDisconnected
    pending: Pending
    running: Running
    stopping: Stopping
    succeeded: Succeeded
    failed: Failed
    notScheduled: NotScheduled
    removed: Removed
    health: HealthState
    usage: ResourceUsage
    restarts: int
    def __init__(self, additionalInfo: _Optional[str] = ..., agentDisconnected: _Optional[_Union[AgentDisconnected, str]] = ..., pending: _Optional[_Union[Pending, str]] = ..., running: _Optional[_Union[Running, str]] = ..., stopping: _Optional[_Union[Stopping, str]] = ..., succeeded: _Optional[_Union[Succeeded, str]] = ..., failed: _Optional[_Union[Failed, str]] = ..., notScheduled: _Optional[_Union[NotScheduled, str]] = ..., removed: _Optional[_Union[Removed, str]] = ..., health: _Optional[_Union[HealthState, _Mapping]] = ..., usage: _Optional[_Union[ResourceUsage, _Mapping]] = ..., restarts: _Optional[int] = ...) -> None: ...

class HealthState(_message.Message):
    __slots__ = ("status", "text")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    status: HealthStatus
    text: str
    def __init__(self, status: _Optional[_Union[HealthStatus, str]] = ..., text: _Optional[str] = ...) -> None: ...

class WorkloadState(_message.Message):
    __slots__ = ("instanceName", "executionState", "timeMs")
    INSTANCENAME_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONSTATE_FIELD_NUMBER: _ClassVar[int]
    TIMEMS_FIELD_NUMBER: _ClassVar[int]
    instanceName: WorkloadInstanceName
    executionState: ExecutionState
    timeMs: int
    def __init__(self, instanceName: _Optional[_Union[WorkloadInstanceName, _Mapping]] = ..., executionState: _Optional[_Union[ExecutionState, _Mapping]] = ..., timeMs: _Optional[int] = ...) -> None: ...

class WorkloadInstanceName(_message.Message):
    __slots__ = ("workloadName", "agentName", "id")
    WORKLOADNAME_FIELD_NUMBER: _ClassVar[int]
    AGENTNAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    workloadName: str
    agentName: str
    id: str
    def __init__(self, workloadName: _Optional[str] = ..., agentName: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class AgentMap(_message.Message):
    __slots__ = ("agents",)
    class AgentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AgentAttributes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AgentAttributes, _Mapping]] = ...) -> None: ...
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.MessageMap[str, AgentAttributes]
    def __init__(self, agents: _Optional[_Mapping[str, AgentAttributes]] = ...) -> None: ...

class AgentAttributes(_message.Message):
    __slots__ = ("status", "tags", "resources")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    status: AgentStatus
    tags: Tags
    resources: NodeResources
    def __init__(self, status: _Optional[_Union[AgentStatus, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., resources: _Optional[_Union[NodeResources, _Mapping]] = ...) -> None: ...

class AgentStatus(_message.Message):
    __slots__ = ("cpu_usage", "free_memory")
    CPU_USAGE_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    cpu_usage: CpuUsage
    free_memory: FreeMemory
    def __init__(self, cpu_usage: _Optional[_Union[CpuUsage, _Mapping]] = ..., free_memory: _Optional[_Union[FreeMemory, _Mapping]] = ...) -> None: ...

class CpuUsage(_message.Message):
    __slots__ = ("cpu_usage",)
    CPU_USAGE_FIELD_NUMBER: _ClassVar[int]
    cpu_usage: int
    def __init__(self, cpu_usage: _Optional[int] = ...) -> None: ...

class FreeMemory(_message.Message):
    __slots__ = ("free_memory",)
    FREE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    free_memory: int
    def __init__(self, free_memory: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class ResourceRequests(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[ResourceRequest]
    def __init__(self, resources: _Optional[_Iterable[_Union[ResourceRequest, _Mapping]]] = ...) -> None: ...

class ResourceRequest(_message.Message):
    __slots__ = ("name", "quantity", "container", "where")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUANTITY_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    name: str
    quantity: int
    container: str
    where: StringMap
    def __init__(self, name: _Optional[str] = ..., quantity: _Optional[int] = ..., container: _Optional[str] = ..., where: _Optional[_Union[StringMap, _Mapping]] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("tags", "replicas", "spread", "everyAgent", "replicaOf")
    TAGS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    EVERYAGENT_FIELD_NUMBER: _ClassVar[int]
    REPLICAOF_FIELD_NUMBER: _ClassVar[int]
    tags: Tags
    replicas: int
    spread: bool
    everyAgent: bool
    replicaOf: str
    def __init__(self, tags: _Optional[_Union[Tags, _Mapping]] = ..., replicas: _Optional[int] = ..., spread: bool = ..., everyAgent: bool = ..., replicaOf: _Optional[str] = ...) -> None: ...

class NodeResources(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[NodeResource]
    def __init__(self, resources: _Optional[_Iterable[_Union[NodeResource, _Mapping]]] = ...) -> None: ...

class NodeResource(_message.Message):
    __slots__ = ("name", "capacity", "allocatable", "allocated")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    name: str
    capacity: int
    allocatable: int
    allocated: int
    def __init__(self, name: _Optional[str] = ..., capacity: _Optional[int] = ..., allocatable: _Optional[int] = ..., allocated: _Optional[int] = ...) -> None: ...

class DeviceConfigurationMap(_message.Message):
    __slots__ = ("deviceConfigurations",)
    class DeviceConfigurationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: DeviceConfiguration
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[DeviceConfiguration, _Mapping]] = ...) -> None: ...
    DEVICECONFIGURATIONS_FIELD_NUMBER: _ClassVar[int]
    deviceConfigurations: _containers.MessageMap[str, DeviceConfiguration]
    def __init__(self, deviceConfigurations: _Optional[_Mapping[str, DeviceConfiguration]] = ...) -> None: ...

class DeviceConfiguration(_message.Message):
    __slots__ = ("discoveryHandler", "capacity", "brokerProperties", "broker", "placement", "distinct", "offlineGraceSeconds", "onDeviceLost", "onDeviceChanged")
    DISCOVERYHANDLER_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    BROKERPROPERTIES_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_FIELD_NUMBER: _ClassVar[int]
    OFFLINEGRACESECONDS_FIELD_NUMBER: _ClassVar[int]
    ONDEVICELOST_FIELD_NUMBER: _ClassVar[int]
    ONDEVICECHANGED_FIELD_NUMBER: _ClassVar[int]
    discoveryHandler: DiscoveryHandler
    capacity: int
    brokerProperties: StringMap
    broker: Broker
    placement: DevicePlacement
    distinct: Distinct
    offlineGraceSeconds: int
    onDeviceLost: OnDeviceLost
    onDeviceChanged: OnDeviceChanged
    def __init__(self, discoveryHandler: _Optional[_Union[DiscoveryHandler, _Mapping]] = ..., capacity: _Optional[int] = ..., brokerProperties: _Optional[_Union[StringMap, _Mapping]] = ..., broker: _Optional[_Union[Broker, _Mapping]] = ..., placement: _Optional[_Union[DevicePlacement, _Mapping]] = ..., distinct: _Optional[_Union[Distinct, str]] = ..., offlineGraceSeconds: _Optional[int] = ..., onDeviceLost: _Optional[_Union[OnDeviceLost, str]] = ..., onDeviceChanged: _Optional[_Union[OnDeviceChanged, str]] = ...) -> None: ...

class DiscoveryHandler(_message.Message):
    __slots__ = ("name", "discoveryDetails", "discoveryProperties")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DISCOVERYDETAILS_FIELD_NUMBER: _ClassVar[int]
    DISCOVERYPROPERTIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    discoveryDetails: str
    discoveryProperties: DiscoveryProperties
    def __init__(self, name: _Optional[str] = ..., discoveryDetails: _Optional[str] = ..., discoveryProperties: _Optional[_Union[DiscoveryProperties, _Mapping]] = ...) -> None: ...

class DiscoveryProperties(_message.Message):
    __slots__ = ("values", "configs", "files")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class FilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, str]
    configs: _containers.ScalarMap[str, str]
    files: _containers.ScalarMap[str, str]
    def __init__(self, values: _Optional[_Mapping[str, str]] = ..., configs: _Optional[_Mapping[str, str]] = ..., files: _Optional[_Mapping[str, str]] = ...) -> None: ...

class StringMap(_message.Message):
    __slots__ = ("values",)
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, str]
    def __init__(self, values: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DevicePlacement(_message.Message):
    __slots__ = ("agents", "tags")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedScalarFieldContainer[str]
    tags: Tags
    def __init__(self, agents: _Optional[_Iterable[str]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ...) -> None: ...

class Broker(_message.Message):
    __slots__ = ("strategy", "workload", "replicas", "quantity")
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    QUANTITY_FIELD_NUMBER: _ClassVar[int]
    strategy: BrokerStrategy
    workload: Workload
    replicas: int
    quantity: int
    def __init__(self, strategy: _Optional[_Union[BrokerStrategy, str]] = ..., workload: _Optional[_Union[Workload, _Mapping]] = ..., replicas: _Optional[int] = ..., quantity: _Optional[int] = ...) -> None: ...

class DeviceInstanceMap(_message.Message):
    __slots__ = ("deviceInstances",)
    class DeviceInstancesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: DeviceInstance
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[DeviceInstance, _Mapping]] = ...) -> None: ...
    DEVICEINSTANCES_FIELD_NUMBER: _ClassVar[int]
    deviceInstances: _containers.MessageMap[str, DeviceInstance]
    def __init__(self, deviceInstances: _Optional[_Mapping[str, DeviceInstance]] = ...) -> None: ...

class DeviceInstance(_message.Message):
    __slots__ = ("configurationName", "cdiName", "capacity", "shared", "nodes", "deviceUsage", "brokerProperties", "attributes", "slotOwners", "onlineNodes", "offlineSinceMs", "lost")
    CONFIGURATIONNAME_FIELD_NUMBER: _ClassVar[int]
    CDINAME_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    DEVICEUSAGE_FIELD_NUMBER: _ClassVar[int]
    BROKERPROPERTIES_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SLOTOWNERS_FIELD_NUMBER: _ClassVar[int]
    ONLINENODES_FIELD_NUMBER: _ClassVar[int]
    OFFLINESINCEMS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    configurationName: str
    cdiName: str
    capacity: int
    shared: bool
    nodes: _containers.RepeatedScalarFieldContainer[str]
    deviceUsage: StringMap
    brokerProperties: StringMap
    attributes: DeviceAttributes
    slotOwners: StringMap
    onlineNodes: _containers.RepeatedScalarFieldContainer[str]
    offlineSinceMs: int
    lost: bool
    def __init__(self, configurationName: _Optional[str] = ..., cdiName: _Optional[str] = ..., capacity: _Optional[int] = ..., shared: bool = ..., nodes: _Optional[_Iterable[str]] = ..., deviceUsage: _Optional[_Union[StringMap, _Mapping]] = ..., brokerProperties: _Optional[_Union[StringMap, _Mapping]] = ..., attributes: _Optional[_Union[DeviceAttributes, _Mapping]] = ..., slotOwners: _Optional[_Union[StringMap, _Mapping]] = ..., onlineNodes: _Optional[_Iterable[str]] = ..., offlineSinceMs: _Optional[int] = ..., lost: bool = ...) -> None: ...

class DeviceAttributes(_message.Message):
    __slots__ = ("id", "mounts", "deviceSpecs", "online")
    ID_FIELD_NUMBER: _ClassVar[int]
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    DEVICESPECS_FIELD_NUMBER: _ClassVar[int]
    ONLINE_FIELD_NUMBER: _ClassVar[int]
    id: str
    mounts: _containers.RepeatedCompositeFieldContainer[DeviceMount]
    deviceSpecs: _containers.RepeatedCompositeFieldContainer[DeviceNode]
    online: bool
    def __init__(self, id: _Optional[str] = ..., mounts: _Optional[_Iterable[_Union[DeviceMount, _Mapping]]] = ..., deviceSpecs: _Optional[_Iterable[_Union[DeviceNode, _Mapping]]] = ..., online: bool = ...) -> None: ...

class DeviceMount(_message.Message):
    __slots__ = ("containerPath", "hostPath", "readOnly")
    CONTAINERPATH_FIELD_NUMBER: _ClassVar[int]
    HOSTPATH_FIELD_NUMBER: _ClassVar[int]
    READONLY_FIELD_NUMBER: _ClassVar[int]
    containerPath: str
    hostPath: str
    readOnly: bool
    def __init__(self, containerPath: _Optional[str] = ..., hostPath: _Optional[str] = ..., readOnly: bool = ...) -> None: ...

class DeviceNode(_message.Message):
    __slots__ = ("containerPath", "hostPath", "permissions")
    CONTAINERPATH_FIELD_NUMBER: _ClassVar[int]
    HOSTPATH_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    containerPath: str
    hostPath: str
    permissions: str
    def __init__(self, containerPath: _Optional[str] = ..., hostPath: _Optional[str] = ..., permissions: _Optional[str] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("update",)
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    update: UpdateStateRequest
    def __init__(self, update: _Optional[_Union[UpdateStateRequest, _Mapping]] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("accepted", "rejection", "rejectedBy", "workloads", "entries", "revision")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REJECTION_FIELD_NUMBER: _ClassVar[int]
    REJECTEDBY_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    rejection: str
    rejectedBy: str
    workloads: _containers.RepeatedCompositeFieldContainer[PlannedWorkload]
    entries: _containers.RepeatedCompositeFieldContainer[PlannedEntry]
    revision: int
    def __init__(self, accepted: bool = ..., rejection: _Optional[str] = ..., rejectedBy: _Optional[str] = ..., workloads: _Optional[_Iterable[_Union[PlannedWorkload, _Mapping]]] = ..., entries: _Optional[_Iterable[_Union[PlannedEntry, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class PlannedWorkload(_message.Message):
    __slots__ = ("name", "action", "before", "after", "fields", "waitsFor", "step", "startsNewFirst")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    WAITSFOR_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STARTSNEWFIRST_FIELD_NUMBER: _ClassVar[int]
    name: str
    action: PlannedAction
    before: WorkloadInstanceName
    after: WorkloadInstanceName
    fields: _containers.RepeatedCompositeFieldContainer[FieldChange]
    waitsFor: _containers.RepeatedScalarFieldContainer[str]
    step: int
    startsNewFirst: bool
    def __init__(self, name: _Optional[str] = ..., action: _Optional[_Union[PlannedAction, str]] = ..., before: _Optional[_Union[WorkloadInstanceName, _Mapping]] = ..., after: _Optional[_Union[WorkloadInstanceName, _Mapping]] = ..., fields: _Optional[_Iterable[_Union[FieldChange, _Mapping]]] = ..., waitsFor: _Optional[_Iterable[str]] = ..., step: _Optional[int] = ..., startsNewFirst: bool = ...) -> None: ...

class PlannedEntry(_message.Message):
    __slots__ = ("kind", "name", "action", "fields")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    action: PlannedAction
    fields: _containers.RepeatedCompositeFieldContainer[FieldChange]
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., action: _Optional[_Union[PlannedAction, str]] = ..., fields: _Optional[_Iterable[_Union[FieldChange, _Mapping]]] = ...) -> None: ...

class FieldChange(_message.Message):
    __slots__ = ("path", "before", "after")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    path: str
    before: str
    after: str
    def __init__(self, path: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class RecordsRequest(_message.Message):
    __slots__ = ("workloads", "sinceMs", "follow")
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    SINCEMS_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    workloads: _containers.RepeatedScalarFieldContainer[str]
    sinceMs: int
    follow: bool
    def __init__(self, workloads: _Optional[_Iterable[str]] = ..., sinceMs: _Optional[int] = ..., follow: bool = ...) -> None: ...

class RecordsResponse(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[WorkloadRecord]
    def __init__(self, records: _Optional[_Iterable[_Union[WorkloadRecord, _Mapping]]] = ...) -> None: ...

class WorkloadRecord(_message.Message):
    __slots__ = ("instanceName", "timeMs", "executionState", "source", "exitCode", "output", "outOfMemory", "nextAttemptMs")
    INSTANCENAME_FIELD_NUMBER: _ClassVar[int]
    TIMEMS_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONSTATE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EXITCODE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    OUTOFMEMORY_FIELD_NUMBER: _ClassVar[int]
    NEXTATTEMPTMS_FIELD_NUMBER: _ClassVar[int]
    instanceName: WorkloadInstanceName
    timeMs: int
    executionState: ExecutionState
    source: str
    exitCode: int
    output: _containers.RepeatedScalarFieldContainer[str]
    outOfMemory: bool
    nextAttemptMs: int
    def __init__(self, instanceName: _Optional[_Union[WorkloadInstanceName, _Mapping]] = ..., timeMs: _Optional[int] = ..., executionState: _Optional[_Union[ExecutionState, _Mapping]] = ..., source: _Optional[str] = ..., exitCode: _Optional[int] = ..., output: _Optional[_Iterable[str]] = ..., outOfMemory: bool = ..., nextAttemptMs: _Optional[int] = ...) -> None: ...

class WhyRequest(_message.Message):
    __slots__ = ("workload",)
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    workload: str
    def __init__(self, workload: _Optional[str] = ...) -> None: ...

class WhyResponse(_message.Message):
    __slots__ = ("causes",)
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    causes: _containers.RepeatedCompositeFieldContainer[Cause]
    def __init__(self, causes: _Optional[_Iterable[_Union[Cause, _Mapping]]] = ...) -> None: ...

class Cause(_message.Message):
    __slots__ = ("workload", "agent", "kind", "text", "sinceMs", "output", "nextAttemptMs")
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SINCEMS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    NEXTATTEMPTMS_FIELD_NUMBER: _ClassVar[int]
    workload: str
    agent: str
    kind: str
    text: str
    sinceMs: int
    output: _containers.RepeatedScalarFieldContainer[str]
    nextAttemptMs: int
    def __init__(self, workload: _Optional[str] = ..., agent: _Optional[str] = ..., kind: _Optional[str] = ..., text: _Optional[str] = ..., sinceMs: _Optional[int] = ..., output: _Optional[_Iterable[str]] = ..., nextAttemptMs: _Optional[int] = ...) -> None: ...

class AtomicOptions(_message.Message):
    __slots__ = ("timeoutMs", "settleMs")
    TIMEOUTMS_FIELD_NUMBER: _ClassVar[int]
    SETTLEMS_FIELD_NUMBER: _ClassVar[int]
    timeoutMs: int
    settleMs: int
    def __init__(self, timeoutMs: _Optional[int] = ..., settleMs: _Optional[int] = ...) -> None: ...

class RolloutsRequest(_message.Message):
    __slots__ = ("names", "follow")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    follow: bool
    def __init__(self, names: _Optional[_Iterable[str]] = ..., follow: bool = ...) -> None: ...

class RolloutsResponse(_message.Message):
    __slots__ = ("rollouts",)
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    rollouts: _containers.RepeatedCompositeFieldContainer[RolloutInfo]
    def __init__(self, rollouts: _Optional[_Iterable[_Union[RolloutInfo, _Mapping]]] = ...) -> None: ...

class RolloutInfo(_message.Message):
    __slots__ = ("name", "phase", "requester", "startedMs", "deadlineMs", "settleMs", "phaseSinceMs", "workloads", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    STARTEDMS_FIELD_NUMBER: _ClassVar[int]
    DEADLINEMS_FIELD_NUMBER: _ClassVar[int]
    SETTLEMS_FIELD_NUMBER: _ClassVar[int]
    PHASESINCEMS_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    phase: RolloutPhase
    requester: str
    startedMs: int
    deadlineMs: int
    settleMs: int
    phaseSinceMs: int
    workloads: _containers.RepeatedCompositeFieldContainer[RolloutWorkload]
    reason: str
    def __init__(self, name: _Optional[str] = ..., phase: _Optional[_Union[RolloutPhase, str]] = ..., requester: _Optional[str] = ..., startedMs: _Optional[int] = ..., deadlineMs: _Optional[int] = ..., settleMs: _Optional[int] = ..., phaseSinceMs: _Optional[int] = ..., workloads: _Optional[_Iterable[_Union[RolloutWorkload, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class RolloutWorkload(_message.Message):
    __slots__ = ("instanceName", "executionState", "isReady")
    INSTANCENAME_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONSTATE_FIELD_NUMBER: _ClassVar[int]
    ISREADY_FIELD_NUMBER: _ClassVar[int]
    instanceName: WorkloadInstanceName
    executionState: ExecutionState
    isReady: bool
    def __init__(self, instanceName: _Optional[_Union[WorkloadInstanceName, _Mapping]] = ..., executionState: _Optional[_Union[ExecutionState, _Mapping]] = ..., isReady: bool = ...) -> None: ...

class UpdateStrategy(_message.Message):
    __slots__ = ("startNewFirst",)
    STARTNEWFIRST_FIELD_NUMBER: _ClassVar[int]
    startNewFirst: bool
    def __init__(self, startNewFirst: bool = ...) -> None: ...

class UsageRequest(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    def __init__(self, seconds: _Optional[int] = ...) -> None: ...

class UsageResponse(_message.Message):
    __slots__ = ("workloads", "missingAgents")
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    MISSINGAGENTS_FIELD_NUMBER: _ClassVar[int]
    workloads: _containers.RepeatedCompositeFieldContainer[WorkloadUsage]
    missingAgents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, workloads: _Optional[_Iterable[_Union[WorkloadUsage, _Mapping]]] = ..., missingAgents: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkloadUsage(_message.Message):
    __slots__ = ("instanceName", "usage")
    INSTANCENAME_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    instanceName: WorkloadInstanceName
    usage: ResourceUsage
    def __init__(self, instanceName: _Optional[_Union[WorkloadInstanceName, _Mapping]] = ..., usage: _Optional[_Union[ResourceUsage, _Mapping]] = ...) -> None: ...

class ResourceUsage(_message.Message):
    __slots__ = ("cpuMillis", "memoryBytes", "uptimeSeconds")
    CPUMILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORYBYTES_FIELD_NUMBER: _ClassVar[int]
    UPTIMESECONDS_FIELD_NUMBER: _ClassVar[int]
    cpuMillis: int
    memoryBytes: int
    uptimeSeconds: int
    def __init__(self, cpuMillis: _Optional[int] = ..., memoryBytes: _Optional[int] = ..., uptimeSeconds: _Optional[int] = ...) -> None: ...
