"""Start configuration of server, agent and CLI: flag over environment over file over default.

Input: values of the command line, environment variables, a TOML file (`version = 'v1'`), PEM files. Output: plain
values and the PEM material for mutual TLS, or `StartupFailed` with the fault and its place. Owns nothing.

Typical use:

    file = load_config_file(flags.server_config, [Path("/etc/ankaios/ank-server.conf")])
    address = choose(flags.address, None, file, "address", "127.0.0.1:25551")
    insecure = choose(flags.insecure, "ANKSERVER_INSECURE", file, "insecure", False)
    pem = require_security(load_pem_material(vars(flags), "ANKSERVER", file), insecure)
"""

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ankaios.common.errors import Rejected, StartupFailed

T = TypeVar("T")
ConfigTable = Mapping[str, Any]
AnyPath = str | os.PathLike[str]

CONFIG_VERSION = "v1"
PEM_WINS_WARNING = "The insecure option is set together with mTLS certificates: it is ignored and mTLS is used."
INSECURE_WARNING = (
    "Insecure mode: no encryption, and everybody on the network can command it. Do not use it in production!"
)
CONFIG_CONTEXT = "Config file could not be parsed"
CERTIFICATE_CONTEXT = "Failed to load certificate files!"
MISSING_PEM_CONTEXT = "Missing certificate files"
_MAX_PEM_BYTES = 1024 * 1024
_KINDS = {str: "a string", bool: "true or false", int: "a whole number", dict: "a table", list: "a list"}


class BadEnvironment(Rejected):
    """An environment variable has a value that its flag could not have: a usage error (exit code 2)."""


class BadPemFile(StartupFailed):
    """A PEM file given by flag or environment cannot be used; the CLI prints `Certificate error: '<reason>'`."""

    def __init__(self, reason: str) -> None:
        super().__init__(CERTIFICATE_CONTEXT, reason)


class Pem(NamedTuple):
    """The text of one PEM item and its origin. The text is not part of the printed form."""

    text: str
    origin: str
    is_file: bool = False
    """The origin is the path of a file, which can be read again."""

    def __repr__(self) -> str:
        return f"Pem({self.origin!r})"


class GivenPem(NamedTuple):
    """The given PEM items; `require_security` decides whether they are sufficient."""

    ca: Pem | None = None
    crt: Pem | None = None
    key: Pem | None = None
    crl: Pem | None = None


class PemMaterial(NamedTuple):
    """Certificate authority, own certificate and own private key for mutual TLS, and an optional revocation list."""

    ca: Pem
    crt: Pem
    key: Pem
    crl: Pem | None = None


def load_config_file(given: AnyPath | None, defaults: Sequence[AnyPath], *, default_table: bool = False) -> ConfigTable:
    """Read the given file, else the first existing default, else nothing.

    `default_table` merges the table `[default]` into the top level, as the CLI does.

    [impl->swdd~server-loads-config-file~1]
    """
    path = given or next(filter(os.path.exists, defaults), None)
    if path is None:
        return {}
    table = _read_toml(path)
    if default_table:
        table = _with_default_table(table)
    version = table.get("version")
    if version != CONFIG_VERSION:
        found = f"found '{version}'" if version is not None else "it is missing"
        raise StartupFailed(CONFIG_CONTEXT, f"{path}: 'version' must be '{CONFIG_VERSION}', {found}")
    return table


def _read_toml(path: AnyPath) -> ConfigTable:
    import tomllib  # loaded late: most users of `ank` have no configuration file

    try:
        with open(path, encoding="utf-8") as opened:  # noqa: PTH123
            text = opened.read()
    except OSError as error:
        raise StartupFailed(CONFIG_CONTEXT, f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StartupFailed(CONFIG_CONTEXT, f"{path}: not UTF-8 text at byte {error.start}") from error
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise StartupFailed(CONFIG_CONTEXT, f"{path}: {error}") from error


def _with_default_table(file: ConfigTable) -> ConfigTable:
    """Merge the table. If a key is in both places, the table applies only to keys that sort before `default`."""
    table = file.get("default", {})
    if not isinstance(table, dict):
        raise StartupFailed(CONFIG_CONTEXT, "'default' must be a table")
    merged = {key: value for key, value in file.items() if key != "default"}
    for key, value in table.items():
        if key not in merged or key < "default":
            merged[key] = value
    return merged


def choose(
    flag: T | None,
    env: str | None,
    file: ConfigTable,
    key: str,
    default: T,
    *,
    environ: Mapping[str, str] | None = None,
) -> T:
    """Return the flag, else the environment variable `env`, else `key` of the file, else the default.

    A flag that is None or False was not given: switches can only be turned on. An empty variable counts as unset. The
    value in the file must have the type of the default (a string, if that is None).
    """
    if flag is not None and flag is not False:
        return flag
    kind = str if default is None else type(default)
    if env is not None and (text := (os.environ if environ is None else environ).get(env)):
        return _from_environment(env, text, kind)  # type: ignore[no-any-return]
    if key in file:
        return _of_kind(file[key], kind, key)  # type: ignore[no-any-return]
    return default


def _from_environment(env: str, text: str, kind: type) -> Any:
    if kind is bool:
        return strict_bool(env, text)
    if kind is int:
        try:
            return int(text)
        except ValueError as error:
            raise BadEnvironment(f"invalid value '{text}' for {env}: expected a whole number") from error
    return text


def strict_bool(env: str, text: str) -> bool:
    """Accept only the words `true` and `false`: a mistyped switch must not silently mean "off"."""
    if text not in ("true", "false"):
        raise BadEnvironment(f"invalid value '{text}' for {env}: expected 'true' or 'false'")
    return text == "true"


def _of_kind(value: Any, kind: type, key: str) -> Any:
    # bool is an int for Python, not for TOML
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise StartupFailed(CONFIG_CONTEXT, f"'{key}' must be {_KINDS.get(kind, kind.__name__)}, found '{value}'")
    return value


def load_pem_material(
    flags: Mapping[str, Any],
    env_prefix: str,
    file: ConfigTable,
    *,
    environ: Mapping[str, str] | None = None,
    items: Sequence[str] = ("ca", "crt", "key"),
    key_prefix: str = "",
) -> GivenPem:
    """Collect `ca_pem`, `crt_pem` and `key_pem` from flags, `<env_prefix>_CA_PEM` … and the file.

    `key_prefix` is a prefix of flags and keys, for certificates that are not those of the server connection.

    Paths in the file are opened and checked even if a flag or variable replaces them, so that an invalid file is
    reported before the flag is removed.

    [impl->swdd~server-supports-pem-file-paths-as-cli-arguments~1]
    """
    variables = os.environ if environ is None else environ
    found: dict[str, Pem | None] = {}
    for item in items:
        name = f"{key_prefix}{item}_pem"
        from_file = _pem_from_config(file, name)
        path = flags.get(name) or variables.get(f"{env_prefix}_{name.upper()}")
        found[item] = _pem_from_path(name, path) if path else from_file
    return GivenPem(**found)


def _pem_from_path(name: str, path: AnyPath) -> Pem:
    try:
        return _read_pem(name, path)
    except Rejected as error:
        raise BadPemFile(str(error)) from error


def read_pem_again(material: PemMaterial) -> PemMaterial:
    """Return the material with the present content of its files. Raises `BadPemFile`."""
    return PemMaterial(
        **{
            item: _pem_from_path(f"{item}_pem", pem.origin) if pem is not None and pem.is_file else pem
            for item, pem in material._asdict().items()
        }
    )


def pem_file_stamps(material: PemMaterial) -> tuple[tuple[int, int, int] | None, ...]:
    """Return a value for each file that changes when the file is replaced or written."""
    return tuple(_file_stamp(pem.origin) for pem in material if pem is not None and pem.is_file)


def _file_stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _pem_from_config(file: ConfigTable, name: str) -> Pem | None:
    content_key = f"{name}_content"
    if name in file and content_key in file:
        reason = f"Conflicting certificates: '{name}' and '{content_key}' are both set, keep one"
        raise StartupFailed(CONFIG_CONTEXT, reason)
    if content_key in file:
        return Pem(_of_kind(file[content_key], str, content_key), content_key)
    if name not in file:
        return None
    try:
        return _read_pem(name, _of_kind(file[name], str, name))
    except Rejected as error:
        raise StartupFailed(CONFIG_CONTEXT, str(error)) from error


def _read_pem(name: str, path: AnyPath) -> Pem:
    """Check and read the file through one descriptor, so that the checked file is the one that is read."""
    try:
        with open(path, "rb") as opened:  # noqa: PTH123
            fault = pem_mode_fault(name[-7:], os.fstat(opened.fileno()).st_mode)
            if fault:
                raise Rejected(f"cannot use {name} '{path}': {fault}")
            data = opened.read(_MAX_PEM_BYTES + 1)
    except OSError as error:
        raise Rejected(f"cannot read {name} '{path}': {error.strerror}") from error
    if len(data) > _MAX_PEM_BYTES:
        raise Rejected(f"cannot use {name} '{path}': larger than {_MAX_PEM_BYTES} bytes")
    try:
        return Pem(data.decode("ascii"), str(path), is_file=True)
    except UnicodeDecodeError as error:
        raise Rejected(f"cannot use {name} '{path}': not a PEM text") from error


def pem_mode_fault(name: str, mode: int) -> str | None:
    """Return why a file with this mode is rejected: other users could read the key or replace the certificate."""
    bits = stat.S_IMODE(mode) & 0o777
    if name == "key_pem":
        return None if bits in (0o600, 0o400) else f"its mode is {bits:04o}, a private key needs 0600 or 0400"
    if not bits & 0o400 or bits & 0o022 or bits & 0o111:
        return (
            f"its mode is {bits:04o}, a certificate must be readable by its owner, not writable by group and others "
            "and not executable (for example 0644)"
        )
    return None


def require_security(given: GivenPem, insecure: bool) -> PemMaterial | None:
    """Use TLS if all three PEM items are given, also with `insecure`. Without any of them, `insecure` is required.

    [impl->swdd~server-fails-on-missing-file-paths-and-insecure-cli-arguments~1]
    """
    if given.ca and given.crt and given.key:
        return PemMaterial(given.ca, given.crt, given.key, given.crl)
    if insecure and not (given.ca or given.crt or given.key):
        return None
    raise StartupFailed(MISSING_PEM_CONTEXT, missing_pem_text(given))


def missing_pem_text(given: GivenPem) -> str:
    ca, crt, key = (f'"{pem.origin}"' if pem else '""' for pem in (given.ca, given.crt, given.key))
    return (
        f"Either provide mTLS config via the '--ca_pem {ca}', '--crt_pem {crt}' and '--key_pem {key}' options "
        "or deactivate mTLS with the '--insecure' option!"
    )
