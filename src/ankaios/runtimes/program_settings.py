"""Settings that the calls of podman and nerdctl have in common.

Loaded before all other modules of the agent, so it imports few modules.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class ProgramSettings(Struct, frozen=True):
    """Limits are in seconds. `run_limit` includes the download of an image, `stop_limit` the end of the workload.

    `environment` None: the environment of this process.
    """

    program: str
    calls_at_a_time: int
    query_limit: float = 30.0
    run_limit: float = 900.0
    stop_limit: float = 180.0
    stops_at_a_time: int = 8
    environment: Mapping[str, str] | None = None

    def call_environment(self) -> Mapping[str, str] | None:
        return self.environment
