"""A node whose devices a kubelet allocates, where each step happens only when the test requests it.

The agent is the real device manager with its plugins, claims of pods and reconciler. The kubelet does what a real one
does, in the same order: it takes ids from lists that may be old, calls `GetPreferredAllocation` and `Allocate` for each
container of a pod, and writes its checkpoint after the answer. After its restart it has its checkpoint, and it lists
no pods until its sources are ready; init containers are never listed. Both can be killed at each step.
"""

import asyncio
import json
import shutil
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from ankaios.common.errors import AnkaiosError
from ankaios.devices.core.grants import ANNOTATION_PREFIX
from ankaios.devices.core.kubelet_checkpoint import DeviceKey
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.host import DeviceHost
from ankaios.devices.pb import device_plugin_pb2 as pb
from ankaios.devices.plugin_service import DevicePluginService
from ankaios.devices.pod_reconciler import CHECKPOINT, PodReconciler
from ankaios.grpc.wire_format import CallFailed
from tests.unit.devices import simulated_nodes
from tests.unit.devices.simulated_nodes import ManualClock, Node, Process, pause

PREFIX = "akri.sh/"
UNUSED_SECONDS = 20.0
MOST_PODS = 4
_MEMORY = Path("/dev/shm")  # files are flushed, which takes time on a disk

Allocation = tuple[str, str, str]
"""Pod, container and resource."""


class NotAdmitted(Exception):
    """The pod does not start."""


class KubeletNode(Node):
    """Its pods are the containers; a rejected pod is not started again."""

    process: "KubeletProcess"

    def __init__(self, name: str, loop: ManualClock, shared: Sequence[str], local: Sequence[str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ank-kubelet-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self.kubelet = SimulatedKubelet(self)
        self._numbers = count()
        super().__init__(name, loop, shared, local)

    def new_process(self) -> "KubeletProcess":
        return KubeletProcess(self)

    def kill(self) -> None:
        self.kubelet.lists.clear()
        super().kill()

    @property
    def paused(self) -> list[asyncio.Future[None]]:
        return [*self.process.paused, *self.kubelet.paused]

    def want(self, owner: str, configuration: str, quantity: int) -> None:
        self.want_pod(PREFIX + configuration, quantity, ("main",))

    def want_pod(self, resource: str, quantity: int, containers: tuple[str, ...]) -> None:
        if len(self.wanted) < MOST_PODS:
            pod = f"pod{next(self._numbers)}"  # a new pod has a new id
            self.wanted[pod] = (resource, quantity)
            self.loop.do(self.kubelet.begin, pod, containers)

    def end(self, owner: str) -> None:
        if self.wanted.pop(owner, None) is not None:
            self.loop.do(self.kubelet.end, owner)

    def review(self) -> None:
        self.loop.do(self.process.start_review)

    def users(self) -> dict[str, str]:
        """A kubelet does not name its pods."""
        return dict.fromkeys(super().users(), "")

    def check_in_use(self) -> None:
        """The agent has a claim for each slot that a pod uses."""
        claims = self.process.manager.node.ledger.claims_on(self.name)
        assert self.users().keys() <= {str(slot) for slot in claims}

    def check_at_rest(self) -> None:
        manager = self.process.manager
        assert {str(slot) for slot in manager.node.ledger.claims_on(self.name)} == self.users().keys()
        assert {str(slot) for slot in manager._pods._held} == self.users().keys()
        assert set(self.containers) == set(self.wanted)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class KubeletProcess(Process):
    """One process of an agent on a node with a kubelet."""

    _node: KubeletNode

    def __init__(self, node: KubeletNode) -> None:
        super().__init__(node)
        self._review: asyncio.Task[None] | None = None

    def new_manager(self, host: DeviceHost) -> DeviceManager:
        PROCESSES[self._node.folder / "agent"] = self
        return DeviceManager(self._node.name, self._node.folder / "agent", host, kubelet_dir=self._node.folder / "k")

    def start(self) -> None:
        self.manager.restore()
        if self.manager._remembered is not None:  # as `DeviceManager.run` does
            self.manager._configure(self.manager._remembered)
        assert self.manager._kubelet is not None
        self.pod_reconciler = PodReconciler(
            self.manager.node,
            self.manager.allocator,
            self.manager._pods,
            self._node.folder / "k",
            lambda resource: self._node.kubelet.write_checkpoint(),
            UNUSED_SECONDS,
        )
        self.pod_reconciler._listed = self._listed  # type: ignore[method-assign]
        for configuration in self._node.devices if self.manager.node.configurations else ():
            self.discover(configuration)

    def services(self) -> dict[str, DevicePluginService]:
        assert self.manager._kubelet is not None
        return {name: offer.service for name, offer in self.manager._kubelet._host._offers.items()}

    def call(self, request: Callable[[], Any]) -> asyncio.Task[Any]:
        """A call of the kubelet ends when this process is killed."""
        task = asyncio.get_running_loop().create_task(request())
        self._tasks.append(task)
        return task

    def start_review(self) -> None:
        """Rounds of the reconciler run one after the other."""
        if self._review is None or self._review.done():
            self._review = self.call(lambda: self.pod_reconciler.review(self._node.loop.now))

    async def _listed(self) -> set[DeviceKey]:
        await self.pause()
        listed = self._node.kubelet.listed()
        await self.pause()
        return listed


class SimulatedKubelet:
    """`memory` has the ids and the answer of the plugin for each container."""

    def __init__(self, node: KubeletNode) -> None:
        self._node = node
        self._file = node.folder / "k" / CHECKPOINT
        self._file.parent.mkdir(parents=True)
        self.memory: dict[Allocation, tuple[list[str], bytes]] = {}
        self.active: set[str] = set()
        self.is_ready = True
        self.lists: dict[str, list[str]] = {}
        self.paused: list[asyncio.Future[None]] = []
        self._containers: dict[str, tuple[str, ...]] = {}
        self._requested: dict[str, set[str]] = {}  # by resource: ids of calls without an answer
        self._admissions: dict[str, asyncio.Task[None]] = {}

    # --- restarts ---

    def restart(self) -> None:
        """Pods continue to run; calls end without an answer."""
        for admission in self._admissions.values():
            admission.cancel()
        self._admissions.clear()
        self._requested.clear()
        self.lists.clear()
        self.is_ready = False
        self._read_checkpoint()

    def sources_ready(self) -> None:
        """Pods that did not start before the restart are admitted again."""
        self.is_ready = True
        for pod in self._node.wanted.keys() - self._node.containers.keys() - self._admissions.keys():
            self._admissions[pod] = self._node.loop.create_task(self._admit(pod))

    def begin(self, pod: str, containers: tuple[str, ...]) -> None:
        self._containers[pod] = containers
        self.active.add(pod)
        self._admissions[pod] = self._node.loop.create_task(self._admit(pod))

    def end(self, pod: str) -> None:
        """Memory and checkpoint still have its devices."""
        if (admission := self._admissions.pop(pod, None)) is not None:
            admission.cancel()
        self._node.containers.pop(pod, None)
        self.active.discard(pod)

    # --- checkpoint and lists ---

    def get_lists(self) -> None:
        """The plugins are registered, and their lists arrive."""
        services = self._node.process.services()
        self.lists = {
            name: [device.id for device in service.behaviour.advertised() if device.healthy]
            for name, service in services.items()
        }
        self.write_checkpoint()

    def write_checkpoint(self) -> None:
        entries = [
            {
                "PodUID": pod,
                "ContainerName": container,
                "ResourceName": resource,
                "DeviceIDs": {"-1": ids},
                "AllocResp": b64encode(response).decode(),
            }
            for (pod, container, resource), (ids, response) in self.memory.items()
        ]
        content = {"Data": {"PodDeviceEntries": entries or None, "RegisteredDevices": {}}, "Checksum": 1}
        self._file.write_text(json.dumps(content))

    def _read_checkpoint(self) -> None:
        self.memory = {}
        if self._file.exists():
            for entry in json.loads(self._file.read_text())["Data"]["PodDeviceEntries"] or ():
                key = entry["PodUID"], entry["ContainerName"], entry["ResourceName"]
                self.memory[key] = entry["DeviceIDs"]["-1"], b64decode(entry["AllocResp"])

    def _forget_ended_pods(self) -> None:
        if self.is_ready:
            self.memory = {key: value for key, value in self.memory.items() if key[0] in self.active}

    def listed(self) -> set[DeviceKey]:
        self._forget_ended_pods()
        if not self.is_ready:
            return set()
        return {
            (resource, id_)
            for (_, container, resource), (ids, _) in self.memory.items()
            for id_ in ids
            if not container.startswith("init")
        }

    # --- admission ---

    async def _admit(self, pod: str) -> None:
        resource, quantity = self._node.wanted[pod]
        slots: set[str] = set()
        try:
            for container in self._containers[pod]:
                slots = await self._allocate(pod, container, resource, quantity)
        except NotAdmitted:
            self._node.wanted.pop(pod, None)
            self.active.discard(pod)
        else:
            self._node.containers[pod] = slots
        self._admissions.pop(pod, None)

    async def _allocate(self, pod: str, container: str, resource: str, quantity: int) -> set[str]:
        """A container that has devices already keeps them without a call."""
        self._forget_ended_pods()
        key = pod, container, resource
        if key not in self.memory:
            service = self._node.process.services().get(resource)
            if service is None:
                raise NotAdmitted("no plugin")
            ids = self._choose(service, pod, resource, quantity)
            requested = self._requested.setdefault(resource, set())
            requested.update(ids)
            try:
                response = await self._call(service, ids)
                await pause(self.paused)  # the answer is not delivered yet
            finally:
                requested.difference_update(ids)
            self.memory[key] = ids, response
            self.write_checkpoint()
        annotations = pb.ContainerAllocateResponse.FromString(self.memory[key][1]).annotations
        return {name.removeprefix(ANNOTATION_PREFIX) for name in annotations}

    def _choose(self, service: DevicePluginService, pod: str, resource: str, quantity: int) -> list[str]:
        """Ids of the init containers of the pod first, then those that the plugin prefers."""
        used = {id_ for (_, _, name), (ids, _) in self.memory.items() if name == resource for id_ in ids}
        reused = [
            id_ for (name, _, of), (ids, _) in self.memory.items() if (name, of) == (pod, resource) for id_ in ids
        ][:quantity]
        free = sorted(set(self.lists.get(resource, ())) - used - self._requested.get(resource, set()))
        missing = quantity - len(reused)
        if len(free) < missing:
            raise NotAdmitted("too few devices")
        preferred = [id_ for id_ in service.behaviour.preferred(free, [], missing) if id_ in free]
        return reused + [*preferred, *(id_ for id_ in free if id_ not in preferred)][:missing]

    async def _call(self, service: DevicePluginService, ids: list[str]) -> bytes:
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        call = self._node.process.call(lambda: service._allocate(request, {}))
        try:
            response: pb.AllocateResponse = await asyncio.shield(call)
        except (AnkaiosError, CallFailed) as fault:
            raise NotAdmitted(str(fault)) from fault
        except asyncio.CancelledError:
            if call.cancelled():  # the agent was killed
                raise NotAdmitted("the agent was killed") from None
            call.cancel()
            raise
        return response.container_responses[0].SerializeToString()


async def slow_disk(function: Callable[..., Any], *values: Any) -> Any:
    """Replaces a thread, for both kinds of agents."""
    if hasattr(function, "__self__"):
        return await simulated_nodes.slow_disk(function, *values)
    process = PROCESSES[values[0].parent.parent]
    await process.pause()
    if process.disk_fails:
        raise OSError("the disk is full")
    result = function(*values)
    await process.pause()
    return result


PROCESSES: dict[Path, KubeletProcess] = {}
"""The agents by their folders."""
