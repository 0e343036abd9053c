"""Devices that a test adds and removes, and an agent without devices."""

import asyncio

from ankaios.agent.settings import AgentSettings
from ankaios.common.device_grant import DeviceGrant
from ankaios.common.pb.grpc_api_pb2 import DeviceUpdate, SlotResponse
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.devices.host import DeviceHost, WaitingForDevices


class FakeDevices:
    def __init__(self) -> None:
        self.host: DeviceHost | None = None
        self.grant: DeviceGrant | None = None
        self.waiting: set[InstanceName] = set()
        self.released: list[InstanceName] = []
        self.adopted: list[InstanceName] = []
        self.calls: list[object] = []

    async def run(self, host: DeviceHost) -> None:
        self.host = host
        await asyncio.Event().wait()

    def broken(self, why: str) -> None:
        self.calls.append(why)

    def appear(self, grant: DeviceGrant) -> None:
        assert self.host is not None
        self.grant = grant
        waiting, self.waiting = self.waiting, set()
        for name in waiting:
            self.host.wake(str(name))

    def lose(self, name: InstanceName) -> None:
        assert self.host is not None
        self.grant = None
        self.host.restart(str(name))

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | WaitingForDevices:
        if self.grant:
            return (self.grant,)
        self.waiting.add(spec.instance_name)
        return WaitingForDevices("no camera")

    async def adopt(self, spec: WorkloadSpec) -> None:
        self.adopted.append(spec.instance_name)

    async def release(self, name: InstanceName) -> None:
        self.released.append(name)

    def connected(self) -> None:
        self.calls.append("connected")

    def disconnected(self) -> None:
        self.calls.append("disconnected")

    def handle(self, message: DeviceUpdate | SlotResponse) -> None:
        self.calls.append(message)


class NoDevices:
    """An agent that offers no devices."""

    async def run(self, host: DeviceHost) -> None: ...

    def broken(self, why: str) -> None: ...

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | WaitingForDevices:
        return WaitingForDevices("this agent offers no devices")

    async def adopt(self, spec: WorkloadSpec) -> None: ...

    async def release(self, name: InstanceName) -> None: ...

    def connected(self) -> None: ...

    def disconnected(self) -> None: ...

    def handle(self, message: DeviceUpdate | SlotResponse) -> None: ...


def no_devices(settings: AgentSettings) -> NoDevices:
    return NoDevices()
