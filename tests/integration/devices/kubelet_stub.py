"""The device part of a kubelet, written from the description of its API: it shares no code with the product.

Registration, device plugin and pod resources messages are defined here again, field by field, and exchanged with
grpcio in threads. It deletes sockets when it starts, calls plugins back before it answers them, and refuses a socket it
is connected to. It writes its checkpoint file when it allocates and when a plugin sends a list, restores its memory
from it after a restart, and lists pods only when its sources are ready; init containers are never listed. It drops
devices of pods that ended when pod resources are requested or it allocates, if its sources are ready.
"""

import json
import stat
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

STRING, BOOL, INT32, MESSAGE = 9, 8, 5, 11
MESSAGES: dict[str, list[tuple[str, int, int, bool, str | None]]] = {
    "Empty": [],
    "DevicePluginOptions": [
        ("pre_start_required", 1, BOOL, False, None),
        ("get_preferred_allocation_available", 2, BOOL, False, None),
    ],
    "RegisterRequest": [
        ("version", 1, STRING, False, None),
        ("endpoint", 2, STRING, False, None),
        ("resource_name", 3, STRING, False, None),
        ("options", 4, MESSAGE, False, "DevicePluginOptions"),
    ],
    "Device": [("ID", 1, STRING, False, None), ("health", 2, STRING, False, None)],
    "ListAndWatchResponse": [("devices", 1, MESSAGE, True, "Device")],
    "ContainerPreferredAllocationRequest": [
        ("available_deviceIDs", 1, STRING, True, None),
        ("must_include_deviceIDs", 2, STRING, True, None),
        ("allocation_size", 3, INT32, False, None),
    ],
    "PreferredAllocationRequest": [("container_requests", 1, MESSAGE, True, "ContainerPreferredAllocationRequest")],
    "ContainerPreferredAllocationResponse": [("deviceIDs", 1, STRING, True, None)],
    "PreferredAllocationResponse": [("container_responses", 1, MESSAGE, True, "ContainerPreferredAllocationResponse")],
    "ContainerAllocateRequest": [("devicesIDs", 1, STRING, True, None)],
    "AllocateRequest": [("container_requests", 1, MESSAGE, True, "ContainerAllocateRequest")],
    "KeyValue": [("key", 1, STRING, False, None), ("value", 2, STRING, False, None)],
    "Mount": [
        ("container_path", 1, STRING, False, None),
        ("host_path", 2, STRING, False, None),
        ("read_only", 3, BOOL, False, None),
    ],
    "DeviceSpec": [
        ("container_path", 1, STRING, False, None),
        ("host_path", 2, STRING, False, None),
        ("permissions", 3, STRING, False, None),
    ],
    "ContainerAllocateResponse": [
        ("envs", 1, MESSAGE, True, "KeyValue"),
        ("mounts", 2, MESSAGE, True, "Mount"),
        ("devices", 3, MESSAGE, True, "DeviceSpec"),
        ("annotations", 4, MESSAGE, True, "KeyValue"),
    ],
    "AllocateResponse": [("container_responses", 1, MESSAGE, True, "ContainerAllocateResponse")],
    "ContainerDevices": [("resource_name", 1, STRING, False, None), ("device_ids", 2, STRING, True, None)],
    "ContainerResources": [("name", 1, STRING, False, None), ("devices", 2, MESSAGE, True, "ContainerDevices")],
    "PodResources": [
        ("name", 1, STRING, False, None),
        ("namespace", 2, STRING, False, None),
        ("containers", 3, MESSAGE, True, "ContainerResources"),
    ],
    "ListPodResourcesResponse": [("pod_resources", 1, MESSAGE, True, "PodResources")],
}


def _define() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="kubelet_stub.proto", package="kubelet_stub", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            message.field.add(
                name=field,
                number=number,
                type=kind,
                label=3 if repeated else 1,
                type_name=f".kubelet_stub.{of}" if of else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"kubelet_stub.{name}")) for name in MESSAGES
    }


PB = _define()


class AdmissionError(Exception):
    """The error of a pod that a plugin rejected."""


class _Plugin:
    def __init__(self, socket: Path) -> None:
        self.channel = grpc.insecure_channel(f"unix:{socket}", [("grpc.default_authority", "localhost")])
        self.devices: dict[str, str] = {}
        self.lists: list[dict[str, str]] = []
        self.ended = False

    def call(self, method: str, request: Any, answer: str) -> Any:
        stub = self.channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=PB[answer].FromString,
        )
        return stub(request, timeout=10)

    def watch(self, changed: threading.Condition, listed: Callable[[], None]) -> None:
        stub = self.channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=PB["ListAndWatchResponse"].FromString,
        )
        try:
            for response in stub(PB["Empty"]()):
                with changed:
                    self.devices = {device.ID: device.health for device in response.devices}
                    self.lists.append(dict(self.devices))
                    listed()
                    changed.notify_all()
        except (grpc.RpcError, ValueError):
            pass  # the plugin or this kubelet ended
        with changed:
            self.ended = True
            changed.notify_all()


class KubeletStub:
    """`folder` is what `/var/lib/kubelet` is to a kubelet."""

    def __init__(self, folder: Path) -> None:
        self.plugin_folder = folder / "device-plugins"
        self.plugin_folder.mkdir(parents=True, exist_ok=True)
        (folder / "pod-resources").mkdir(exist_ok=True)
        self._pod_resources = folder / "pod-resources" / "kubelet.sock"
        self.checkpoint: dict[tuple[str, str, str], list[str]] = {}  # in memory: pod, container, resource -> ids
        self.responses: dict[tuple[str, str, str], bytes] = {}
        self.active: set[str] = set()  # pods
        self.sources_ready = True
        self._admitting = threading.Lock()
        self.registrations: list[tuple[str, str]] = []
        self.plugins: dict[str, _Plugin] = {}
        self.changed = threading.Condition()
        self._servers: list[grpc.Server] = []

    # --- start and stop ---

    def start(self) -> None:
        for path in self.plugin_folder.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        self._read_checkpoint()
        self._serve(
            self.plugin_folder / "kubelet.sock", "v1beta1.Registration", "Register", self._register, "RegisterRequest"
        )
        self._serve(self._pod_resources, "v1.PodResourcesLister", "List", self._list, "Empty")

    def _serve(self, socket: Path, service: str, method: str, handler: Any, request: str) -> None:
        server = grpc.server(futures.ThreadPoolExecutor(8))
        unary = grpc.unary_unary_rpc_method_handler(
            handler,
            request_deserializer=PB[request].FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: unary}),))
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        self._servers.append(server)

    def stop(self) -> None:
        for plugin in self.plugins.values():
            plugin.channel.close()
        for server in self._servers:
            server.stop(None).wait()
        self._servers.clear()
        self.plugins.clear()

    def restart(self, sources_ready: bool = True) -> None:
        """Pods continue to run. Until the sources are ready, the kubelet does not list them."""
        self.stop()
        self.sources_ready = sources_ready
        self.start()

    # --- checkpoint ---

    @property
    def checkpoint_file(self) -> Path:
        return self.plugin_folder / "kubelet_internal_checkpoint"

    def _write_checkpoint(self) -> None:
        entries = [
            {
                "PodUID": pod,
                "ContainerName": container,
                "ResourceName": resource,
                "DeviceIDs": {"-1": ids},
                "AllocResp": b64encode(self.responses[pod, container, resource]).decode(),
            }
            for (pod, container, resource), ids in self.checkpoint.items()
        ]
        registered = {resource: sorted(plugin.devices) for resource, plugin in self.plugins.items()}
        content = {"Data": {"PodDeviceEntries": entries or None, "RegisteredDevices": registered}, "Checksum": 1}
        draft = self.checkpoint_file.with_name(".draft")
        draft.write_text(json.dumps(content))
        draft.replace(self.checkpoint_file)

    def _read_checkpoint(self) -> None:
        self.checkpoint, self.responses = {}, {}
        if not self.checkpoint_file.exists():
            return
        for entry in json.loads(self.checkpoint_file.read_text())["Data"]["PodDeviceEntries"] or ():
            key = entry["PodUID"], entry["ContainerName"], entry["ResourceName"]
            self.checkpoint[key] = entry["DeviceIDs"]["-1"]
            self.responses[key] = b64decode(entry["AllocResp"])

    def _drop_ended_pods(self) -> None:
        if self.sources_ready:
            self.checkpoint = {key: ids for key, ids in self.checkpoint.items() if key[0] in self.active}

    def _register(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.version != "v1beta1" or "/" not in request.resource_name:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "version or name")
        known = self.plugins.get(request.resource_name)
        if known is not None and not known.ended and (request.resource_name, request.endpoint) in self.registrations:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "already connected")
        plugin = _Plugin(self.plugin_folder / request.endpoint)
        options = plugin.call("GetDevicePluginOptions", PB["Empty"](), "DevicePluginOptions")
        assert options.get_preferred_allocation_available
        with self.changed:
            self.registrations.append((request.resource_name, request.endpoint))
            self.plugins[request.resource_name] = plugin
            self.changed.notify_all()
        threading.Thread(target=plugin.watch, args=(self.changed, self._write_checkpoint), daemon=True).start()
        return PB["Empty"]()

    # --- queries of a test ---

    def wait(self, reached: Any, seconds: float = 10) -> None:
        with self.changed:
            assert self.changed.wait_for(reached, seconds), (self.capacity(), self.registrations)

    def healthy(self, resource: str) -> list[str]:
        plugin = self.plugins.get(resource)
        devices = plugin.devices if plugin and not plugin.ended else {}
        return sorted(id_ for id_, health in devices.items() if health == "Healthy")

    def capacity(self) -> dict[str, int]:
        return {resource: len(plugin.devices) for resource, plugin in sorted(self.plugins.items())}

    def _allocated(self, resource: str) -> set[str]:
        return {id_ for (_, _, name), ids in self.checkpoint.items() if name == resource for id_ in ids}

    def admit(
        self, pod: str, resource: str, quantity: int, container: str = "main", ids: list[str] | None = None
    ) -> Any:
        """Allocate for one container, with the ids of the test or with those a kubelet would take.

        A container that starts again gets its devices without a call. Pods are admitted one after the other.
        """
        with self._admitting:
            return self._admit(pod, resource, quantity, container, ids)

    def _admit(self, pod: str, resource: str, quantity: int, container: str, ids: list[str] | None) -> Any:
        self._drop_ended_pods()
        if (pod, container, resource) in self.checkpoint:
            return PB["ContainerAllocateResponse"].FromString(self.responses[pod, container, resource])
        plugin = self.plugins[resource]
        chosen = ids or self._reusable(pod, resource)[:quantity]
        chosen += self._choose(plugin, resource, quantity - len(chosen)) if len(chosen) < quantity and not ids else []
        request = PB["AllocateRequest"]()
        request.container_requests.add().devicesIDs.extend(chosen)
        try:
            response = plugin.call("Allocate", request, "AllocateResponse")
        except grpc.RpcError as error:
            raise AdmissionError(error.details()) from error
        with self.changed:
            self.active.add(pod)
            self.checkpoint[pod, container, resource] = chosen
            self.responses[pod, container, resource] = response.container_responses[0].SerializeToString()
            self._write_checkpoint()
        return response.container_responses[0]

    def _reusable(self, pod: str, resource: str) -> list[str]:
        """The devices of the init containers of the pod."""
        held = {key: ids for key, ids in self.checkpoint.items() if key[0] == pod and key[2] == resource}
        if any(not container.startswith("init") for _, container, _ in held):
            return []
        return [id_ for ids in held.values() for id_ in ids]

    def _choose(self, plugin: _Plugin, resource: str, quantity: int) -> list[str]:
        free = sorted(set(self.healthy(resource)) - self._allocated(resource))
        if len(free) < quantity:
            raise AdmissionError("Insufficient devices")
        request = PB["PreferredAllocationRequest"]()
        wanted = request.container_requests.add(allocation_size=quantity)
        wanted.available_deviceIDs.extend(free)
        response = plugin.call("GetPreferredAllocation", request, "PreferredAllocationResponse")
        preferred = [id_ for id_ in response.container_responses[0].deviceIDs if id_ in free]
        return (preferred + [id_ for id_ in free if id_ not in preferred])[:quantity]

    def end_pod(self, pod: str) -> None:
        """The memory and the checkpoint still have its devices."""
        self.active.discard(pod)

    def _list(self, request: Any, context: grpc.ServicerContext) -> Any:
        response = PB["ListPodResourcesResponse"]()
        with self.changed:
            self._drop_ended_pods()
            listed = dict(self.checkpoint) if self.sources_ready else {}
        for (pod, container, resource), ids in listed.items():
            if container.startswith("init"):
                continue
            found = response.pod_resources.add(name=pod, namespace="default").containers.add(name=container)
            found.devices.add(resource_name=resource, device_ids=ids)
        return response


def pairs(entries: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in entries}
