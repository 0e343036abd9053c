"""Made by scripts/generate-proto from ankaios/devices/pb/pod_resources.proto."""

from ankaios.common.message_loader import load

load(
    "ankaios.devices.pb.pod_resources_pb2",
    b'\n&ankaios/devices/pb/pod_resources.proto\x12\x14ankaios.podresources"\x19\n\x17ListPodResourcesRequest"U\n\x18Lis'
    b'tPodResourcesResponse\x129\n\rpod_resources\x18\x01 \x03(\x0b2".ankaios.podresources.PodResources"m\n\x0cPodResources'
    b'\x12\x0c\n\x04name\x18\x01 \x01(\t\x12\x11\n\tnamespace\x18\x02 \x01(\t\x12<\n\ncontainers\x18\x03 \x03(\x0b2(.ankaios.podresources.ContainerResources"'
    b'[\n\x12ContainerResources\x12\x0c\n\x04name\x18\x01 \x01(\t\x127\n\x07devices\x18\x02 \x03(\x0b2&.ankaios.podresources.ContainerDevices"=\n\x10'
    b'ContainerDevices\x12\x15\n\rresource_name\x18\x01 \x01(\t\x12\x12\n\ndevice_ids\x18\x02 \x03(\tb\x06proto3'
)
