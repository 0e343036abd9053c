"""Devices that come and go when a test says so."""

import asyncio

from ankaios.agent.device_joint import DeviceHost, Waiting
from ankaios.common.pb.grpc_api_pb2 import DeviceUpdate, SlotResponse
from ankaios.common.workload import InstanceName, WorkloadSpec
from ankaios.runtimes.runtime_connector import DeviceGrant


class FakeDevices:
    offers_devices = True

    def __init__(self) -> None:
        self.host: DeviceHost | None = None
        self.grant: DeviceGrant | None = None
        self.released: list[InstanceName] = []
        self.adopted: list[InstanceName] = []
        self.heard: list[object] = []

    async def run(self, host: DeviceHost) -> None:
        self.host = host
        await asyncio.Event().wait()

    def appear(self, grant: DeviceGrant) -> None:
        assert self.host is not None
        self.grant = grant
        self.host.wake()

    def lose(self, name: InstanceName) -> None:
        assert self.host is not None
        self.grant = None
        self.host.restart(name)

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | Waiting:
        return (self.grant,) if self.grant else Waiting("no camera")

    async def adopt(self, spec: WorkloadSpec) -> None:
        self.adopted.append(spec.instance_name)

    async def release(self, name: InstanceName) -> None:
        self.released.append(name)

    def connected(self) -> None:
        self.heard.append("connected")

    def handle(self, message: DeviceUpdate | SlotResponse) -> None:
        self.heard.append(message)
