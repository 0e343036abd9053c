"""The first message of a call: who connects, and whether the certificate allows it.

Input: method, first message, certificates of the peer. Output: the name of the agent (nothing for a CLI or commander),
or `CallFailed` with the status of the rejection. Owns nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.common.certificate_roles import ROLES
from ankaios.common.errors import Rejected
from ankaios.common.messages import ClientIdentity
from ankaios.common.names import CONSTRAINT_TEXT, has_allowed_characters
from ankaios.common.version import check_version_compatibility
from ankaios.grpc.wire_format import CallFailed, Status
from ankaios.middleware.methods import CONNECTION_PREFIXES

if TYPE_CHECKING:
    from ankaios.common.pb.grpc_api_pb2 import ToServer
    from ankaios.grpc.tls import PeerCertificates

ANY_AGENT = "*"
_MAX_USER = 64
# Ids that start with these words belong to CLIs and commanders, so no agent may have such a name.
_RESERVED = tuple(prefix.rstrip("-") for prefix in CONNECTION_PREFIXES.values())


def check_agent_certificates(peer: PeerCertificates | None) -> None:
    """Check the certificates of an agent before its name is known; `peer` is None without TLS."""
    if peer is None:
        return
    if peer.number > 1:
        raise CallFailed(Status.UNAUTHENTICATED, "Ambiguous agent certificates provided!")
    if peer.names is None:
        raise CallFailed(Status.UNAUTHENTICATED, "No subject alt names found in agent certificates!")


def check_role(role: str, peer: PeerCertificates | None, *, is_required: bool) -> None:
    """Check that the certificate may be used for this role; `peer` is None without TLS."""
    if peer is None or role in peer.units:
        return
    if other := next((unit for unit in peer.units if unit in ROLES), None):
        raise CallFailed(Status.UNAUTHENTICATED, f"The certificate has the role '{other}', not '{role}'.")
    if is_required:
        text = f"The certificate has no role, '{role}' is required. 'ank certs create' creates certificates with roles."
        raise CallFailed(Status.UNAUTHENTICATED, text)


def check_agent_hello(message: ToServer | None, peer: PeerCertificates | None) -> str:
    """Return the name of the agent."""
    hello = _checked(message, "agentHello", "No AgentHello received.").agentHello
    _check_version(hello.protocolVersion)
    _check_agent_name(hello.agentName, peer)
    return hello.agentName


def check_commander_hello(message: ToServer | None) -> str:
    """Return the user, as the client states it; empty for clients of Eclipse Ankaios."""
    hello = _checked(message, "commanderHello", "No CommanderHello received.").commanderHello
    _check_version(hello.protocolVersion)
    return hello.user


def client_identity(user: str, peer: PeerCertificates | None) -> ClientIdentity:
    """The name of a certificate is its first DNS name, or its common name if it has none."""
    certificate = "" if peer is None else next(iter(peer.dns_names), peer.common_name)
    return ClientIdentity(_printable(user), _printable(certificate))


def _printable(text: str) -> str:
    return "".join(sign for sign in text[:_MAX_USER] if sign.isprintable()).strip()


def _checked(message: ToServer | None, kind: str, text: str) -> ToServer:
    found = message.WhichOneof("ToServerEnum") if message is not None else None
    if message is None or found is None:
        raise CallFailed(Status.INVALID_ARGUMENT, "Empty")
    if found != kind:
        raise CallFailed(Status.INVALID_ARGUMENT, text)
    return message


def _check_version(version: str) -> None:
    try:
        check_version_compatibility(version)
    except Rejected as error:
        raise CallFailed(Status.FAILED_PRECONDITION, str(error)) from error


def _check_agent_name(agent: str, peer: PeerCertificates | None) -> None:
    """A certificate whose names are all of other kinds than DNS is valid for every agent."""
    allowed = peer.dns_names if peer is not None else []
    if allowed and agent not in allowed and ANY_AGENT not in allowed:
        listed = ", ".join(f'"{name}"' for name in allowed)
        text = f"Agent name '{agent}' does not match SAN [{listed}] in agent certificates!"
        raise CallFailed(Status.UNAUTHENTICATED, text)
    # Names become parts of request ids, so an agent with '@' in its name could receive responses of others.
    if not agent or not has_allowed_characters(agent) or agent.startswith(_RESERVED):
        raise CallFailed(Status.INVALID_ARGUMENT, f"Unsupported agent name '{agent}'. {CONSTRAINT_TEXT}")
