"""Names of the kubelet's device plugin API, and its messages as plain data."""

from ankaios.common.device_grant import DeviceGrant, DeviceMount, DeviceNode
from ankaios.devices.pb import device_plugin_pb2 as pb

API_VERSION = "v1beta1"
REGISTER = f"/{API_VERSION}.Registration/Register"
SERVICE = f"/{API_VERSION}.DevicePlugin"
OPTIONS, LIST_AND_WATCH = f"{SERVICE}/GetDevicePluginOptions", f"{SERVICE}/ListAndWatch"
PREFERRED, ALLOCATE = f"{SERVICE}/GetPreferredAllocation", f"{SERVICE}/Allocate"
PRE_START = f"{SERVICE}/PreStartContainer"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


def grant_from_pb(message: pb.ContainerAllocateResponse) -> DeviceGrant:
    return DeviceGrant(
        envs=dict(sorted(message.envs.items())),
        mounts=tuple(DeviceMount(it.container_path, it.host_path, it.read_only) for it in message.mounts),
        devices=tuple(DeviceNode(it.container_path, it.host_path, it.permissions or "rwm") for it in message.devices),
        annotations=dict(sorted(message.annotations.items())),
        cdi_devices=tuple(it.name for it in message.cdi_devices),
    )


def grant_to_pb(grant: DeviceGrant) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs=grant.envs,
        mounts=[
            pb.Mount(container_path=it.container_path, host_path=it.host_path, read_only=it.read_only)
            for it in grant.mounts
        ],
        devices=[
            pb.DeviceSpec(container_path=it.container_path, host_path=it.host_path, permissions=it.permissions)
            for it in grant.devices
        ],
        annotations=grant.annotations,
        cdi_devices=[pb.CDIDevice(name=name) for name in grant.cdi_devices],
    )
