"""Mutual TLS: contexts made of PEM material, and who may speak for which agent.

Comes in: PEM material, the certificates a peer has shown. Goes out: `ssl` contexts, or the reason of a refusal. Owns
nothing.
"""

import os
import ssl
from collections.abc import Callable

from msgspec import Struct

from ankaios.common.config import BadPemFile, PemMaterial

SERVER_NAME = "ank-server"
ANY_AGENT = "*"
_HANDSHAKE, _CERTIFICATE_VERIFY = 22, 15  # numbers of TLS


class PeerCertificates(Struct, frozen=True):
    """How many certificates a peer sent, and the subject alternative names of its own; None: no such extension."""

    count: int
    names: tuple[tuple[str, str], ...] | None

    @property
    def dns_names(self) -> list[str]:
        return [value for kind, value in self.names or () if kind == "DNS"]


def certificate_fault(peer: PeerCertificates) -> str | None:
    """What is wrong with the certificates of an agent before it has said its name."""
    if peer.count > 1:
        return "Ambiguous agent certificates provided!"
    if peer.names is None:
        return "No subject alt names found in agent certificates!"
    return None


def agent_name_fault(agent: str, peer: PeerCertificates) -> str | None:
    """Why this agent is not who it says; a certificate with names of other kinds only stands for every agent."""
    allowed = peer.dns_names
    if not allowed or agent in allowed or ANY_AGENT in allowed:
        return None
    listed = ", ".join(f'"{name}"' for name in allowed)
    return f"Agent name '{agent}' does not match SAN [{listed}] in agent certificates!"


def server_context(pem: PemMaterial) -> ssl.SSLContext:
    """Demands a client certificate signed by the certificate authority."""
    return _context(ssl.PROTOCOL_TLS_SERVER, pem)


def client_context(pem: PemMaterial) -> ssl.SSLContext:
    """Accepts only a server whose certificate has the DNS name `ank-server`, whatever host it runs on."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, pem)
    _show_own_certificate_only(context, pem)
    return context


def _show_own_certificate_only(context: ssl.SSLContext, pem: PemMaterial) -> None:
    """Keep OpenSSL from sending the CA certificate along, for a server wants to see exactly one.

    OpenSSL completes the chain from all it trusts, and Python cannot forbid it. So the session gets another context,
    which trusts nothing, once the certificate of the server has been checked and before our own is sent: when the
    next message, CertificateVerify, arrives.
    """
    alone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_chain(alone, pem)

    def watch(session: ssl.SSLObject, direction: str, _version: int, content: int, message: int, _data: bytes) -> None:
        if (direction, content, message) == ("read", _HANDSHAKE, _CERTIFICATE_VERIFY):
            session.context = alone

    context._msg_callback = watch  # type: ignore[attr-defined]


def _context(protocol: int, pem: PemMaterial) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    # Resumed sessions would hide how many certificates were shown; TLS 1.3 without tickets has none.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    context.verify_mode = ssl.CERT_REQUIRED
    context.hostname_checks_common_name = False
    # What stands in the CA file is trusted, root or not, as with Eclipse Ankaios.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["h2"])
    _load("ca_pem", pem.ca.origin, lambda: context.load_verify_locations(cadata=pem.ca.text))
    _load("crt_pem", pem.crt.origin, lambda: _check_certificates(pem.crt.text))
    _load("key_pem", pem.key.origin, lambda: _load_chain(context, pem))
    return context


def _check_certificates(text: str) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)


def _load_chain(context: ssl.SSLContext, pem: PemMaterial) -> None:
    """OpenSSL reads certificate and key only from files: they get one that exists in memory alone."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{pem.crt.text}\n{pem.key.text}\n")
        file.flush()
        # Without the function, a key with a password would be asked for at the terminal.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=lambda: b"")


def _load(item: str, origin: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ValueError) as error:
        raise BadPemFile(f"cannot use {item} '{origin}': {_explain(error)}") from error


def _explain(error: Exception) -> str:
    words = (getattr(error, "reason", None) or "").replace("_", " ").lower()
    if words == "key values mismatch":
        return "the private key does not belong to the certificate"
    return f"no valid PEM ({words or error})"
