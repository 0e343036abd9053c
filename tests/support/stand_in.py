"""Sets up `fake_podman`, the scriptable replacement for podman and nerdctl, in a separate folder.

stand_in = StandIn(tmp_path)                    # or dialect="nerdctl"
stand_in.script("run", do="fail", stderr="boom", times=1)
settings = PodmanSettings(program=stand_in.program)
stand_in.calls("run")                           # the arguments of each call so far
"""

import fcntl
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

FAKE = Path(__file__).with_name("fake_podman")


class StandIn:
    """`program` is an executable named like the real one, so its folder may also be put into PATH."""

    def __init__(self, folder: Path, dialect: str = "podman") -> None:
        self.folder = folder / f"stand-in-{dialect}"
        (self.folder / "containers").mkdir(parents=True)
        (self.folder / "script.json").write_text("{}")
        self._program = self.folder / dialect
        lines = [
            "#!/bin/sh",
            f"STAND_IN='{self.folder}' STAND_IN_DIALECT={dialect}",
            "export STAND_IN STAND_IN_DIALECT",
            f"exec '{sys.executable}' -I -S '{FAKE}' \"$@\"",
        ]
        self._program.write_text("\n".join(lines) + "\n")
        self._program.chmod(0o755)

    @property
    def program(self) -> str:
        return str(self._program)

    def script(self, verb: str, **action: Any) -> None:
        """Add an action for the verb, e.g. `do="hang"`; with `times` it ends after so many calls."""
        with (self.folder / "script.json").open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            script = json.load(file)
            script.setdefault(verb, []).append(action)
            file.seek(0)
            file.truncate()
            json.dump(script, file)

    def heal(self) -> None:
        """All verbs work again."""
        (self.folder / "script.json").write_text("{}")

    def records(self, verb: str | None = None) -> list[dict[str, Any]]:
        with suppress(FileNotFoundError):
            lines = (self.folder / "calls.jsonl").read_text().splitlines()
            found = [json.loads(line) for line in lines]
            return [record for record in found if verb is None or record["verb"] == verb]
        return []

    def calls(self, verb: str | None = None) -> list[list[str]]:
        return [record["arguments"] for record in self.records(verb)]

    def containers(self) -> list[str]:
        return sorted(entry.name for entry in (self.folder / "containers").iterdir())

    def name_of(self, container: str) -> str:
        meta = json.loads((self.folder / "containers" / container / "meta.json").read_text())
        return str(meta["name"])

    def forget_container(self, container: str) -> None:
        """As if a user had removed it by hand."""
        gone = self.folder / f"gone-{container}"
        (self.folder / "containers" / container).rename(gone)
        self._end(gone)

    def _end(self, folder: Path) -> None:
        with suppress(OSError, ValueError, KeyError):
            pid = json.loads((folder / "meta.json").read_text())["pid"]
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)

    def close(self) -> None:
        """End all processes that represent containers."""
        for folder in (self.folder / "containers").iterdir():
            self._end(folder)
