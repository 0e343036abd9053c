"""Mutual TLS without I/O: contexts made from PEM material, and one session that turns ciphertext into plaintext.

Input: PEM material, received and sent bytes. Output: `ssl` contexts, plaintext, ciphertext, the certificates of the
peer, or the reason of a failure. Owns one TLS session. Nothing here waits: the connection that owns the socket does.

The TLS transport of asyncio drops the alert that states why a peer's certificate was rejected, and a silent peer can
keep it open for half a minute. Both matter here, so the session runs on memory buffers.
"""

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from ankaios.common.config import BadPemFile, PemMaterial

_CHUNK = 256 * 1024
_HANDSHAKE, _CERTIFICATE_VERIFY = 22, 15  # message numbers of TLS


class TlsFailure(NamedTuple):
    """Why a session cannot continue; `from_peer` if the peer rejected it with an alert."""

    reason: str
    from_peer: bool


class PeerCertificates(NamedTuple):
    """How many certificates a peer sent, and the names in its own.

    `names` are the subject alternative names, None without this extension; `units` the organisational units.
    `common_name` is empty if there is none.
    """

    number: int
    names: tuple[tuple[str, str], ...] | None
    units: tuple[str, ...] = ()
    common_name: str = ""

    @property
    def dns_names(self) -> list[str]:
        return [value for kind, value in self.names or () if kind == "DNS"]


class TlsSession:
    """One session; a client's end if the name of the server is given."""

    def __init__(self, context: ssl.SSLContext, *, server_name: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self.established = False
        self.failure: TlsFailure | None = None

    def receive(self, ciphertext: bytes) -> bytes:
        """Process received bytes (none to start with) and return the plaintext that has become readable."""
        self._incoming.write(ciphertext)
        try:
            if not self.established:
                self._session.do_handshake()
                self.established = True
            return self._read_all()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            self.failure = _failure(error)
            return b""

    def encrypt(self, plaintext: bytes) -> bytes:
        """Return ciphertext for the socket."""
        self._session.write(plaintext)
        return self.take_outgoing()

    def take_outgoing(self) -> bytes:
        """Return ciphertext for the socket; call after `receive` and `close`."""
        return self._outgoing.read()

    def close(self) -> None:
        """Send close_notify; the response of the peer is not awaited."""
        with suppress(ssl.SSLError):
            self._session.unwrap()

    def peer_certificates(self) -> PeerCertificates:
        # The number of certificates has a public method only since Python 3.13.
        chain = self._session._sslobj.get_unverified_chain() or ()  # type: ignore[attr-defined]
        certificate: dict[str, Any] = self._session.getpeercert() or {}
        names = certificate.get("subjectAltName")
        fields = [field for part in certificate.get("subject", ()) for field in part]
        units = tuple(value for kind, value in fields if kind == "organizationalUnitName")
        common_name = next((value for kind, value in fields if kind == "commonName"), "")
        return PeerCertificates(len(chain), None if names is None else tuple(names), units, common_name)

    def _read_all(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._session.read(_CHUNK):
                parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return b"".join(parts)


def _failure(error: ssl.SSLError) -> TlsFailure:
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailure(error.verify_message.rstrip("."), from_peer=False)
    words = (error.reason or str(error)).lower()
    _, is_alert, alert = words.partition("alert_")
    return TlsFailure((alert or words).replace("_", " "), from_peer=bool(is_alert))


# Contexts


def server_context(pem: PemMaterial) -> ssl.SSLContext:
    """Require a client certificate that is signed by the certificate authority, and not revoked by it."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, pem)
    if (crl := pem.crl) is not None:
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        _load("crl_pem", crl.origin, lambda: _load_revocation_list(context, crl.text))
    return context


def client_context(pem: PemMaterial) -> ssl.SSLContext:
    """Require a server certificate with the name that `TlsSession` is made for."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, pem)
    _send_own_certificate_only(context, pem)
    return context


def _send_own_certificate_only(context: ssl.SSLContext, pem: PemMaterial) -> None:
    """Prevent OpenSSL from sending the CA certificate too, because a server expects exactly one certificate.

    OpenSSL completes the chain from all certificates it trusts, and Python has no option against it. So the session
    gets another context, which trusts nothing, after the certificate of the server was checked and before our own is
    sent: when the next message, CertificateVerify, arrives.
    """
    without_trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_chain(without_trust, pem)

    def observe(session: ssl.SSLObject, direction: str, _version: int, kind: int, message: int, _data: bytes) -> None:
        if (direction, kind, message) == ("read", _HANDSHAKE, _CERTIFICATE_VERIFY):
            session.context = without_trust

    context._msg_callback = observe  # type: ignore[attr-defined]


def _context(protocol: int, pem: PemMaterial) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    # A resumed session would hide how many certificates were sent; TLS 1.3 without tickets cannot be resumed.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    context.verify_mode = ssl.CERT_REQUIRED
    context.hostname_checks_common_name = False
    # Every certificate in the CA file is trusted, root or not, as in Eclipse Ankaios.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["h2"])
    _load("ca_pem", pem.ca.origin, lambda: context.load_verify_locations(cadata=pem.ca.text))
    _load("crt_pem", pem.crt.origin, lambda: _check_certificates(pem.crt.text))
    _load("key_pem", pem.key.origin, lambda: _load_chain(context, pem))
    return context


def _check_certificates(text: str) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)


def _load_revocation_list(context: ssl.SSLContext, text: str) -> None:
    if "-----BEGIN X509 CRL-----" not in text:
        raise ValueError("it contains no revocation list")
    with _file_in_memory(text) as path:
        context.load_verify_locations(cafile=path)


def _load_chain(context: ssl.SSLContext, pem: PemMaterial) -> None:
    with _file_in_memory(f"{pem.crt.text}\n{pem.key.text}\n") as path:
        # Without the function, OpenSSL would ask for the password of an encrypted key at the terminal.
        context.load_cert_chain(path, password=lambda: b"")


@contextmanager
def _file_in_memory(text: str) -> Iterator[str]:
    """OpenSSL reads some items only from files, so they get a file that exists in memory only."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"


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
