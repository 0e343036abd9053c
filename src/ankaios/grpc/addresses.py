"""Where a gRPC server listens, and how requests name it."""

from __future__ import annotations

from typing import NamedTuple


class TcpAddress(NamedTuple):
    host: str
    port: int
    secure: bool = False
    """Whether TLS is used."""

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UnixAddress(NamedTuple):
    path: str

    @property
    def authority(self) -> str:
        """Many servers reject a socket path, so `localhost` is used, as a kubelet does."""
        return "localhost"
