"""Devices that come and go when a test says so."""

import asyncio

from ankaios.agent.device_joint import DeviceHost, Waiting
from ankaios.common.device_grant import DeviceGrant
from ankaios.common.pb.grpc_api_pb2 import DeviceUpdate, SlotResponse
from ankaios.common.workload import InstanceName, WorkloadSpec


class FakeDevices:
    offers_devices = True

    def __init__(self) -> None:
        self.host: DeviceHost | None = None
        self.grant: DeviceGrant | None = None
        self.waiting: set[InstanceName] = set()
        self.released: list[InstanceName] = []
        self.adopted: list[InstanceName] = []
        self.heard: list[object] = []

    async def run(self, host: DeviceHost) -> None:
        self.host = host
        await asyncio.Event().wait()

    def broken(self, why: str) -> None:
        self.heard.append(why)

    def appear(self, grant: DeviceGrant) -> None:
        assert self.host is not None
        self.grant = grant
        waiting, self.waiting = self.waiting, set()
        for name in waiting:
            self.host.wake(name)

    def lose(self, name: InstanceName) -> None:
        assert self.host is not None
        self.grant = None
        self.host.restart(name)

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | Waiting:
        if self.grant:
            return (self.grant,)
        self.waiting.add(spec.instance_name)
        return Waiting("no camera")

    async def adopt(self, spec: WorkloadSpec) -> None:
        self.adopted.append(spec.instance_name)

    async def release(self, name: InstanceName) -> None:
        self.released.append(name)

    def connected(self) -> None:
        self.heard.append("connected")

    def disconnected(self) -> None:
        self.heard.append("disconnected")

    def handle(self, message: DeviceUpdate | SlotResponse) -> None:
        self.heard.append(message)
