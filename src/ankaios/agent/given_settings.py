"""What the agent was told, as it was written: flags and config file, not yet checked.

It is enough to know which podman shall begin to list its containers, while all that the checks need is still being
loaded. So nothing here, nor below it, imports what takes long.
"""

from __future__ import annotations

import sys

from ankaios.agent.flags import CONFIG_FILE, read_flags
from ankaios.common.config import load_config_file
from ankaios.common.dataclass import dataclass
from ankaios.runtimes.podman_settings import PodmanSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ankaios.common.config import ConfigTable

DEFAULT_CONFIG_FILE = CONFIG_FILE
_PODMAN_RUNTIMES = {"podman", "podman-kube"}


@dataclass(frozen=True, slots=True)
class GivenSettings:
    flags: Mapping[str, Any]
    file: ConfigTable

    @property
    def podman(self) -> PodmanSettings | None:
        """None: no runtime of this agent uses it. What makes no sense is told when it is checked."""
        runtimes, socket = self.file.get("runtimes"), self.file.get("podman_socket")
        if isinstance(runtimes, list) and not any(name in _PODMAN_RUNTIMES for name in map(str, runtimes)):
            return None
        return PodmanSettings(socket=socket if isinstance(socket, str) and socket else None)


def read_given_settings(arguments: Sequence[str] | None = None) -> GivenSettings:
    """Usage errors end the process with code 2."""
    flags: Mapping[str, Any] = read_flags(sys.argv[1:] if arguments is None else arguments)
    return GivenSettings(flags, load_config_file(flags["agent_config"], [DEFAULT_CONFIG_FILE]))
