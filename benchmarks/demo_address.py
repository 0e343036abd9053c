#!/usr/bin/env python3
"""The time from the start of scripts/demo to the address of the dashboard, after the set-up of .venv.

Usage: benchmarks/demo_address.py      in a clone in which scripts/install has run

Starts scripts/demo without a terminal, prints the seconds until its line 'Dashboard on ...', and waits for its end.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 5.0


def main() -> int:
    began, seconds = time.monotonic(), float("inf")
    with subprocess.Popen(
        [ROOT / "scripts/demo"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if line.startswith("Dashboard on "):
                seconds = time.monotonic() - began
    is_ok = seconds <= LIMIT and demo.returncode == 0
    print(f"address of the dashboard after: {seconds:.1f} s, limit {LIMIT:g} s, {'ok' if is_ok else 'not ok'}")
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
