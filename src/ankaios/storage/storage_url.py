"""Reads the value of `--storage`.

Input: a URL. Output: which store it names, None for memory, or `Rejected` with the reason and the expected form.

| URL | store |
|---|---|
| `memory:` | none: the state is in the memory of the process |
| `sqlite:/var/lib/ankaios/state.db` | a database on this machine |
| `etcd://host1:2379,host2:2379/prefix` | an etcd cluster |
| `etcds://host1:2379,host2:2379/prefix` | the same with TLS |
"""

from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from ankaios.common.errors import Rejected
from ankaios.grpc.addresses import TcpAddress

DEFAULT_PREFIX = "/ankaios"
_DEFAULT_PORT = 2379
_FORMS = "expected memory:, sqlite:/absolute/path, etcd://host:port,.../prefix or etcds://host:port,.../prefix"


class SqliteLocation(Struct, frozen=True):
    path: Path

    def __str__(self) -> str:
        return f"sqlite:{self.path}"


class EtcdLocation(Struct, frozen=True):
    """`prefix` begins with a slash and does not end with one."""

    endpoints: tuple[TcpAddress, ...]
    prefix: str

    @property
    def uses_tls(self) -> bool:
        return self.endpoints[0].secure

    def __str__(self) -> str:
        hosts = ",".join(endpoint.authority for endpoint in self.endpoints)
        return f"etcd{'s' if self.uses_tls else ''}://{hosts}{self.prefix}"


StorageLocation = SqliteLocation | EtcdLocation


def parse_storage_url(text: str) -> StorageLocation | None:
    scheme, _, rest = text.partition(":")
    if scheme == "memory" and not rest:
        return None
    if scheme == "sqlite":
        return _sqlite_location(text, rest)
    if scheme in ("etcd", "etcds") and rest.startswith("//"):
        return _etcd_location(text, rest[2:], uses_tls=scheme == "etcds")
    raise _rejected(text, _FORMS)


def _rejected(text: str, reason: str) -> Rejected:
    return Rejected(f"invalid storage URL '{text}': {reason}")


def _sqlite_location(text: str, rest: str) -> SqliteLocation:
    path = rest.removeprefix("//") if rest.startswith("///") else rest
    if not path.startswith("/") or path.startswith("//") or path.endswith("/") or "\0" in path:
        raise _rejected(text, "expected the absolute path of a file, as in sqlite:/var/lib/ankaios/state.db")
    return SqliteLocation(Path(path))


def _etcd_location(text: str, rest: str, *, uses_tls: bool) -> EtcdLocation:
    hosts, _, path = rest.partition("/")
    if "@" in hosts:
        # The text is not repeated: it contains a password, and messages are logged.
        raise Rejected("invalid storage URL: user and password belong into a file or into the environment")
    if "?" in rest or "#" in rest:
        raise _rejected(text, f"etcd has no options here; {_FORMS}")
    endpoints = tuple(_endpoint(text, host, uses_tls) for host in hosts.split(","))
    prefix = "/" + path.strip("/") if path.strip("/") else DEFAULT_PREFIX
    return EtcdLocation(endpoints, prefix)


def _endpoint(text: str, host: str, uses_tls: bool) -> TcpAddress:
    try:
        parts = urlsplit(f"//{host}")
        port = _DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise _rejected(text, f"'{host}' is no host with an optional port: {error}") from error
    if not parts.hostname or port == 0 or host.endswith(":") or any(not sign.isprintable() for sign in host):
        raise _rejected(text, f"'{host}' is no host with an optional port")
    return TcpAddress(parts.hostname, port, uses_tls)
