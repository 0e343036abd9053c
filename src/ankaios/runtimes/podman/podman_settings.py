"""Settings of the calls of podman. Loaded before all other modules of the agent, so it imports few modules."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from ankaios.runtimes.podman.environment import with_late_collector

LIST_CONTAINERS = ("ps", "--all", "--format=json")


class PodmanSettings(Struct, frozen=True):
    """Limits are in seconds. `run_limit` includes the download of an image, `stop_limit` the end of the workload.

    `list_limit` is the time limit of the first listing; it is doubled for each further attempt up to `query_limit`.

    `resync` is the interval of listings without hints of a change. `socket` is the path of a podman service that is
    used instead of the podman of this user. `environment` None: the environment of this process.
    """

    program: str = "podman"
    query_limit: float = 30.0
    list_limit: float = 10.0
    run_limit: float = 900.0
    stop_limit: float = 180.0
    calls_at_a_time: int = 4
    stops_at_a_time: int = 8
    resync: float = 30.0
    socket: str | None = None
    environment: Mapping[str, str] | None = None

    def plain_environment(self) -> Mapping[str, str]:
        """The variable `CONTAINER_HOST` makes podman use a service, with the same arguments."""
        environ = os.environ if self.environment is None else self.environment
        return dict(environ) if self.socket is None else {**environ, "CONTAINER_HOST": f"unix://{self.socket}"}

    def call_environment(self) -> Mapping[str, str]:
        """The environment for calls that do not copy variables into a container."""
        return with_late_collector(self.plain_environment())
