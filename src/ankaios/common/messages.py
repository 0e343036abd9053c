"""What travels through the channels between middleware, server and agent.

Messages are the generated protobuf classes themselves: they are plain data, exist once, and are what the wire says. The
few dataclasses here are what has no wire form: the end of a connection, and to whom something is to be sent.

[impl->swdd~common-object-representation~1]
"""

from msgspec import Struct

from ankaios.common.pb.ank_base_pb2 import Error, Request, Response, WorkloadState
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer


class AgentGone(Struct, frozen=True):
    """The stream of this agent ended, in whatever way."""

    agent: str


class ClientGone(Struct, frozen=True):
    """The connection `cli-conn-…` or `commander-conn-…` ended, politely or not."""

    connection: str


class FromAgent(Struct, frozen=True):
    """Anything an agent sends; request ids inside already carry `<agent>@`."""

    agent: str
    message: ToServer


class FromClient(Struct, frozen=True):
    """A request of a CLI or commander; its id already carries `<connection>@`."""

    connection: str
    request: Request


ToServerMessage = FromAgent | FromClient | AgentGone | ClientGone


class Respond(Struct, frozen=True):
    """Goes to whom the request id names; that part of the id is removed on the way."""

    response: Response


class ToAgent(Struct, frozen=True):
    """Dropped if the agent is not connected."""

    agent: str
    message: FromServer


class BroadcastStates(Struct, frozen=True):
    """To each agent the states of the others, to each `ConnectCli` client all; empty lists are not sent."""

    states: tuple[WorkloadState, ...]


class BroadcastLogsCancel(Struct, frozen=True):
    """To all agents and all `ConnectCli` clients, with the full request id."""

    request_id: str


FromServerMessage = Respond | ToAgent | BroadcastStates | BroadcastLogsCancel

REQUEST_ID_SEPARATOR = "@"


def error_response(request_id: str, message: str) -> Response:
    return Response(requestId=request_id, error=Error(message=message))
