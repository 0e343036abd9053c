"""A middleware server on a real socket, its channel, and messages for tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from ankaios.common.channels import Channel, ToServerChannel
from ankaios.common.config import PemMaterial
from ankaios.common.messages import FromAgent, FromClient, Respond, ToServerMessage
from ankaios.common.pb.ank_base_pb2 import CompleteStateRequest, CompleteStateResponse, Request, Response
from ankaios.common.pb.grpc_api_pb2 import AgentHello, CommanderHello, FromServer, ServerHello, ToServer
from ankaios.grpc.keepalive import Keepalive
from ankaios.middleware.client import ServerConnection, connect
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from ankaios.middleware.server import Limits, MiddlewareServer

TIME_LIMIT = 30.0
LONG_KEEPALIVE = Keepalive(5.0, 5.0)  # for tests of other topics, on busy machines


@dataclass
class Running:
    """A listening server, its channel, and its URL."""

    server: MiddlewareServer
    channel: ToServerChannel
    url: str

    async def next(self) -> ToServerMessage:
        async with asyncio.timeout(TIME_LIMIT):
            return await self.channel.receive()

    def client(
        self, method: Method = Method.CLI, hello: ToServer | None = None, pem: PemMaterial | None = None
    ) -> AbstractAsyncContextManager[ServerConnection]:
        settings = ConnectionSettings(self.url, pem, keepalive=Keepalive(5.0, 5.0))
        return connect(settings, method, hello or a_commander_hello())

    def agent(self, name: str, pem: PemMaterial | None = None) -> AbstractAsyncContextManager[ServerConnection]:
        return self.client(Method.AGENT, an_agent_hello(name), pem)


@asynccontextmanager
async def running_server(
    pem: PemMaterial | None = None,
    limits: Limits | None = None,
    capacity: int = 100,
    *,
    requires_roles: bool = False,
) -> AsyncIterator[Running]:
    channel: ToServerChannel = Channel(capacity)
    server = MiddlewareServer(channel, pem, limits or Limits(keepalive=LONG_KEEPALIVE), requires_roles=requires_roles)
    await server.start("127.0.0.1", 0)
    scheme = "https" if pem else "http"
    try:
        yield Running(server, channel, f"{scheme}://127.0.0.1:{server.port}")
    finally:
        await server.close()


@asynccontextmanager
async def answering(running: Running) -> AsyncIterator[list[ToServerMessage]]:
    """A minimal server behind the channel: it answers each request and records all other messages."""
    noted: list[ToServerMessage] = []

    async def answer() -> None:
        async for message in running.channel:
            match message:
                case FromClient(_, request):
                    running.server.dispatch(Respond(an_answer(request.requestId)))
                case FromAgent(_, content) if content.HasField("request"):
                    running.server.dispatch(Respond(an_answer(content.request.requestId)))
                case _:
                    noted.append(message)

    task = asyncio.create_task(answer(), name="answering")
    try:
        yield noted
    finally:
        task.cancel()
        await asyncio.wait([task])


def an_agent_hello(name: str = "agent_A", version: str = "1.0.1") -> ToServer:
    return ToServer(agentHello=AgentHello(agentName=name, protocolVersion=version))


def a_commander_hello(version: str = "1.0.1") -> ToServer:
    return ToServer(commanderHello=CommanderHello(protocolVersion=version))


def a_request(request_id: str = "id") -> ToServer:
    return ToServer(request=Request(requestId=request_id, completeStateRequest=CompleteStateRequest()))


def an_answer(request_id: str) -> Response:
    return Response(requestId=request_id, completeStateResponse=CompleteStateResponse())


def a_greeting() -> FromServer:
    return FromServer(serverHello=ServerHello())


async def received(connection: ServerConnection) -> FromServer:
    async with asyncio.timeout(TIME_LIMIT):
        return await connection.receive()


async def assert_served(connection: ServerConnection, request_id: str = "still there?") -> None:
    """Needs `answering`."""
    await connection.send(a_request(request_id))
    answer = await received(connection)
    assert answer.response.requestId == request_id
