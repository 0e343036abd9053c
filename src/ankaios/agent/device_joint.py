"""Where devices are joined to workloads: all that the agent asks of whoever manages devices.

In come workloads that ask for `resources`; out come the grants that travel to the runtime, or why there are none yet.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from msgspec import Struct

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.pb.grpc_api_pb2 import DeviceUpdate, SlotResponse, ToServer
from ankaios.common.workload import InstanceName, WorkloadSpec


class Waiting(Struct, frozen=True):
    """The workload cannot have its devices now; the reason is shown to the user."""

    reason: str


class DeviceHost(Struct, frozen=True):
    """What the agent offers to the service; none of these waits.

    `wake`: there may be enough devices now for this workload, which waits and should ask again. `restart`: this
    workload must not go on with the devices it has; it is deleted, asks for devices again and waits if there are none.
    `living`: the workloads that may use devices, or None as long as it is not known what the runtimes hold.
    """

    send: Callable[[ToServer], None]
    wake: Callable[[InstanceName], None]
    restart: Callable[[InstanceName], None]
    living: Callable[[], Collection[InstanceName] | None]


class DeviceService(Protocol):
    offers_devices: bool
    """Told to the server in each hello: an agent without devices is never sent a workload that needs one."""

    async def run(self, host: DeviceHost) -> None:
        """Discovery and all else that goes on by itself; lives as long as the agent."""
        ...

    def broken(self, why: str) -> None:
        """An internal error ended `run`, which will be run again."""
        ...

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | Waiting:
        """Claim all that the workload asks for, or nothing. Claims it holds already are kept.

        One that waits is woken when it should ask again.
        """
        ...

    async def adopt(self, spec: WorkloadSpec) -> None:
        """The workload was found running: what it holds is in use."""
        ...

    async def release(self, name: InstanceName) -> None: ...

    def connected(self) -> None:
        """A new session with the server begins: it knows nothing of this agent's devices."""
        ...

    def disconnected(self) -> None:
        """The session is over: shared devices, for which the server accounts, cannot be had before the next one."""
        ...

    def handle(self, message: DeviceUpdate | SlotResponse) -> None: ...


class NoDevices:
    """An agent that offers none."""

    offers_devices = False

    async def run(self, host: DeviceHost) -> None:
        del host

    def broken(self, why: str) -> None:
        del why

    async def acquire(self, spec: WorkloadSpec) -> tuple[DeviceGrant, ...] | Waiting:
        names = ", ".join(f"'{request.resource}'" for request in spec.resources)
        return Waiting(f"this agent offers no devices, the workload needs {names}")

    async def adopt(self, spec: WorkloadSpec) -> None:
        del spec

    async def release(self, name: InstanceName) -> None:
        del name

    def connected(self) -> None:
        pass

    def disconnected(self) -> None:
        pass

    def handle(self, message: DeviceUpdate | SlotResponse) -> None:
        del message
