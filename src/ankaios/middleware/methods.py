"""The three gRPC methods of an Ankaios server, and how connections to them are named."""

from enum import Enum


class Method(Enum):
    """Who is calling; the value is the path of the method. All three are streams of ToServer and of FromServer."""

    AGENT = "/grpc_api.AgentConnection/ConnectAgent"
    CLI = "/grpc_api.CliConnection/ConnectCli"
    COMMAND = "/grpc_api.CommandConnection/ConnectCommand"


CONNECTION_PREFIXES = {Method.CLI: "cli-conn-", Method.COMMAND: "commander-conn-"}
