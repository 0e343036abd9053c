"""The three gRPC methods of an Ankaios server, and how connections to them are named."""

from __future__ import annotations


class Method:
    """Who is calling; the value is the path of the method. All three are streams of ToServer and of FromServer.

    No `Enum`, because every `ank` loads this file.
    """

    AGENT: Method
    CLI: Method
    COMMAND: Method

    def __init__(self, value: str) -> None:
        self.value = value


Method.AGENT = Method("/grpc_api.AgentConnection/ConnectAgent")
Method.CLI = Method("/grpc_api.CliConnection/ConnectCli")
Method.COMMAND = Method("/grpc_api.CommandConnection/ConnectCommand")

METHODS = {method.value: method for method in (Method.AGENT, Method.CLI, Method.COMMAND)}
CONNECTION_PREFIXES = {Method.CLI: "cli-conn-", Method.COMMAND: "commander-conn-"}
