"""A server that sends what a test specifies; it uses another gRPC implementation (grpcio)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]

from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer


class Session:
    """One stream of an agent, from its hello on."""

    def __init__(self, hello: ToServer) -> None:
        self.hello = hello
        self.received: asyncio.Queue[ToServer] = asyncio.Queue()
        self.gone = asyncio.Event()
        self._outgoing: asyncio.Queue[FromServer | None] = asyncio.Queue()

    def send(self, *messages: FromServer) -> None:
        for message in messages:
            self._outgoing.put_nowait(message)

    def end(self) -> None:
        self._outgoing.put_nowait(None)

    async def receive(self, kind: str, seconds: float = 5.0) -> ToServer:
        """The next message of this kind; others are skipped."""
        async with asyncio.timeout(seconds):
            while True:
                message = await self.received.get()
                if message.WhichOneof("ToServerEnum") == kind:
                    return message

    async def states(self, count: int, seconds: float = 5.0) -> list[str]:
        lines = []
        for _ in range(count):
            (state,) = (await self.receive("updateWorkloadState", seconds)).updateWorkloadState.workloadStates
            execution = state.executionState
            field = execution.WhichOneof("ExecutionStateEnum")
            assert field is not None
            kind = execution.DESCRIPTOR.fields_by_name[field].enum_type
            assert kind is not None
            name = kind.values_by_number[getattr(execution, field)].name
            lines.append(f"{state.instanceName.workloadName} {name}")
        return lines

    async def next_outgoing(self) -> FromServer | None:
        return await self._outgoing.get()


class ScriptedServer:
    def __init__(self) -> None:
        self.sessions: asyncio.Queue[Session] = asyncio.Queue()
        self.hellos = 0
        self.refuse: tuple[grpc.StatusCode, str] | None = None
        self.port = 0
        self._server: grpc.aio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self._serve_stream,
            request_deserializer=ToServer.FromString,
            response_serializer=FromServer.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("grpc_api.AgentConnection", {"ConnectAgent": handler})
        server.add_generic_rpc_handlers((service,))
        self.port = server.add_insecure_port(f"127.0.0.1:{self.port}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """As if killed."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def session(self, seconds: float = 10.0) -> Session:
        async with asyncio.timeout(seconds):
            return await self.sessions.get()

    async def _serve_stream(self, requests: AsyncIterator[ToServer], context: Any) -> AsyncIterator[FromServer]:
        self.hellos += 1
        if self.refuse is not None:
            await context.abort(*self.refuse)
        await context.send_initial_metadata(())
        session = Session(await anext(requests))
        self.sessions.put_nowait(session)
        receiving = asyncio.create_task(_receive(requests, session))
        try:
            while (message := await session.next_outgoing()) is not None:
                yield message
        finally:
            receiving.cancel()
            session.gone.set()


async def _receive(requests: AsyncIterator[ToServer], session: Session) -> None:
    try:
        async for message in requests:
            session.received.put_nowait(message)
    except grpc.RpcError:
        pass
    finally:
        session.gone.set()


@asynccontextmanager
async def a_server() -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
