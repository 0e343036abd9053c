"""Made by scripts/generate-proto from ankaios/common/pb/grpc_api.proto."""

from ankaios.common.pb import ank_base_pb2  # noqa: F401
from ankaios.common.message_loader import load

load(
    "ankaios.common.pb.grpc_api_pb2",
    b'\n ankaios/common/pb/grpc_api.proto\x12\x0cankaios.grpc\x1a ankaios/common/pb/ank_base.proto"\xef\x04\n\x08ToServer\x12'
    b'.\n\nagentHello\x18\x01 \x01(\x0b2\x18.ankaios.grpc.AgentHelloH\x00\x12@\n\x13updateWorkloadState\x18\x02 \x01(\x0b2!.ankaios.grpc.Upda'
    b'teWorkloadStateH\x00\x12(\n\x07request\x18\x03 \x01(\x0b2\x15.ankaios.base.RequestH\x00\x12(\n\x07goodbye\x18\x04 \x01(\x0b2\x15.ankaios.grpc.Good'
    b'byeH\x00\x128\n\x0fAgentLoadStatus\x18\x05 \x01(\x0b2\x1d.ankaios.grpc.AgentLoadStatusH\x00\x126\n\x0ecommanderHello\x18\x06 \x01(\x0b2\x1c.ankaio'
    b's.grpc.CommanderHelloH\x00\x12>\n\x12logEntriesResponse\x18\x07 \x01(\x0b2 .ankaios.grpc.LogEntriesResponseH\x00\x12:\n\x10logsS'
    b'topResponse\x18\x08 \x01(\x0b2\x1e.ankaios.grpc.LogsStopResponseH\x00\x123\n\x0cdeviceReport\x18\xe8\x07 \x01(\x0b2\x1a.ankaios.grpc.Device'
    b'ReportH\x00\x121\n\x0bslotRequest\x18\xe9\x07 \x01(\x0b2\x19.ankaios.grpc.SlotRequestH\x00\x127\n\x0eknownWorkloads\x18\xea\x07 \x01(\x0b2\x1c.ankaios.g'
    b'rpc.KnownWorkloadsH\x00B\x0e\n\x0cToServerEnum"\x87\x04\n\nFromServer\x126\n\x0eupdateWorkload\x18\x01 \x01(\x0b2\x1c.ankaios.grpc.Updat'
    b'eWorkloadH\x00\x12@\n\x13updateWorkloadState\x18\x02 \x01(\x0b2!.ankaios.grpc.UpdateWorkloadStateH\x00\x12*\n\x08response\x18\x03 \x01(\x0b2'
    b'\x16.ankaios.base.ResponseH\x00\x120\n\x0bserverHello\x18\x04 \x01(\x0b2\x19.ankaios.grpc.ServerHelloH\x00\x120\n\x0blogsRequest\x18\x05 \x01(\x0b'
    b'2\x19.ankaios.grpc.LogsRequestH\x00\x12<\n\x11logsCancelRequest\x18\x06 \x01(\x0b2\x1f.ankaios.grpc.LogsCancelRequestH\x00\x123\n\x0cd'
    b'eviceUpdate\x18\xe8\x07 \x01(\x0b2\x1a.ankaios.grpc.DeviceUpdateH\x00\x123\n\x0cslotResponse\x18\xe9\x07 \x01(\x0b2\x1a.ankaios.grpc.SlotRespo'
    b'nseH\x00\x125\n\rtellWorkloads\x18\xea\x07 \x01(\x0b2\x1b.ankaios.grpc.TellWorkloadsH\x00B\x10\n\x0eFromServerEnum"l\n\nAgentHello\x12\x11\n\t'
    b'agentName\x18\x01 \x01(\t\x12\x17\n\x0fprotocolVersion\x18\x02 \x01(\t\x12 \n\x04tags\x18\x03 \x01(\x0b2\x12.ankaios.base.Tags\x12\x10\n\x07devices\x18\xe8\x07 \x01(\x08")\n\x0e'
    b'CommanderHello\x12\x17\n\x0fprotocolVersion\x18\x02 \x01(\t"\t\n\x07Goodbye"\x7f\n\x0fAgentLoadStatus\x12\x12\n\nagent_name\x18\x01 \x01(\t\x12)\n\tcpu'
    b'_usage\x18\x02 \x01(\x0b2\x16.ankaios.base.CpuUsage\x12-\n\x0bfree_memory\x18\x03 \x01(\x0b2\x18.ankaios.base.FreeMemory"B\n\x0bServerHel'
    b'lo\x123\n\x0eaddedWorkloads\x18\x01 \x03(\x0b2\x1b.ankaios.grpc.AddedWorkload"~\n\x0eUpdateWorkload\x123\n\x0eaddedWorkloads\x18\x01 \x03('
    b'\x0b2\x1b.ankaios.grpc.AddedWorkload\x127\n\x10deletedWorkloads\x18\x02 \x03(\x0b2\x1d.ankaios.grpc.DeletedWorkload"s\n\rAdded'
    b'Workload\x128\n\x0cinstanceName\x18\x01 \x01(\x0b2".ankaios.base.WorkloadInstanceName\x12(\n\x08workload\x18\x02 \x01(\x0b2\x16.ankaios.b'
    b'ase.Workload"\xe6\x01\n\x0fDeletedWorkload\x128\n\x0cinstanceName\x18\x01 \x01(\x0b2".ankaios.base.WorkloadInstanceName\x12E\n\x0cde'
    b'pendencies\x18\x02 \x03(\x0b2/.ankaios.grpc.DeletedWorkload.DependenciesEntry\x1aR\n\x11DependenciesEntry\x12\x0b\n\x03key\x18\x01 '
    b'\x01(\t\x12,\n\x05value\x18\x02 \x01(\x0e2\x1d.ankaios.grpc.DeleteCondition:\x028\x01"J\n\x13UpdateWorkloadState\x123\n\x0eworkloadStates\x18\x01'
    b' \x03(\x0b2\x1b.ankaios.base.WorkloadState"P\n\x0bLogsRequest\x12\x11\n\trequestId\x18\x01 \x01(\t\x12.\n\x0blogsRequest\x18\x02 \x01(\x0b2\x19.ankai'
    b'os.base.LogsRequest"&\n\x11LogsCancelRequest\x12\x11\n\trequestId\x18\x01 \x01(\t"e\n\x12LogEntriesResponse\x12\x11\n\trequestId\x18\x01'
    b' \x01(\t\x12<\n\x12logEntriesResponse\x18\x02 \x01(\x0b2 .ankaios.base.LogEntriesResponse"_\n\x10LogsStopResponse\x12\x11\n\treques'
    b'tId\x18\x01 \x01(\t\x128\n\x10logsStopResponse\x18\x02 \x01(\x0b2\x1e.ankaios.base.LogsStopResponse"\x0f\n\rTellWorkloads"K\n\x0eKnownWor'
    b'kloads\x129\n\rinstanceNames\x18\x01 \x03(\x0b2".ankaios.base.WorkloadInstanceName"\x9b\x02\n\x0cDeviceReport\x12\x10\n\x08complete\x18\x01'
    b' \x01(\x08\x122\n\x04seen\x18\x02 \x03(\x0b2$.ankaios.grpc.DeviceReport.SeenEntry\x12\x0c\n\x04gone\x18\x03 \x03(\t\x12-\n\tresources\x18\x04 \x03(\x0b2\x1a.anka'
    b'ios.base.NodeResource\x12\x15\n\rgoneResources\x18\x05 \x03(\t\x12&\n\x04held\x18\x06 \x03(\x0b2\x18.ankaios.grpc.SlotChange\x1aI\n\tSeenEntr'
    b'y\x12\x0b\n\x03key\x18\x01 \x01(\t\x12+\n\x05value\x18\x02 \x01(\x0b2\x1c.ankaios.base.DeviceInstance:\x028\x01"K\n\x0bSlotRequest\x12\x11\n\trequestId\x18\x01 \x01('
    b'\t\x12)\n\x07changes\x18\x02 \x03(\x0b2\x18.ankaios.grpc.SlotChange"Z\n\nSlotChange\x12\x10\n\x08instance\x18\x01 \x01(\t\x12\x0c\n\x04slot\x18\x02 \x01(\t\x12\x0e\n\x06be'
    b'fore\x18\x03 \x01(\t\x12\r\n\x05after\x18\x04 \x01(\t\x12\r\n\x05owner\x18\x05 \x01(\t"B\n\x0cSlotResponse\x12\x11\n\trequestId\x18\x01 \x01(\t\x12\x0f\n\x07granted\x18\x02 \x01(\x08\x12\x0e\n\x06'
    b'reason\x18\x03 \x01(\t"\xec\x01\n\x0cDeviceUpdate\x12\x10\n\x08complete\x18\x01 \x01(\x08\x12<\n\x0econfigurations\x18\x02 \x01(\x0b2$.ankaios.base.DeviceCon'
    b'figurationMap\x12<\n\tinstances\x18\x03 \x03(\x0b2).ankaios.grpc.DeviceUpdate.InstancesEntry\x1aN\n\x0eInstancesEntry\x12\x0b\n'
    b'\x03key\x18\x01 \x01(\t\x12+\n\x05value\x18\x02 \x01(\x0b2\x1c.ankaios.base.DeviceInstance:\x028\x01*M\n\x0fDeleteCondition\x12\x14\n\x10DEL_COND_RUNNI'
    b'NG\x10\x00\x12$\n DEL_COND_NOT_PENDING_NOR_RUNNING\x10\x01b\x06proto3'
)
