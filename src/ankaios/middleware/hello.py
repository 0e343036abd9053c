"""The first message of a call: who is there, and may it come in?

Comes in: method, first message, certificates of the peer. Goes out: the name of the agent (or nothing, for a CLI or
commander), or `CallFailed` with the status of the refusal. Owns nothing.
"""

from ankaios.common.errors import Rejected
from ankaios.common.names import CONSTRAINT_TEXT, has_allowed_characters
from ankaios.common.pb.grpc_api_pb2 import ToServer
from ankaios.common.version import check_version_compatibility
from ankaios.middleware.grpc_call import CallFailed, Status
from ankaios.middleware.methods import CONNECTION_PREFIXES, Method
from ankaios.middleware.security import PeerCertificates, agent_name_fault, certificate_fault

# Ids beginning with these words belong to CLIs and commanders, so no agent may be called like that.
_RESERVED = tuple(prefix.rstrip("-") for prefix in CONNECTION_PREFIXES.values())


def check_peer(method: Method, peer: PeerCertificates | None) -> None:
    """Before anything is read; `peer` is None without TLS."""
    if method is Method.AGENT and peer is not None and (fault := certificate_fault(peer)):
        raise CallFailed(Status.UNAUTHENTICATED, fault)


def check_agent_hello(message: ToServer | None, peer: PeerCertificates | None) -> str:
    """The name of the agent that may come in."""
    _check_kind(message, "agentHello", "No AgentHello received.")
    assert message is not None
    _check_version(message.agentHello.protocolVersion)
    agent = message.agentHello.agentName
    if peer is not None and (fault := agent_name_fault(agent, peer)):
        raise CallFailed(Status.UNAUTHENTICATED, fault)
    # Names become parts of request ids, so one with '@' could take the answers of others.
    if not agent or not has_allowed_characters(agent) or agent.startswith(_RESERVED):
        raise CallFailed(Status.INVALID_ARGUMENT, f"Unsupported agent name '{agent}'. {CONSTRAINT_TEXT}")
    return agent


def check_commander_hello(message: ToServer | None) -> None:
    _check_kind(message, "commanderHello", "No CommanderHello received.")
    assert message is not None
    _check_version(message.commanderHello.protocolVersion)


def _check_kind(message: ToServer | None, wanted: str, text: str) -> None:
    kind = message.WhichOneof("ToServerEnum") if message is not None else None
    if kind is None:
        raise CallFailed(Status.INVALID_ARGUMENT, "Empty")
    if kind != wanted:
        raise CallFailed(Status.INVALID_ARGUMENT, text)


def _check_version(theirs: str) -> None:
    try:
        check_version_compatibility(theirs)
    except Rejected as error:
        raise CallFailed(Status.FAILED_PRECONDITION, str(error)) from error
