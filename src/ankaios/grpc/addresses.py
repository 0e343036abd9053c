"""Where a gRPC server listens, and how requests name it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TcpAddress:
    host: str
    port: int
    secure: bool = False
    """Whether TLS is used."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else str(self)


@dataclass(frozen=True)
class UnixAddress:
    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def authority(self) -> str:
        """Many servers reject a socket path, so `localhost` is used, as a kubelet does."""
        return "localhost"
