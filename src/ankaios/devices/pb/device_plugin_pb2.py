"""Made by scripts/generate-proto from ankaios/devices/pb/device_plugin.proto."""

from ankaios.common.message_loader import load

load(
    "ankaios.devices.pb.device_plugin_pb2",
    b'\n&ankaios/devices/pb/device_plugin.proto\x12\x14ankaios.deviceplugin"]\n\x13DevicePluginOptions\x12\x1a\n\x12pre_sta'
    b'rt_required\x18\x01 \x01(\x08\x12*\n"get_preferred_allocation_available\x18\x02 \x01(\x08"\x87\x01\n\x0fRegisterRequest\x12\x0f\n\x07version\x18\x01 \x01'
    b'(\t\x12\x10\n\x08endpoint\x18\x02 \x01(\t\x12\x15\n\rresource_name\x18\x03 \x01(\t\x12:\n\x07options\x18\x04 \x01(\x0b2).ankaios.deviceplugin.DevicePlugin'
    b'Options"\x07\n\x05Empty"E\n\x14ListAndWatchResponse\x12-\n\x07devices\x18\x01 \x03(\x0b2\x1c.ankaios.deviceplugin.Device"=\n\x0cTopol'
    b'ogyInfo\x12-\n\x05nodes\x18\x01 \x03(\x0b2\x1e.ankaios.deviceplugin.NUMANode"\x16\n\x08NUMANode\x12\n\n\x02ID\x18\x01 \x01(\x03"Z\n\x06Device\x12\n\n\x02ID\x18\x01'
    b' \x01(\t\x12\x0e\n\x06health\x18\x02 \x01(\t\x124\n\x08topology\x18\x03 \x01(\x0b2".ankaios.deviceplugin.TopologyInfo"/\n\x18PreStartContainerR'
    b'equest\x12\x13\n\x0bdevices_ids\x18\x01 \x03(\t"\x1b\n\x19PreStartContainerResponse"s\n\x1aPreferredAllocationRequest\x12U\n\x12contai'
    b'ner_requests\x18\x01 \x03(\x0b29.ankaios.deviceplugin.ContainerPreferredAllocationRequest"{\n#ContainerPrefer'
    b'redAllocationRequest\x12\x1b\n\x13available_deviceIDs\x18\x01 \x03(\t\x12\x1e\n\x16must_include_deviceIDs\x18\x02 \x03(\t\x12\x17\n\x0fallocation_'
    b'size\x18\x03 \x01(\x05"v\n\x1bPreferredAllocationResponse\x12W\n\x13container_responses\x18\x01 \x03(\x0b2:.ankaios.deviceplugin.Co'
    b'ntainerPreferredAllocationResponse"9\n$ContainerPreferredAllocationResponse\x12\x11\n\tdeviceIDs\x18\x01 \x03(\t"]\n'
    b'\x0fAllocateRequest\x12J\n\x12container_requests\x18\x01 \x03(\x0b2..ankaios.deviceplugin.ContainerAllocateRequest"/\n\x18'
    b'ContainerAllocateRequest\x12\x13\n\x0bdevices_ids\x18\x01 \x03(\t"`\n\x10AllocateResponse\x12L\n\x13container_responses\x18\x01 \x03(\x0b2/'
    b'.ankaios.deviceplugin.ContainerAllocateResponse"\xb2\x03\n\x19ContainerAllocateResponse\x12G\n\x04envs\x18\x01 \x03(\x0b29.an'
    b'kaios.deviceplugin.ContainerAllocateResponse.EnvsEntry\x12+\n\x06mounts\x18\x02 \x03(\x0b2\x1b.ankaios.deviceplugin.Mo'
    b'unt\x121\n\x07devices\x18\x03 \x03(\x0b2 .ankaios.deviceplugin.DeviceSpec\x12U\n\x0bannotations\x18\x04 \x03(\x0b2@.ankaios.deviceplug'
    b'in.ContainerAllocateResponse.AnnotationsEntry\x124\n\x0bcdi_devices\x18\x05 \x03(\x0b2\x1f.ankaios.deviceplugin.CDIDev'
    b'ice\x1a+\n\tEnvsEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t:\x028\x01\x1a2\n\x10AnnotationsEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t'
    b':\x028\x01"E\n\x05Mount\x12\x16\n\x0econtainer_path\x18\x01 \x01(\t\x12\x11\n\thost_path\x18\x02 \x01(\t\x12\x11\n\tread_only\x18\x03 \x01(\x08"L\n\nDeviceSpec\x12\x16\n\x0econ'
    b'tainer_path\x18\x01 \x01(\t\x12\x11\n\thost_path\x18\x02 \x01(\t\x12\x13\n\x0bpermissions\x18\x03 \x01(\t"\x19\n\tCDIDevice\x12\x0c\n\x04name\x18\x01 \x01(\tb\x06proto3'
)
