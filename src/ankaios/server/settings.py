"""The settings of the server: flags over environment over config file over defaults.

[impl->swdd~server-loads-config-file~1]
[impl->swdd~server-supports-pem-file-paths-as-cli-arguments~1]
[impl->swdd~server-supports-cli-argument-for-insecure-communication~1]
"""

import argparse
from collections.abc import Sequence
from enum import Enum
from ipaddress import ip_address
from pathlib import Path

from msgspec import Struct

from ankaios import __version__
from ankaios.common.config import (
    CONFIG_CONTEXT,
    BadEnvironment,
    ConfigTable,
    GivenPem,
    choose,
    load_config_file,
    load_pem_material,
)
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.flag_parser import flag_parser
from ankaios.common.observation_settings import LOG_FORMATS, add_observation_flags, log_format_setting, metrics_setting
from ankaios.server.early_listening import DEFAULT_ADDRESS
from ankaios.server.early_listening import DEFAULT_CONFIG_FILE as DEFAULT_CONFIG_PATH
from ankaios.server.mutating_hooks import MutatingHook, read_hooks
from ankaios.storage.core.lease_rules import DEFAULT_SECONDS
from ankaios.storage.storage_url import StorageLocation, parse_storage_url

DEFAULT_CONFIG_FILE = Path(DEFAULT_CONFIG_PATH)
STORAGE_CONTEXT = "Could not use the storage"
DEFAULT_MAX_MESSAGE_SIZE = 64 * 1024 * 1024
_PEM_ITEMS = {
    "ca": "certificate of the authority",
    "crt": "own certificate",
    "key": "own private key",
    "crl": "revocation list of the authority",
}
_BAD_ADDRESS = f"invalid socket address syntax, expected IP:PORT as {DEFAULT_ADDRESS}"


class Address(Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse an IP address with a port; names are not resolved."""
        host, _, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        try:
            is_v6 = ip_address(bare).version == 6
        except ValueError:
            raise Rejected(_BAD_ADDRESS) from None
        if is_v6 == (bare == host) or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
            raise Rejected(_BAD_ADDRESS)
        return cls(bare, int(port))


class StorageSettings(Struct, frozen=True):
    """Where the state is stored, None for memory. `pem`, `credentials` and `lease`, in seconds, are for etcd."""

    location: StorageLocation | None = None
    pem: GivenPem = GivenPem()
    credentials: Path | None = None
    lease: int = DEFAULT_SECONDS


class StartupPolicy(Enum):
    """When the startup manifest is applied: to an empty store, or at each start."""

    SEED = "seed"
    ALWAYS = "always"


class ServerSettings(Struct, frozen=True):
    """Checked values; the files that they name are not read yet."""

    startup_manifest: Path | None
    address: Address
    insecure: bool
    pem: GivenPem
    hooks: tuple[MutatingHook, ...]
    max_message_size: int
    storage: StorageSettings = StorageSettings()
    startup_policy: StartupPolicy = StartupPolicy.SEED
    accept_loss: bool = False
    name: str = ""
    url: str = ""
    metrics: str | None = None
    log_format: str = "text"
    requires_roles: bool = False


def read_server_settings(arguments: Sequence[str] | None = None) -> ServerSettings:
    """Usage errors end the process with code 2, as does an invalid environment variable."""
    parser = _parser()
    flags = parser.parse_args(arguments)
    file = load_config_file(flags.server_config, [DEFAULT_CONFIG_FILE])
    try:
        manifest = choose(flags.startup_manifest, None, file, "startup_manifest", None)
        return ServerSettings(
            startup_manifest=None if manifest is None else Path(manifest),
            address=flags.address or _address_of(file),
            insecure=choose(flags.insecure, "ANKSERVER_INSECURE", file, "insecure", False),
            pem=load_pem_material(vars(flags), "ANKSERVER", file, items=tuple(_PEM_ITEMS)),
            requires_roles=choose(flags.require_roles, "ANKSERVER_REQUIRE_ROLES", file, "require_roles", False),
            hooks=read_hooks(file.get("mutating_hooks", [])),
            max_message_size=choose(flags.max_message_size, None, file, "max_message_size", DEFAULT_MAX_MESSAGE_SIZE),
            storage=_read_storage(flags, file),
            startup_policy=_read_policy(flags.startup_manifest_policy, file),
            accept_loss=flags.accept_loss,
            name=choose(flags.server_name, "ANKSERVER_SERVER_NAME", file, "server_name", ""),
            url=choose(flags.advertise_url, "ANKSERVER_ADVERTISE_URL", file, "advertise_url", ""),
            metrics=metrics_setting(choose(flags.metrics, "ANKSERVER_METRICS", file, "metrics", "")),
            log_format=log_format_setting(
                choose(flags.log_format, "ANKSERVER_LOG_FORMAT", file, "log_format", LOG_FORMATS[0])
            ),
        )
    except BadEnvironment as fault:
        parser.error(str(fault))


def _read_storage(flags: argparse.Namespace, file: ConfigTable) -> StorageSettings:
    url = choose(flags.storage, "ANKSERVER_STORAGE", file, "storage", "memory:")
    credentials = choose(flags.storage_credentials, "ANKSERVER_STORAGE_CREDENTIALS", file, "storage_credentials", None)
    try:
        location = parse_storage_url(url)
    except Rejected as fault:
        raise StartupFailed(STORAGE_CONTEXT, str(fault)) from fault
    pem = load_pem_material(vars(flags), "ANKSERVER", file, key_prefix="storage_")
    lease = choose(flags.storage_lease, "ANKSERVER_STORAGE_LEASE", file, "storage_lease", DEFAULT_SECONDS)
    if lease < DEFAULT_SECONDS:
        raise StartupFailed(STORAGE_CONTEXT, f"'storage_lease' is {lease}, expected {DEFAULT_SECONDS} or more seconds")
    return StorageSettings(location, pem, None if credentials is None else Path(credentials), lease)


def _read_policy(flag: StartupPolicy | None, file: ConfigTable) -> StartupPolicy:
    if flag is not None:
        return flag
    text = choose(None, "ANKSERVER_STARTUP_MANIFEST_POLICY", file, "startup_manifest_policy", StartupPolicy.SEED.value)
    try:
        return StartupPolicy(text)
    except ValueError:
        known = ", ".join(f"'{policy.value}'" for policy in StartupPolicy)
        raise StartupFailed(CONFIG_CONTEXT, f"'startup_manifest_policy' is '{text}', expected one of {known}") from None


def _policy(text: str) -> StartupPolicy:
    try:
        return StartupPolicy(text)
    except ValueError:
        known = ", ".join(policy.value for policy in StartupPolicy)
        raise argparse.ArgumentTypeError(f"invalid value '{text}': expected one of {known}") from None


def _address_of(file: ConfigTable) -> Address:
    text = choose(None, None, file, "address", DEFAULT_ADDRESS)
    try:
        return Address.parse(text)
    except Rejected as fault:
        raise StartupFailed(CONFIG_CONTEXT, f"'address' is '{text}': {fault}") from fault


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except Rejected as fault:
        raise argparse.ArgumentTypeError(f"invalid value '{text}': {fault}") from fault


def _size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1024:
        raise argparse.ArgumentTypeError(f"invalid value '{text}': expected a number of bytes, 1024 or more")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    description = (
        "The Ankaios server: stores the desired state and sends agents their workloads. "
        "'ank-server backup FILE' copies the stored state, also while the server runs."
    )
    return flag_parser("ank-server", description, _add_flags)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-m", "--startup-manifest", metavar="PATH", help="YAML manifest with the state to begin with")
    add("-c", "--startup-config", dest="startup_manifest", help=argparse.SUPPRESS)
    add("-x", "--server-config", metavar="PATH", type=Path, help=f"config file [default: {DEFAULT_CONFIG_FILE}]")
    add("-a", "--address", metavar="IP:PORT", type=_address, help=f"listen here [default: {DEFAULT_ADDRESS}]")
    add("-k", "--insecure", action="store_true", help="no TLS; do not use it in production [env: ANKSERVER_INSECURE]")
    for item, what in _PEM_ITEMS.items():
        name = f"{item}_pem"
        add(f"--{name}", metavar="PATH", help=f"PEM file with the {what} [env: ANKSERVER_{name.upper()}]")
    roles_help = "reject certificates without a role, such as those of Eclipse Ankaios [env: ANKSERVER_REQUIRE_ROLES]"
    add("--require-roles", action="store_true", help=roles_help)
    add(
        "--storage",
        metavar="URL",
        help="where the state is stored: memory:, sqlite:/PATH, etcd://HOST:PORT,.../PREFIX or etcds://... "
        "[default: memory:] [env: ANKSERVER_STORAGE]",
    )
    add(
        "--startup-manifest-policy",
        metavar="POLICY",
        type=_policy,
        help="seed: the startup manifest is used for an empty store; always: it is applied as an update at each start "
        "[default: seed] [env: ANKSERVER_STARTUP_MANIFEST_POLICY]",
    )
    add(
        "--accept-loss",
        action="store_true",
        help="a part of the stored state is lost: delete the workloads that are not in it",
    )
    add(
        "--storage-credentials",
        metavar="PATH",
        help="TOML file with user and password for etcd, mode 0600 [env: ANKSERVER_STORAGE_CREDENTIALS]",
    )
    for item, what in (("ca", "certificate of the authority"), ("crt", "certificate"), ("key", "private key")):
        name = f"{item}_pem"
        add(
            f"--storage-{name}",
            metavar="PATH",
            help=f"PEM file with the {what} for etcds:// [default: --{name}] [env: ANKSERVER_STORAGE_{name.upper()}]",
        )
    add(
        "--storage-lease",
        metavar="SECONDS",
        type=int,
        help="time after which another server leads if this one does not respond; longer for slow machines "
        "[default: 2] [env: ANKSERVER_STORAGE_LEASE]",
    )
    add(
        "--server-name",
        metavar="NAME",
        help="name among several servers [default: machine name and port] [env: ANKSERVER_SERVER_NAME]",
    )
    add(
        "--advertise-url",
        metavar="URL",
        help="where agents and commands reach this server, if several share the state "
        "[default: the address] [env: ANKSERVER_ADVERTISE_URL]",
    )
    add("--max-message-size", metavar="BYTES", type=_size, help="refuse larger messages [default: 64 MiB]")
    add_observation_flags(parser, "ANKSERVER")
    add("-V", "--version", action="version", version=f"ank-server {__version__}")
