"""Which podman is called, how, and how long it may take. Loaded before anything else, so it imports next to nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from ankaios.runtimes.podman_environment import with_late_collector

LIST_CONTAINERS = ("ps", "--all", "--format=json")


class PodmanSettings(Struct, frozen=True):
    """Limits are in seconds. `run` covers the download of an image, `stop` the time a workload takes to end.

    `list_limit` is how soon a first listing without answer is given up; the next one may take longer, up to a query.

    `resync` is the time between two listings of all containers when nothing hints at a change. `socket` is the path of
    the podman service to be used instead of the podman of this user. `environment` None: that of this process.
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
        """Podman itself knows how to use a service, with the same arguments."""
        environ = os.environ if self.environment is None else self.environment
        return dict(environ) if self.socket is None else {**environ, "CONTAINER_HOST": f"unix://{self.socket}"}

    def call_environment(self) -> Mapping[str, str]:
        """For calls that copy nothing of it into a container."""
        return with_late_collector(self.plain_environment())
