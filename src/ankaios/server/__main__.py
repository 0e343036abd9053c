"""The program `ank-server`: reads its settings, sets up logging, runs."""

import asyncio
import sys
from collections.abc import Sequence

from ankaios.common.errors import StartupFailed
from ankaios.common.log import log_startup_error, setup_logging
from ankaios.server.settings import read_server_settings


def main(arguments: Sequence[str] | None = None) -> int:
    setup_logging()
    try:
        settings = read_server_settings(arguments)
        setup_logging(log_format=settings.log_format)
        from ankaios.server.shell import serve  # not needed to print a version or a usage error

        asyncio.run(serve(settings))
    except StartupFailed as fault:
        log_startup_error(fault)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
