"""A device plugin of another project, written with grpcio from the description of the API alone."""

import queue
import time
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]

from tests.integration.devices.kubelet_stub import PB


class ForeignPlugin:
    """Offers `devices` (id -> health) as one resource; can be set to refuse and to prefer certain ids."""

    def __init__(self, folder: Path, resource: str, devices: dict[str, str], pre_start: bool = False) -> None:
        self._folder = folder
        self.resource = resource
        self.endpoint = f"{resource.replace('/', '-')}.sock"
        self.devices = devices
        self.pre_start = pre_start
        self.refuses = False
        self.delay = 0.0
        self.prefers: list[str] = []
        self.preference_requests: list[tuple[list[str], int]] = []
        self.allocated: list[list[str]] = []
        self.started: list[list[str]] = []
        self._lists: list[queue.Queue[Any]] = []
        self._server: Any = None

    def start(self, version: str = "v1beta1", endpoint: str | None = None) -> None:
        """Serve, then register; raises grpc.RpcError if refused."""
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        handlers = {
            "GetDevicePluginOptions": self._unary(self._options, "Empty"),
            "GetPreferredAllocation": self._unary(self._preferred, "PreferredAllocationRequest"),
            "Allocate": self._unary(self._allocate, "AllocateRequest"),
            "PreStartContainer": self._unary(self._pre_start, "ContainerAllocateRequest"),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list_and_watch, PB["Empty"].FromString, lambda message: message.SerializeToString()
            ),
        }
        generic = grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers)
        self._server.add_generic_rpc_handlers((generic,))
        self._server.add_insecure_port(f"unix:{self._folder / self.endpoint}")
        self._server.start()
        self.register(version, endpoint or self.endpoint)

    def register(self, version: str, endpoint: str) -> None:
        socket = f"unix:{self._folder / 'kubelet.sock'}"
        with grpc.insecure_channel(socket, [("grpc.default_authority", "localhost")]) as channel:
            call = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=PB["Empty"].FromString,
            )
            call(PB["RegisterRequest"](version=version, endpoint=endpoint, resource_name=self.resource), timeout=5)

    def stop(self) -> None:
        for lists in self._lists:
            lists.put(None)
        if self._server is not None:
            self._server.stop(None).wait()

    def report(self, devices: dict[str, str]) -> None:
        self.devices = devices
        for lists in self._lists:
            lists.put(devices)

    @staticmethod
    def _unary(handler: Any, request: str) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            handler, PB[request].FromString, lambda message: message.SerializeToString()
        )

    def _options(self, request: Any, context: Any) -> Any:
        return PB["DevicePluginOptions"](
            pre_start_required=self.pre_start, get_preferred_allocation_available=bool(self.prefers)
        )

    def _list_and_watch(self, request: Any, context: Any) -> Any:
        lists: queue.Queue[Any] = queue.Queue()
        lists.put(self.devices)
        self._lists.append(lists)
        while (devices := lists.get()) is not None:
            response = PB["ListAndWatchResponse"]()
            for id_, health in devices.items():
                response.devices.add(ID=id_, health=health)
            yield response

    def _preferred(self, request: Any, context: Any) -> Any:
        time.sleep(self.delay)
        (wanted,) = request.container_requests
        self.preference_requests.append((list(wanted.available_deviceIDs), wanted.allocation_size))
        response = PB["PreferredAllocationResponse"]()
        response.container_responses.add().deviceIDs.extend(self.prefers)
        return response

    def _allocate(self, request: Any, context: Any) -> Any:
        time.sleep(self.delay)
        if self.refuses:
            context.abort(grpc.StatusCode.INTERNAL, "out of order")
        response = PB["AllocateResponse"]()
        for each in request.container_requests:
            self.allocated.append(list(each.devicesIDs))
            answer = response.container_responses.add()
            answer.envs.add(key="GPU", value=",".join(each.devicesIDs))
        return response

    def _pre_start(self, request: Any, context: Any) -> Any:
        self.started.append(list(request.devicesIDs))
        return PB["Empty"]()
