"""The program `ank-server`: listens first, then loads and runs everything else."""

import sys

from ankaios.server.early_listening import listen_early


def main(arguments: list[str] | None = None) -> int:
    listener = listen_early(sys.argv[1:] if arguments is None else arguments)
    from ankaios.server.program import run  # takes ten times as long to load as all of the above

    return run(arguments, listener)


if __name__ == "__main__":
    sys.exit(main())
