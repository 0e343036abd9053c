"""Entry point of `ank`: prepares the process, runs the command line, and exits with its exit code."""

import gc
import os
import sys


def main() -> None:
    """Run the command and exit without cleaning up the interpreter, which only takes time."""
    gc.disable()  # a short command needs no collection; a session switches it on again
    import signal  # loads `enum` and more, which collections would inspect: 0.4 ms

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _prepare_streams()
    from ankaios.cli.program import run

    os._exit(run(sys.argv[1:]))


def _prepare_streams() -> None:
    """Use UTF-8 in every locale. Output to a closed stream is discarded."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
