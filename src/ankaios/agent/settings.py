"""Settings of the agent: flags, then environment variables, then the config file, then defaults."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from ankaios.common.errors import StartupFailed
from ankaios.common.flag_parser import flag_parser
from ankaios.common.names import has_allowed_characters
from ankaios.common.observation_settings import (
    LOG_FORMATS,
    add_observation_flags,
    log_format_setting,
    metrics_setting,
)
from ankaios.middleware.connecting import BadUrl, address_of
from ankaios.middleware.server_targets import server_urls
from ankaios.runtimes.podman.podman_settings import PodmanSettings

DEFAULT_CONFIG_FILE = "/etc/ankaios/ank-agent.conf"
DEFAULT_SERVER_URL = "https://127.0.0.1:25551"
NAME_CONTEXT = "Agent name is invalid"
PODMAN_RUNTIMES = ("podman", "podman-kube")
OFFLINE_START_AFTER = 5
URL_CONTEXT = "Wrong server address format"


class AgentSettings(Struct, frozen=True):
    """All values except the run folder are validated. `runtimes` None: all supported runtimes.

    `plugin_dir`: the folder in which device plugins register. `kubelet_dir`: the folder of the kubelet to which the
    devices of this node are offered. `podman_socket`: the podman service that is used instead of the podman of this
    user. `state_dir`: the folder for the assigned workloads, which are started without a server after
    `offline_start_after` seconds.
    """

    name: str
    server_url: str
    run_folder: Path
    insecure: bool
    pem: GivenPem
    tags: Mapping[str, str]
    runtimes: tuple[str, ...] | None
    plugin_dir: Path | None = None
    kubelet_dir: Path | None = None
    podman_socket: str | None = None
    metrics: str | None = None
    state_dir: Path | None = None
    offline_start_after: int = OFFLINE_START_AFTER
    log_format: str = "text"

    @property
    def podman(self) -> PodmanSettings:
        return PodmanSettings(socket=self.podman_socket)

    @property
    def uses_podman(self) -> bool:
        return self.runtimes is None or any(name in PODMAN_RUNTIMES for name in self.runtimes)


def default_run_folder() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp") / "ankaios"


def read_agent_settings(arguments: Sequence[str] | None = None) -> AgentSettings:
    """Usage errors and invalid environment variables end the process with code 2."""
    parser = make_parser()
    flags = vars(parser.parse_args(arguments))
    file = load_config_file(flags["agent_config"], [DEFAULT_CONFIG_FILE])
    try:
        return _check_settings(flags, file)
    except BadEnvironment as fault:
        parser.error(str(fault))


def _check_settings(flags: Mapping[str, Any], file: ConfigTable) -> AgentSettings:
    return AgentSettings(
        name=_checked_name(choose(flags["name"], None, file, "name", "")),
        server_url=_checked_url(choose(flags["server_url"], None, file, "server_url", DEFAULT_SERVER_URL)),
        run_folder=Path(choose(flags["run_folder"], None, file, "run_folder", str(default_run_folder()))),
        insecure=choose(flags["insecure"], "ANKAGENT_INSECURE", file, "insecure", False),
        pem=load_pem_material(flags, "ANKAGENT", file),
        tags=_tags(flags["tag"]) if flags["tag"] else _tags_of(file),
        runtimes=_runtimes_of(file),
        plugin_dir=_folder(choose(flags["plugin_dir"], None, file, "plugin_dir", "")),
        kubelet_dir=_folder(choose(flags["kubelet_dir"], None, file, "kubelet_dir", "")),
        podman_socket=_podman_socket(choose(None, None, file, "podman_socket", "")),
        metrics=metrics_setting(choose(flags["metrics"], "ANKAGENT_METRICS", file, "metrics", "")),
        state_dir=_state_dir(choose(flags["state_dir"], "ANKAGENT_STATE_DIR", file, "state_dir", "")),
        offline_start_after=_offline_start_after(choose(None, None, file, "offline_start_after", OFFLINE_START_AFTER)),
        log_format=log_format_setting(
            choose(flags["log_format"], "ANKAGENT_LOG_FORMAT", file, "log_format", LOG_FORMATS[0])
        ),
    )


def make_parser() -> argparse.ArgumentParser:
    description = "The Ankaios agent: runs the workloads that the server assigns to this node."
    return flag_parser("ank-agent", description, _add_flags)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-x", "--agent-config", metavar="PATH", help=f"config file [default: {DEFAULT_CONFIG_FILE}]")
    add("-n", "--name", metavar="NAME", help="the name under which workloads are assigned to this agent")
    add(
        "-s",
        "--server-url",
        metavar="URL",
        help="address of the server, or of several that share their state, with commas between them "
        f"[default: {DEFAULT_SERVER_URL}]",
    )
    add("-r", "--run-folder", metavar="DIR", help=f"folder for run-time files [default: {default_run_folder()}]")
    add("-k", "--insecure", action="store_true", help="no TLS; do not use it in production [env: ANKAGENT_INSECURE]")
    add("-t", "--tag", metavar="KEY=VALUE", type=_pair, action="append", help="tag of this agent, can be repeated")
    for item, what in (("ca", "certificate of the authority"), ("crt", "own certificate"), ("key", "own private key")):
        name = f"{item}_pem"
        add(f"--{name}", metavar="PATH", help=f"PEM file with the {what} [env: ANKAGENT_{name.upper()}]")
    add("--plugin-dir", metavar="DIR", help="where device plugins register [default: below the run folder]")
    add("--kubelet-dir", metavar="DIR", help="offer devices to the kubelet of this folder, such as /var/lib/kubelet")
    add_observation_flags(parser, "ANKAGENT")
    add(
        "--state-dir",
        metavar="DIR",
        help="store the assigned workloads here and start them without a server after a power failure "
        "[env: ANKAGENT_STATE_DIR]",
    )
    add("-V", "--version", action="version", version=f"ank-agent {__version__}")


def _pair(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"invalid value '{text}': no '=' found, expected KEY=VALUE")
    return text


def _checked_name(name: str) -> str:
    if not name:
        raise StartupFailed(NAME_CONTEXT, "it is empty, give one with --name or 'name' in the config file")
    if not has_allowed_characters(name):
        raise StartupFailed(NAME_CONTEXT, f"'{name}' has other characters than a-z, A-Z, 0-9, '_' and '-'")
    return name


def _checked_url(text: str) -> str:
    """Check one URL, or several separated by commas."""
    for url in server_urls(text):
        _check_url(url)
    return text


def _check_url(url: str) -> None:
    try:
        address_of(url)
    except BadUrl as fault:
        reason = f"'{url}' is not of the form https://<host>:<port> or http://<host>:<port>, with a port up to 65535"
        raise StartupFailed(URL_CONTEXT, reason) from fault


def _folder(given: str) -> Path | None:
    return Path(given) if given else None


def _state_dir(given: str) -> Path | None:
    return Path(given).absolute() if given else None


def _offline_start_after(given: int) -> int:
    if given < 0:
        raise StartupFailed(CONFIG_CONTEXT, f"'offline_start_after' must not be negative, found '{given}'")
    return given


def _podman_socket(given: str) -> str | None:
    if given and not given.startswith("/"):
        raise StartupFailed(CONFIG_CONTEXT, f"'podman_socket' must be an absolute path, found '{given}'")
    return given or None


def _tags(given: Iterable[str]) -> Mapping[str, str]:
    pairs = (text.partition("=") for text in given)
    return {key: value for key, _, value in pairs}


def _tags_of(file: ConfigTable) -> Mapping[str, str]:
    tags: dict[str, str] = choose(None, None, file, "tags", {})
    for key, value in tags.items():
        if not isinstance(value, str):
            raise StartupFailed(CONFIG_CONTEXT, f"'tags.{key}' must be a string, found '{value}'")
    return tags


def _runtimes_of(file: ConfigTable) -> tuple[str, ...] | None:
    if "runtimes" not in file:
        return None
    names: list[str] = choose(None, None, file, "runtimes", [])
    if not all(isinstance(name, str) for name in names):
        raise StartupFailed(CONFIG_CONTEXT, "'runtimes' must be a list of strings")
    return tuple(names)
