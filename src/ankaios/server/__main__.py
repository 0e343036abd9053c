"""The program `ank-server`: listens first, then loads and runs everything else."""

import sys

from ankaios.server.early_listening import listen_early


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["backup"]:
        from ankaios.server.backup_command import run_backup

        return run_backup(words[1:])
    listener = listen_early(words)
    from ankaios.server.program import run  # takes ten times as long to load as all of the above

    return run(arguments, listener)


if __name__ == "__main__":
    sys.exit(main())
