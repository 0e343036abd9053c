"""TLS as a layer of bytes: ciphertext in, plaintext out, and the other way round.

Comes in: what the socket received, what shall be sent. Goes out: plaintext, ciphertext for the socket, or `TlsFailed`
with the reason. Owns one TLS session. Nothing here waits: the link that owns the socket drives it.

asyncio's own TLS transport drops the alert that tells a refused peer what is wrong with its certificate, and a silent
peer can hold it open for half a minute. Both matter here, so the session is driven by hand.
"""

import ssl
from contextlib import suppress

from ankaios.middleware.security import PeerCertificates

_CHUNK = 256 * 1024


class TlsFailed(Exception):
    """The session cannot go on; `from_peer` tells that the other side refused, by an alert."""

    def __init__(self, reason: str, *, from_peer: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.from_peer = from_peer


class TlsLayer:
    """One TLS session over memory."""

    def __init__(self, context: ssl.SSLContext, *, server_name: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self.established = False

    def receive(self, ciphertext: bytes) -> bytes:
        """Feed what the socket received (nothing to begin with) and get the plaintext that has become readable."""
        self._incoming.write(ciphertext)
        try:
            if not self.established:
                self._session.do_handshake()
                self.established = True
            return self._read_all()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            raise _failure(error) from error

    def send(self, plaintext: bytes) -> None:
        self._session.write(plaintext)

    def take_outgoing(self) -> bytes:
        """Ciphertext for the socket; must be asked for after every other call."""
        return self._outgoing.read()

    def close(self) -> None:
        """Say goodbye to the peer (close_notify); its answer is not waited for."""
        with suppress(ssl.SSLError):  # it wants the peer's answer, or the session is broken anyway
            self._session.unwrap()

    def peer_certificates(self) -> PeerCertificates:
        # The number of certificates sent has a public name only since Python 3.13.
        chain = self._session._sslobj.get_unverified_chain() or ()  # type: ignore[attr-defined]
        names = (self._session.getpeercert() or {}).get("subjectAltName")
        return PeerCertificates(len(chain), None if names is None else tuple(names))  # type: ignore[arg-type]

    def _read_all(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._session.read(_CHUNK):
                parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return b"".join(parts)


def _failure(error: ssl.SSLError) -> TlsFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(error.verify_message.rstrip("."), from_peer=False)
    words = (error.reason or str(error)).lower()
    _, is_alert, alert = words.partition("alert_")
    return TlsFailed((alert or words).replace("_", " "), from_peer=bool(is_alert))
