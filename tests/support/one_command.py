"""A command of the documentation: scripts/demo, or the `run` of an example. It gets a folder for its temporary files.

`printed_by` for one without a terminal, `Terminal` for one with. `left_by` names processes and files that are left.
"""

import fcntl
import os
import pty
import re
import subprocess
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

LIMIT = 90


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "TMPDIR": str(folder), "HOME": str(folder)}


def printed_by(command: Path, folder: Path, *flags: str) -> str:
    """What the command prints without a terminal, started elsewhere; nothing of it is left."""
    output = output_of([command, *flags], folder)
    assert left_by(folder) == []
    return output


def output_of(command: Sequence[str | Path], folder: Path, **more: str) -> str:
    """Of a command that succeeds; `more` is for its environment."""
    return completed(command, folder, **more).stdout


def completed(command: Sequence[str | Path], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command that succeeds, after its end; `more` is for its environment."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment(folder), **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def left_by(folder: Path) -> list[str]:
    """Processes and files of a command that ran with this folder as the one for temporary files."""
    return [*map(str, folder.iterdir()), *processes_of(folder)]


def processes_of(folder: Path) -> list[str]:
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"={folder}\0".encode() in environ.read_bytes():
                found.append((environ.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def states(output: str) -> dict[str, str]:
    """Workload -> state, as the final table has it."""
    table = output[output.index("WORKLOAD NAME") :].partition("\n\n")[0].splitlines()[1:]
    return {line.split()[0]: line.split()[3] for line in table}


class Terminal:
    """A command on a separate terminal; it is ended with the block at the latest."""

    def __init__(self, command: Path, folder: Path, *flags: str) -> None:
        self._ours, theirs = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            [command, *flags],
            cwd=folder,
            env={**environment(folder), "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_make_controlling,
        )
        os.close(theirs)

    def wait_for(self, pattern: str | None) -> None:
        """Wait until the pattern appears, or without a pattern until the command has closed the terminal."""
        until = time.monotonic() + LIMIT
        while pattern is None or not re.search(pattern, self.seen):
            assert time.monotonic() < until, self.seen
            try:
                self.seen += os.read(self._ours, 4096).decode(errors="replace")
            except OSError:  # closed
                assert pattern is None, self.seen
                break

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def hang_up(self) -> None:
        """Close the terminal, as closing its window does."""
        os.close(self._ours)
        self._ours = -1

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        if self._ours >= 0:
            os.close(self._ours)


def _make_controlling() -> None:
    """Only the terminal that controls a session turns Ctrl+C into a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
