"""A process that looks to the agent like the monitor of a podman container: same arguments, same files."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

SCRIPT = """
cd "$FOLDER"
sh -c "$COMMAND" &
echo $! > "$PIDFILE.new"; mv "$PIDFILE.new" "$PIDFILE"
wait $!
code=$?
if [ -n "$EXITFILE" ]; then echo -n $code > "$EXITFILE.new"; mv "$EXITFILE.new" "$EXITFILE"; fi
"""


class FakePodmanFolders:
    """The run-time folders of a podman."""

    def __init__(self, root: Path) -> None:
        self.containers = root / "run" / "overlay-containers"
        self.exits = root / "tmp" / "exits"
        self.containers.mkdir(parents=True)
        self.exits.mkdir(parents=True)

    def pid_file(self, container: str) -> Path:
        return self.containers / container / "userdata" / "pidfile"

    def exit_file(self, container: str) -> Path:
        return self.exits / container


class FakeMonitor:
    """Runs the first process of a container, which ends on request."""

    def __init__(
        self,
        folders: FakePodmanFolders,
        container: str,
        *,
        auto_remove: bool = False,
        exit_file: bool = True,
        more: Sequence[str] = (),
    ) -> None:
        pid_file = folders.pid_file(container)
        pid_file.parent.mkdir(parents=True, exist_ok=True)
        pid_file.unlink(missing_ok=True)
        self._fifo = folders.exits.parent / f"fifo-{container}"
        if not self._fifo.exists():
            os.mkfifo(self._fifo)
        arguments = ["conmon", "-c", container, "-p", str(pid_file), "--exit-dir", str(folders.exits), *more]
        if auto_remove:
            arguments += ["--exit-command-arg", "--rm", "--exit-command-arg", container]
        env = {
            "PATH": "/usr/bin:/bin",
            "FOLDER": str(folders.exits),
            "COMMAND": f"read code < {self._fifo}; exit $code",
            "PIDFILE": str(pid_file),
            "EXITFILE": str(folders.exit_file(container)) if exit_file else "",
        }
        self._process = subprocess.Popen(["sh", "-c", SCRIPT, *arguments], env=env)
        while not pid_file.exists():
            time.sleep(0.001)
        self.pid = int(pid_file.read_text())

    def end(self, code: int) -> None:
        """The process ends with this code."""
        self._fifo.write_text(f"{code}\n")

    def wait(self) -> None:
        self._process.wait(60)

    def close(self) -> None:
        for pid in (self.pid, self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(60)
