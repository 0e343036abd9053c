"""The program `ank-agent`: disables the garbage collector, then loads and runs everything else."""

import gc
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    gc.disable()  # all objects created during the start stay in use; the collector is enabled after the start
    try:
        from ankaios.agent.program import run  # collections during these imports would take 9 ms

        return run(arguments)
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.exit(main())
