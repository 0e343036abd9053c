"""Messages in the channels between middleware, server and agent.

Most of them are the generated protobuf classes. The classes of this module add facts that protobuf does not describe:
the end of a connection, and the receiver of a message.
"""

from msgspec import Struct

from ankaios.common.pb.ank_base_pb2 import Error, Request, Response, WorkloadState
from ankaios.common.pb.grpc_api_pb2 import FromServer, ToServer


class AgentGone(Struct, frozen=True):
    """The stream of this agent ended, with or without an error."""

    agent: str


class ClientGone(Struct, frozen=True):
    """The connection `cli-conn-…` or `commander-conn-…` ended, with or without a `Goodbye` message."""

    connection: str


class FromAgent(Struct, frozen=True):
    """A message of an agent; request ids in it already have the prefix `<agent>@`."""

    agent: str
    message: ToServer


class ClientIdentity(Struct, frozen=True):
    """Only the name in the certificate is verified. Programs of Eclipse Ankaios send no user."""

    user: str = ""
    certificate: str = ""

    def __str__(self) -> str:
        user = self.user or "unknown"
        return f"{user} (certificate '{self.certificate}')" if self.certificate else user


UNKNOWN_CLIENT = ClientIdentity()


class FromClient(Struct, frozen=True):
    """A request of a CLI or commander; its id already has the prefix `<connection>@`."""

    connection: str
    request: Request
    sender: ClientIdentity = UNKNOWN_CLIENT


ToServerMessage = FromAgent | FromClient | AgentGone | ClientGone


class Respond(Struct, frozen=True):
    """A response to the client or agent in the prefix of the request id; routing removes the prefix."""

    response: Response


class ToAgent(Struct, frozen=True):
    """A message to an agent; dropped if the agent is not connected."""

    agent: str
    message: FromServer


class StatesForAgents(Struct, frozen=True):
    """States that some agents receive; the message is encoded once for all of them."""

    states: tuple[WorkloadState, ...]
    agents: tuple[str, ...]


class BroadcastStates(Struct, frozen=True):
    """Sends each agent the states of the other agents and each `ConnectCli` client all states, but no empty lists.

    Agents that requested only some states receive those of `selected` instead.
    """

    states: tuple[WorkloadState, ...]
    selected: tuple[StatesForAgents, ...] = ()


class BroadcastLogsCancel(Struct, frozen=True):
    """Sent to all agents and all `ConnectCli` clients with the full request id."""

    request_id: str


FromServerMessage = Respond | ToAgent | BroadcastStates | BroadcastLogsCancel

REQUEST_ID_SEPARATOR = "@"


def error_response(request_id: str, message: str) -> Response:
    return Response(requestId=request_id, error=Error(message=message))
