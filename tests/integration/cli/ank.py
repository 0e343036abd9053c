"""Runs the real `ank` as users do: a process with arguments, an environment, and bytes on its two streams."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ankaios.common.model.state import COMPLETE_STATE
from ankaios.common.pb import ank_base_pb2 as base

LIMIT = 30
SOURCES = Path(__file__).parents[3] / "src"
NO_HOME = Path(tempfile.gettempdir()) / "home-of-no-user"  # shells create it
ERROR = "\x1b[38;5;9m\x1b[1merror:\x1b[0m "
WARN = "\x1b[38;5;11mwarn:\x1b[39m "

ID = "6b1bdc92fc2d9fafe5e422c4a8862abc63aad7095bd8de46c4aafc92388fabe2"


def environment(home: Path | None = None, **extra: str) -> dict[str, str]:
    """Ignores the configuration of the machine: no variables of ank, no colours, an empty home."""
    kept = {
        key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "TMPDIR", "COVERAGE_PROCESS_START")
    }
    return {**kept, "PYTHONPATH": str(SOURCES), "HOME": str(home or NO_HOME), **extra}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "ankaios", *words]


def ank(
    *words: str,
    url: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes = b"",
) -> subprocess.CompletedProcess[str]:
    """With `--insecure` and `url` if it is given, otherwise only the arguments."""
    front = ["-k", "-s", url] if url else []
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        command(*front, *words), input=data, capture_output=True, timeout=LIMIT, env=env or environment(), check=False
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def start(*words: str, url: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("-k", "-s", url, *words),
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=options.pop("stderr", subprocess.PIPE),
        env=options.pop("env", environment()),
        **options,
    )


def example_state() -> base.CompleteState:
    """One workload that runs, made of a configuration item, on an agent that has reported its load."""
    return COMPLETE_STATE.from_form(
        {
            "desiredState": {
                "apiVersion": "v1",
                "workloads": {
                    "web": {
                        "agent": "n1",
                        "restartPolicy": "NEVER",
                        "runtime": "podman",
                        "runtimeConfig": "image: {{img}}",
                        "configs": {"img": "image"},
                    }
                },
                "configs": {"image": "alpine:3"},
            },
            "workloadStates": {"n1": {"web": {ID: {"additionalInfo": "", "state": "Running", "subState": "Ok"}}}},
            "agents": {"n1": {"status": {"cpuUsage": 7, "freeMemory": 2048}}},
            "effectiveState": {
                "apiVersion": "v1",
                "workloads": {
                    "web": {
                        "agent": "n1",
                        "restartPolicy": "NEVER",
                        "runtime": "podman",
                        "runtimeConfig": "image: alpine:3",
                    }
                },
            },
        }
    )
