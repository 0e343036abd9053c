"""The three gRPC methods of an Ankaios server, and what this project adds to their messages.

Input: messages, response headers. Output: whether a message may be sent to the sender of the headers. Owns nothing.

A server of Eclipse Ankaios regards an unknown message as one without content: it ends the stream and the agent counts
as disconnected. Therefore our server announces in its response headers that it accepts the additional messages.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ankaios.common.pb.grpc_api_pb2 import ToServer

if TYPE_CHECKING:
    from collections.abc import Mapping


class Method(Enum):
    """The caller's role; the value is the path of the method. All three are streams of ToServer and of FromServer."""

    AGENT = "/grpc_api.AgentConnection/ConnectAgent"
    CLI = "/grpc_api.CliConnection/ConnectCli"
    COMMAND = "/grpc_api.CommandConnection/ConnectCommand"


CONNECTION_PREFIXES = {Method.CLI: "cli-conn-", Method.COMMAND: "commander-conn-"}

_ADDITIONS = "ankaios-additions"
ADDITIONS_HEADER = (_ADDITIONS, "devices")
_FIRST_ADDED_FIELD = 1000


def accepts_additions(response_headers: Mapping[str, str]) -> bool:
    return _ADDITIONS in response_headers


def is_addition(message: ToServer) -> bool:
    kind = message.WhichOneof("ToServerEnum")
    return kind is not None and ToServer.DESCRIPTOR.fields_by_name[kind].number >= _FIRST_ADDED_FIELD
