"""What the agent is told at its start: flags over environment over config file over defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ankaios.agent.flags import DEFAULT_SERVER_URL, make_parser, usual_run_folder
from ankaios.agent.given_settings import GivenSettings, read_given_settings
from ankaios.common.config import (
    CONFIG_CONTEXT,
    BadEnvironment,
    ConfigTable,
    GivenPem,
    choose,
    load_pem_material,
)
from ankaios.common.dataclass import dataclass
from ankaios.common.errors import StartupFailed
from ankaios.common.names import has_allowed_characters
from ankaios.middleware.connecting import BadUrl, address_of
from ankaios.runtimes.podman_settings import PodmanSettings

NAME_CONTEXT = "Agent name is invalid"
URL_CONTEXT = "Wrong server address format"


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Everything but the run folder is already checked. `runtimes` None: all there are.

    `kubelet_dir`: the devices of this node are offered to the kubelet that works there. `podman_socket`: the podman
    service that is used instead of the podman of this user.
    """

    name: str
    server_url: str
    run_folder: Path
    insecure: bool
    pem: GivenPem
    tags: Mapping[str, str]
    runtimes: tuple[str, ...] | None
    kubelet_dir: Path | None = None
    podman_socket: str | None = None

    @property
    def podman(self) -> PodmanSettings:
        return PodmanSettings(socket=self.podman_socket)


def default_run_folder() -> Path:
    return Path(usual_run_folder())


def read_settings(arguments: Sequence[str] | None = None) -> AgentSettings:
    """Usage errors end the process with code 2."""
    return check_settings(read_given_settings(arguments))


def check_settings(given: GivenSettings) -> AgentSettings:
    """A senseless environment variable ends the process with code 2."""
    flags, file = given.flags, given.file
    try:
        return AgentSettings(
            name=_checked_name(choose(flags["name"], None, file, "name", "")),
            server_url=_checked_url(choose(flags["server_url"], None, file, "server_url", DEFAULT_SERVER_URL)),
            run_folder=Path(choose(flags["run_folder"], None, file, "run_folder", str(default_run_folder()))),
            insecure=choose(flags["insecure"], "ANKAGENT_INSECURE", file, "insecure", False),
            pem=load_pem_material(flags, "ANKAGENT", file),
            tags=_tags(flags["tag"]) if flags["tag"] else _tags_of(file),
            runtimes=_runtimes_of(file),
            kubelet_dir=_kubelet_dir(choose(flags["kubelet_dir"], None, file, "kubelet_dir", "")),
            podman_socket=_podman_socket(choose(None, None, file, "podman_socket", "")),
        )
    except BadEnvironment as fault:
        make_parser().error(str(fault))


def _checked_name(name: str) -> str:
    if not name:
        raise StartupFailed(NAME_CONTEXT, "it is empty, give one with --name or 'name' in the config file")
    if not has_allowed_characters(name):
        raise StartupFailed(NAME_CONTEXT, f"'{name}' has other characters than a-z, A-Z, 0-9, '_' and '-'")
    return name


def _checked_url(url: str) -> str:
    try:
        address_of(url)
    except BadUrl as fault:
        reason = f"'{url}' is not of the form https://<host>:<port> or http://<host>:<port>, with a port up to 65535"
        raise StartupFailed(URL_CONTEXT, reason) from fault
    return url


def _kubelet_dir(given: str) -> Path | None:
    return Path(given) if given else None


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
