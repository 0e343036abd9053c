from ankaios.common.pb import ank_base_pb2 as _ank_base_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeleteCondition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEL_COND_RUNNING: _ClassVar[DeleteCondition]
    DEL_COND_NOT_PENDING_NOR_RUNNING: _ClassVar[DeleteCondition]
DEL_COND_RUNNING: DeleteCondition
DEL_COND_NOT_PENDING_NOR_RUNNING: DeleteCondition

class ToServer(_message.Message):
    __slots__ = ("agentHello", "updateWorkloadState", "request", "goodbye", "AgentLoadStatus", "commanderHello", "logEntriesResponse", "logsStopResponse", "deviceReport", "slotRequest", "knownWorkloads", "workloadRecords", "usageReport")
    AGENTHELLO_FIELD_NUMBER: _ClassVar[int]
    UPDATEWORKLOADSTATE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    AGENTLOADSTATUS_FIELD_NUMBER: _ClassVar[int]
    COMMANDERHELLO_FIELD_NUMBER: _ClassVar[int]
    LOGENTRIESRESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOGSSTOPRESPONSE_FIELD_NUMBER: _ClassVar[int]
    DEVICEREPORT_FIELD_NUMBER: _ClassVar[int]
    SLOTREQUEST_FIELD_NUMBER: _ClassVar[int]
    KNOWNWORKLOADS_FIELD_NUMBER: _ClassVar[int]
    WORKLOADRECORDS_FIELD_NUMBER: _ClassVar[int]
    USAGEREPORT_FIELD_NUMBER: _ClassVar[int]
    agentHello: AgentHello
    updateWorkloadState: UpdateWorkloadState
    request: _ank_base_pb2.Request
    goodbye: Goodbye
    AgentLoadStatus: AgentLoadStatus
    commanderHello: CommanderHello
    logEntriesResponse: LogEntriesResponse
    logsStopResponse: LogsStopResponse
    deviceReport: DeviceReport
    slotRequest: SlotRequest
    knownWorkloads: KnownWorkloads
    workloadRecords: WorkloadRecords
    usageReport: UsageReport
    def __init__(self, agentHello: _Optional[_Union[AgentHello, _Mapping]] = ..., updateWorkloadState: _Optional[_Union[UpdateWorkloadState, _Mapping]] = ..., request: _Optional[_Union[_ank_base_pb2.Request, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., AgentLoadStatus: _Optional[_Union[AgentLoadStatus, _Mapping]] = ..., commanderHello: _Optional[_Union[CommanderHello, _Mapping]] = ..., logEntriesResponse: _Optional[_Union[LogEntriesResponse, _Mapping]] = ..., logsStopResponse: _Optional[_Union[LogsStopResponse, _Mapping]] = ..., deviceReport: _Optional[_Union[DeviceReport, _Mapping]] = ..., slotRequest: _Optional[_Union[SlotRequest, _Mapping]] = ..., knownWorkloads: _Optional[_Union[KnownWorkloads, _Mapping]] = ..., workloadRecords: _Optional[_Union[WorkloadRecords, _Mapping]] = ..., usageReport: _Optional[_Union[UsageReport, _Mapping]] = ...) -> None: ...

class FromServer(_message.Message):
    __slots__ = ("updateWorkload", "updateWorkloadState", "response", "serverHello", "logsRequest", "logsCancelRequest", "deviceUpdate", "slotResponse", "tellWorkloads", "recordsRequest", "measureUsage")
    UPDATEWORKLOAD_FIELD_NUMBER: _ClassVar[int]
    UPDATEWORKLOADSTATE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    SERVERHELLO_FIELD_NUMBER: _ClassVar[int]
    LOGSREQUEST_FIELD_NUMBER: _ClassVar[int]
    LOGSCANCELREQUEST_FIELD_NUMBER: _ClassVar[int]
    DEVICEUPDATE_FIELD_NUMBER: _ClassVar[int]
    SLOTRESPONSE_FIELD_NUMBER: _ClassVar[int]
    TELLWORKLOADS_FIELD_NUMBER: _ClassVar[int]
    RECORDSREQUEST_FIELD_NUMBER: _ClassVar[int]
    MEASUREUSAGE_FIELD_NUMBER: _ClassVar[int]
    updateWorkload: UpdateWorkload
    updateWorkloadState: UpdateWorkloadState
    response: _ank_base_pb2.Response
    serverHello: ServerHello
    logsRequest: LogsRequest
    logsCancelRequest: LogsCancelRequest
    deviceUpdate: DeviceUpdate
    slotResponse: SlotResponse
    tellWorkloads: TellWorkloads
    recordsRequest: AgentRecordsRequest
    measureUsage: MeasureUsage
    def __init__(self, updateWorkload: _Optional[_Union[UpdateWorkload, _Mapping]] = ..., updateWorkloadState: _Optional[_Union[UpdateWorkloadState, _Mapping]] = ..., response: _Optional[_Union[_ank_base_pb2.Response, _Mapping]] = ..., serverHello: _Optional[_Union[ServerHello, _Mapping]] = ..., logsRequest: _Optional[_Union[LogsRequest, _Mapping]] = ..., logsCancelRequest: _Optional[_Union[LogsCancelRequest, _Mapping]] = ..., deviceUpdate: _Optional[_Union[DeviceUpdate, _Mapping]] = ..., slotResponse: _Optional[_Union[SlotResponse, _Mapping]] = ..., tellWorkloads: _Optional[_Union[TellWorkloads, _Mapping]] = ..., recordsRequest: _Optional[_Union[AgentRecordsRequest, _Mapping]] = ..., measureUsage: _Optional[_Union[MeasureUsage, _Mapping]] = ...) -> None: ...

class AgentHello(_message.Message):
    __slots__ = ("agentName", "protocolVersion", "tags", "devices", "dependencyStatesOnly", "records", "runtimes", "usage", "keepsUnlisted")
    AGENTNAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOLVERSION_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCYSTATESONLY_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    RUNTIMES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    KEEPSUNLISTED_FIELD_NUMBER: _ClassVar[int]
    agentName: str
    protocolVersion: str
    tags: _ank_base_pb2.Tags
    devices: bool
    dependencyStatesOnly: bool
    records: bool
    runtimes: _containers.RepeatedScalarFieldContainer[str]
    usage: bool
    keepsUnlisted: bool
    def __init__(self, agentName: _Optional[str] = ..., protocolVersion: _Optional[str] = ..., tags: _Optional[_Union[_ank_base_pb2.Tags, _Mapping]] = ..., devices: bool = ..., dependencyStatesOnly: bool = ..., records: bool = ..., runtimes: _Optional[_Iterable[str]] = ..., usage: bool = ..., keepsUnlisted: bool = ...) -> None: ...

class CommanderHello(_message.Message):
    __slots__ = ("protocolVersion", "user")
    PROTOCOLVERSION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    protocolVersion: str
    user: str
    def __init__(self, protocolVersion: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AgentLoadStatus(_message.Message):
    __slots__ = ("agent_name", "cpu_usage", "free_memory")
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CPU_USAGE_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    agent_name: str
    cpu_usage: _ank_base_pb2.CpuUsage
    free_memory: _ank_base_pb2.FreeMemory
    def __init__(self, agent_name: _Optional[str] = ..., cpu_usage: _Optional[_Union[_ank_base_pb2.CpuUsage, _Mapping]] = ..., free_memory: _Optional[_Union[_ank_base_pb2.FreeMemory, _Mapping]] = ...) -> None: ...

class ServerHello(_message.Message):
    __slots__ = ("addedWorkloads", "term", "keepUnlisted")
    ADDEDWORKLOADS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    KEEPUNLISTED_FIELD_NUMBER: _ClassVar[int]
    addedWorkloads: _containers.RepeatedCompositeFieldContainer[AddedWorkload]
    term: int
    keepUnlisted: bool
    def __init__(self, addedWorkloads: _Optional[_Iterable[_Union[AddedWorkload, _Mapping]]] = ..., term: _Optional[int] = ..., keepUnlisted: bool = ...) -> None: ...

class UpdateWorkload(_message.Message):
    __slots__ = ("addedWorkloads", "deletedWorkloads")
    ADDEDWORKLOADS_FIELD_NUMBER: _ClassVar[int]
    DELETEDWORKLOADS_FIELD_NUMBER: _ClassVar[int]
    addedWorkloads: _containers.RepeatedCompositeFieldContainer[AddedWorkload]
    deletedWorkloads: _containers.RepeatedCompositeFieldContainer[DeletedWorkload]
    def __init__(self, addedWorkloads: _Optional[_Iterable[_Union[AddedWorkload, _Mapping]]] = ..., deletedWorkloads: _Optional[_Iterable[_Union[DeletedWorkload, _Mapping]]] = ...) -> None: ...

class AddedWorkload(_message.Message):
    __slots__ = ("instanceName", "workload")
    INSTANCENAME_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    instanceName: _ank_base_pb2.WorkloadInstanceName
    workload: _ank_base_pb2.Workload
    def __init__(self, instanceName: _Optional[_Union[_ank_base_pb2.WorkloadInstanceName, _Mapping]] = ..., workload: _Optional[_Union[_ank_base_pb2.Workload, _Mapping]] = ...) -> None: ...

class DeletedWorkload(_message.Message):
    __slots__ = ("instanceName", "dependencies")
    class DependenciesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: DeleteCondition
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[DeleteCondition, str]] = ...) -> None: ...
    INSTANCENAME_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    instanceName: _ank_base_pb2.WorkloadInstanceName
    dependencies: _containers.ScalarMap[str, DeleteCondition]
    def __init__(self, instanceName: _Optional[_Union[_ank_base_pb2.WorkloadInstanceName, _Mapping]] = ..., dependencies: _Optional[_Mapping[str, DeleteCondition]] = ...) -> None: ...

class UpdateWorkloadState(_message.Message):
    __slots__ = ("workloadStates",)
    WORKLOADSTATES_FIELD_NUMBER: _ClassVar[int]
    workloadStates: _containers.RepeatedCompositeFieldContainer[_ank_base_pb2.WorkloadState]
    def __init__(self, workloadStates: _Optional[_Iterable[_Union[_ank_base_pb2.WorkloadState, _Mapping]]] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("requestId", "logsRequest")
    REQUESTID_FIELD_NUMBER: _ClassVar[int]
    LOGSREQUEST_FIELD_NUMBER: _ClassVar[int]
    requestId: str
    logsRequest: _ank_base_pb2.LogsRequest
    def __init__(self, requestId: _Optional[str] = ..., logsRequest: _Optional[_Union[_ank_base_pb2.LogsRequest, _Mapping]] = ...) -> None: ...

class LogsCancelRequest(_message.Message):
    __slots__ = ("requestId",)
    REQUESTID_FIELD_NUMBER: _ClassVar[int]
    requestId: str
    def __init__(self, requestId: _Optional[str] = ...) -> None: ...

class LogEntriesResponse(_message.Message):
    __slots__ = ("requestId", "logEntriesResponse")
    REQUESTID_FIELD_NUMBER: _ClassVar[int]
    LOGENTRIESRESPONSE_FIELD_NUMBER: _ClassVar[int]
    requestId: str
    logEntriesResponse: _ank_base_pb2.LogEntriesResponse
    def __init__(self, requestId: _Optional[str] = ..., logEntriesResponse: _Optional[_Union[_ank_base_pb2.LogEntriesResponse, _Mapping]] = ...) -> None: ...

class LogsStopResponse(_message.Message):
    __slots__ = ("requestId", "logsStopResponse")
    REQUESTID_FIELD_NUMBER: _ClassVar[int]
    LOGSSTOPRESPONSE_FIELD_NUMBER: _ClassVar[int]
    requestId: str
    logsStopResponse: _ank_base_pb2.LogsStopResponse
    def __init__(self, requestId: _Optional[str] = ..., logsStopResponse: _Optional[_Union[_ank_base_pb2.LogsStopResponse, _Mapping]] = ...) -> None: ...

class TellWorkloads(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KnownWorkloads(_message.Message):
    __slots__ = ("instanceNames",)
    INSTANCENAMES_FIELD_NUMBER: _ClassVar[int]
    instanceNames: _containers.RepeatedCompositeFieldContainer[_ank_base_pb2.WorkloadInstanceName]
    def __init__(self, instanceNames: _Optional[_Iterable[_Union[_ank_base_pb2.WorkloadInstanceName, _Mapping]]] = ...) -> None: ...

class DeviceReport(_message.Message):
    __slots__ = ("complete", "seen", "gone", "resources", "goneResources", "held")
    class SeenEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _ank_base_pb2.DeviceInstance
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_ank_base_pb2.DeviceInstance, _Mapping]] = ...) -> None: ...
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    GONERESOURCES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    complete: bool
    seen: _containers.MessageMap[str, _ank_base_pb2.DeviceInstance]
    gone: _containers.RepeatedScalarFieldContainer[str]
    resources: _containers.RepeatedCompositeFieldContainer[_ank_base_pb2.NodeResource]
    goneResources: _containers.RepeatedScalarFieldContainer[str]
    held: _containers.RepeatedCompositeFieldContainer[SlotChange]
    def __init__(self, complete: bool = ..., seen: _Optional[_Mapping[str, _ank_base_pb2.DeviceInstance]] = ..., gone: _Optional[_Iterable[str]] = ..., resources: _Optional[_Iterable[_Union[_ank_base_pb2.NodeResource, _Mapping]]] = ..., goneResources: _Optional[_Iterable[str]] = ..., held: _Optional[_Iterable[_Union[SlotChange, _Mapping]]] = ...) -> None: ...

class SlotRequest(_message.Message):
    __slots__ = ("requestId", "changes")
    REQUESTID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    requestId: str
    changes: _containers.RepeatedCompositeFieldContainer[SlotChange]
    def __init__(self, requestId: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[SlotChange, _Mapping]]] = ...) -> None: ...

class SlotChange(_message.Message):
    __slots__ = ("instance", "slot", "before", "after", "owner")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    instance: str
    slot: str
    before: str
    after: str
    owner: str
    def __init__(self, instance: _Optional[str] = ..., slot: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class SlotResponse(_message.Message):
    __slots__ = ("requestId", "granted", "reason")
    REQUESTID_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    requestId: str
    granted: bool
    reason: str
    def __init__(self, requestId: _Optional[str] = ..., granted: bool = ..., reason: _Optional[str] = ...) -> None: ...

class DeviceUpdate(_message.Message):
    __slots__ = ("complete", "configurations", "instances")
    class InstancesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _ank_base_pb2.DeviceInstance
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_ank_base_pb2.DeviceInstance, _Mapping]] = ...) -> None: ...
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATIONS_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    complete: bool
    configurations: _ank_base_pb2.DeviceConfigurationMap
    instances: _containers.MessageMap[str, _ank_base_pb2.DeviceInstance]
    def __init__(self, complete: bool = ..., configurations: _Optional[_Union[_ank_base_pb2.DeviceConfigurationMap, _Mapping]] = ..., instances: _Optional[_Mapping[str, _ank_base_pb2.DeviceInstance]] = ...) -> None: ...

class AgentRecordsRequest(_message.Message):
    __slots__ = ("sinceMs",)
    SINCEMS_FIELD_NUMBER: _ClassVar[int]
    sinceMs: int
    def __init__(self, sinceMs: _Optional[int] = ...) -> None: ...

class WorkloadRecords(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[_ank_base_pb2.WorkloadRecord]
    def __init__(self, records: _Optional[_Iterable[_Union[_ank_base_pb2.WorkloadRecord, _Mapping]]] = ...) -> None: ...

class MeasureUsage(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    def __init__(self, seconds: _Optional[int] = ...) -> None: ...

class UsageReport(_message.Message):
    __slots__ = ("workloads",)
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    workloads: _containers.RepeatedCompositeFieldContainer[_ank_base_pb2.WorkloadUsage]
    def __init__(self, workloads: _Optional[_Iterable[_Union[_ank_base_pb2.WorkloadUsage, _Mapping]]] = ...) -> None: ...
