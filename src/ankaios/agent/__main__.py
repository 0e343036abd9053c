"""The program `ank-agent`: reads its settings, sets up logging and runtimes, runs."""

import asyncio
import logging
import sys
from collections.abc import Sequence

from ankaios.agent.settings import read_settings
from ankaios.common.errors import StartupFailed
from ankaios.common.log import log_startup_error, setup_logging


def main(arguments: Sequence[str] | None = None) -> int:
    setup_logging()
    try:
        settings = read_settings(arguments)
        from ankaios.agent.agent import until_told_to_end  # not needed to print a version or a usage error

        logging.getLogger("ankaios.agent").info("agent '%s', server '%s'", settings.name, settings.server_url)
        asyncio.run(until_told_to_end(settings))
    except StartupFailed as fault:
        log_startup_error(fault)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
