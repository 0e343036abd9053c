"""What the agent offers to its device manager, and the answer for a workload that has to wait.

Workloads are identified by the text of their instance name. Small on purpose: the agent loads it at its start, the
device manager only when devices are needed.
"""

from collections.abc import Callable, Collection

from msgspec import Struct

from ankaios.common.pb.grpc_api_pb2 import ToServer


class WaitingForDevices(Struct, frozen=True):
    """The workload cannot have its devices now; the reason is shown in its state.

    `failed`: nothing is missing, but a plugin or the server refused or did not answer.
    """

    reason: str
    failed: bool = False


class DeviceHost(Struct, frozen=True):
    """None of these functions blocks.

    `wake`: the workload waits for devices and should claim them again. `restart`: the workload must not continue with
    the devices it has; it is deleted, claims devices again and waits if there are none. `living`: the workloads that
    may use devices, or None as long as the content of the runtimes is not known.
    """

    send: Callable[[ToServer], None]
    wake: Callable[[str], None]
    restart: Callable[[str], None]
    living: Callable[[], Collection[str] | None]
