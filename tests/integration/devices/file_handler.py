"""A discovery handler of another project: a separate process, another gRPC implementation, only the protocol.

Arguments: the directory of the agent's socket, the name to register, `uds` or `network`. The details of a configuration
name a file; each line of it is a device. `invalid` as details is refused, `unanswered` is accepted and never answered.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc  # type: ignore[import-untyped]

from ankaios.devices.pb import discovery_pb2 as pb


def discover(request: pb.DiscoverRequest, context: grpc.ServicerContext) -> Iterator[pb.DiscoverResponse]:
    if request.discovery_details == "invalid":
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no file is named")
    context.send_initial_metadata(())
    sent: str | None = None
    while context.is_active():
        now = "" if request.discovery_details == "unanswered" else Path(request.discovery_details).read_text()
        if now != sent and now:
            sent = now
            yield pb.DiscoverResponse(devices=[device(line, request) for line in now.splitlines()])
        time.sleep(0.02)


def device(line: str, request: pb.DiscoverRequest) -> pb.Device:
    properties = {
        name: data.vec.decode() for name, data in request.discovery_properties.items() if data.HasField("vec")
    }
    spec = pb.DeviceSpec(container_path="/dev/null", host_path="/dev/null", permissions="r")
    return pb.Device(id=line, properties=properties, device_specs=[spec])


def main() -> None:
    from concurrent.futures import ThreadPoolExecutor

    directory, name, kind = sys.argv[1:]
    server = grpc.server(ThreadPoolExecutor(8))
    method = grpc.unary_stream_rpc_method_handler(
        discover,
        request_deserializer=pb.DiscoverRequest.FromString,
        response_serializer=pb.DiscoverResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v0.DiscoveryHandler", {"Discover": method})])
    if kind == "uds":
        endpoint, endpoint_type = f"{directory}/{name}.sock", pb.RegisterDiscoveryHandlerRequest.UDS
        server.add_insecure_port(f"unix:{endpoint}")
    else:
        port = server.add_insecure_port("127.0.0.1:0")
        endpoint, endpoint_type = f"http://127.0.0.1:{port}", pb.RegisterDiscoveryHandlerRequest.NETWORK
    server.start()
    with grpc.insecure_channel(f"unix:{directory}/agent-registration.sock") as channel:
        register = channel.unary_unary(
            "/v0.Registration/RegisterDiscoveryHandler",
            request_serializer=pb.RegisterDiscoveryHandlerRequest.SerializeToString,
            response_deserializer=pb.Empty.FromString,
        )
        register(
            pb.RegisterDiscoveryHandlerRequest(name=name, endpoint=endpoint, endpoint_type=endpoint_type, shared=True),
            wait_for_ready=True,
            timeout=20,
        )
    server.wait_for_termination()


if __name__ == "__main__":
    main()
