"""The program `ank-agent`: reads its settings, has podman list its containers, loads the rest meanwhile, runs.

The order is that of a fast start: reading the settings needs little, podman needs longest, and everything else is
loaded while podman is busy.
"""

from __future__ import annotations

import gc
import sys

from ankaios.common.errors import StartupFailed
from ankaios.common.lean_loading import RARELY_USED, load_asyncio_without_tls, load_later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ankaios.agent.settings import AgentSettings
    from ankaios.runtimes.early_listing import EarlyListing


def main(arguments: Sequence[str] | None = None) -> int:
    gc.disable()  # what is loaded now stays: looking for garbage in it takes time and finds nothing
    load_later(*RARELY_USED)
    try:
        _start(arguments)
    except StartupFailed as fault:
        from ankaios.common.log import log_startup_error, setup_logging

        setup_logging()
        log_startup_error(fault)
        return 1
    finally:
        gc.enable()
    return 0


def _start(arguments: Sequence[str] | None) -> None:
    from ankaios.agent.given_settings import read_given_settings
    from ankaios.runtimes.early_listing import EarlyListing

    given = read_given_settings(arguments)
    early = EarlyListing(given.podman) if given.podman else None
    try:
        from ankaios.agent.settings import check_settings

        _run(check_settings(given), early)
    finally:
        if early is not None:
            early.drop()


def _run(settings: AgentSettings, early: EarlyListing | None) -> None:
    from ankaios.common.message_loader import forgo_well_known_types

    load_asyncio_without_tls()
    forgo_well_known_types()
    import asyncio
    import logging

    from ankaios.agent.agent import until_told_to_end
    from ankaios.common.log import setup_logging

    setup_logging()
    logging.getLogger("ankaios.agent").info("agent '%s', server '%s'", settings.name, settings.server_url)
    asyncio.run(until_told_to_end(settings, early))


if __name__ == "__main__":
    sys.exit(main())
