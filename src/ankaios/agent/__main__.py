"""The program `ank-agent`: reads its settings, starts the first listing of podman's containers, loads the rest, runs.

Podman needs longer for its listing than the agent for its imports, so the listing is started before them.
"""

import asyncio
import logging
import sys
from collections.abc import Sequence

from ankaios.agent.settings import AgentSettings, read_agent_settings
from ankaios.common.errors import StartupFailed
from ankaios.common.log import log_startup_error, setup_logging
from ankaios.runtimes.podman.early_listing import EarlyListing


def main(arguments: Sequence[str] | None = None) -> int:
    setup_logging()
    try:
        _start(read_agent_settings(arguments))
    except StartupFailed as fault:
        log_startup_error(fault)
        return 1
    return 0


def _start(settings: AgentSettings) -> None:
    setup_logging(log_format=settings.log_format)
    early = EarlyListing(settings.podman) if settings.uses_podman else None
    try:
        _run(settings, early)
    finally:
        if early is not None:
            early.drop()


def _run(settings: AgentSettings, early: EarlyListing | None) -> None:
    from ankaios.agent.agent import run_until_signal  # loaded while podman lists its containers

    logging.getLogger("ankaios.agent").info("agent '%s', server '%s'", settings.name, settings.server_url)
    asyncio.run(run_until_signal(settings, early))


if __name__ == "__main__":
    sys.exit(main())
