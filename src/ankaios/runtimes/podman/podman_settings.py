"""Settings of the calls of podman. Loaded before all other modules of the agent, so it imports few modules."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ankaios.runtimes.podman.environment import with_late_collector
from ankaios.runtimes.program_settings import ProgramSettings

LIST_CONTAINERS = ("ps", "--all", "--format=json")


class PodmanSettings(ProgramSettings, frozen=True):
    """`list_limit` is the time limit of the first listing; it is doubled for each further attempt up to `query_limit`.

    `resync` is the interval of listings without hints of a change. `socket` is the path of a podman service that is
    used instead of the podman of this user.
    """

    program: str = "podman"
    calls_at_a_time: int = 4
    list_limit: float = 10.0
    resync: float = 30.0
    socket: str | None = None

    def plain_environment(self) -> Mapping[str, str]:
        """The variable `CONTAINER_HOST` makes podman use a service, with the same arguments."""
        environ = os.environ if self.environment is None else self.environment
        return dict(environ) if self.socket is None else {**environ, "CONTAINER_HOST": f"unix://{self.socket}"}

    def call_environment(self) -> Mapping[str, str]:
        """The environment for calls that do not copy variables into a container."""
        return with_late_collector(self.plain_environment())
