"""Made by scripts/generate-proto from ankaios/devices/pb/discovery.proto."""

from ankaios.common.message_loader import load

load(
    "ankaios.devices.pb.discovery_pb2",
    b'\n"ankaios/devices/pb/discovery.proto\x12\x11ankaios.discovery"\xcf\x01\n\x1fRegisterDiscoveryHandlerRequest\x12\x0c\n\x04n'
    b'ame\x18\x01 \x01(\t\x12\x10\n\x08endpoint\x18\x02 \x01(\t\x12V\n\rendpoint_type\x18\x03 \x01(\x0e2?.ankaios.discovery.RegisterDiscoveryHandlerR'
    b'equest.EndpointType\x12\x0e\n\x06shared\x18\x04 \x01(\x08"$\n\x0cEndpointType\x12\x07\n\x03UDS\x10\x00\x12\x0b\n\x07NETWORK\x10\x01"\x07\n\x05Empty"$\n\x08ByteData\x12\x10'
    b'\n\x03vec\x18\x01 \x01(\x0cH\x00\x88\x01\x01B\x06\n\x04_vec"\xe0\x01\n\x0fDiscoverRequest\x12\x19\n\x11discovery_details\x18\x01 \x01(\t\x12Y\n\x14discovery_properties\x18'
    b'\x02 \x03(\x0b2;.ankaios.discovery.DiscoverRequest.DiscoveryPropertiesEntry\x1aW\n\x18DiscoveryPropertiesEntry\x12\x0b'
    b'\n\x03key\x18\x01 \x01(\t\x12*\n\x05value\x18\x02 \x01(\x0b2\x1b.ankaios.discovery.ByteData:\x028\x01">\n\x10DiscoverResponse\x12*\n\x07devices\x18\x01 \x03(\x0b'
    b'2\x19.ankaios.discovery.Device"\xe5\x01\n\x06Device\x12\n\n\x02id\x18\x01 \x01(\t\x12=\n\nproperties\x18\x02 \x03(\x0b2).ankaios.discovery.Devic'
    b'e.PropertiesEntry\x12(\n\x06mounts\x18\x03 \x03(\x0b2\x18.ankaios.discovery.Mount\x123\n\x0cdevice_specs\x18\x04 \x03(\x0b2\x1d.ankaios.disc'
    b'overy.DeviceSpec\x1a1\n\x0fPropertiesEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t:\x028\x01"E\n\x05Mount\x12\x16\n\x0econtainer_path\x18\x01'
    b' \x01(\t\x12\x11\n\thost_path\x18\x02 \x01(\t\x12\x11\n\tread_only\x18\x03 \x01(\x08"L\n\nDeviceSpec\x12\x16\n\x0econtainer_path\x18\x01 \x01(\t\x12\x11\n\thost_path\x18\x02 '
    b'\x01(\t\x12\x13\n\x0bpermissions\x18\x03 \x01(\tb\x06proto3'
)
