"""A discovery handler: every file in a folder is a device.

The agent calls `Discover` with the `discoveryDetails` of a device configuration, here the path of a folder. The answer
is a stream of complete lists: a new one is sent whenever the devices have changed.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc  # type: ignore[import-untyped]

from ankaios.devices.pb import discovery_pb2 as pb

NAME = "files-python"


def discover(request: pb.DiscoverRequest, context: grpc.ServicerContext) -> Iterator[pb.DiscoverResponse]:
    """Serve one device configuration until the agent ends the call."""
    folder = Path(request.discovery_details)
    if not folder.is_dir():
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"'{folder}' is no folder")
    sent: list[str] | None = None
    while context.is_active():
        found = sorted(path.name for path in folder.iterdir())
        if found != sent:
            sent = found
            yield pb.DiscoverResponse(devices=[device(folder / name) for name in found])
        time.sleep(0.2)


def device(path: Path) -> pb.Device:
    """A workload gets the properties as environment variables, and the mounts."""
    mount = pb.Mount(container_path=f"/devices/{path.name}", host_path=str(path), read_only=True)
    return pb.Device(id=path.name, properties={"FILE_NAME": path.name}, mounts=[mount])


def register(folder: Path, endpoint: Path) -> None:
    """Announce the endpoint to the agent, which then calls it."""
    request = pb.RegisterDiscoveryHandlerRequest(
        name=NAME,
        endpoint=str(endpoint),
        endpoint_type=pb.RegisterDiscoveryHandlerRequest.UDS,
        shared=False,  # each node has its own files
    )
    with grpc.insecure_channel(f"unix:{folder}/agent-registration.sock") as channel:
        call = channel.unary_unary(
            "/v0.Registration/RegisterDiscoveryHandler",
            request_serializer=pb.RegisterDiscoveryHandlerRequest.SerializeToString,
            response_deserializer=pb.Empty.FromString,
        )
        call(request, wait_for_ready=True, timeout=60)


def main() -> None:
    folder = Path(os.environ.get("DISCOVERY_HANDLERS_DIRECTORY", "/var/lib/akri"))
    folder.mkdir(parents=True, exist_ok=True)
    endpoint = folder / f"{NAME}.sock"
    endpoint.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor())
    method = grpc.unary_stream_rpc_method_handler(
        discover,
        request_deserializer=pb.DiscoverRequest.FromString,
        response_serializer=pb.DiscoverResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v0.DiscoveryHandler", {"Discover": method})])
    server.add_insecure_port(f"unix:{endpoint}")
    server.start()
    register(folder, endpoint)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
