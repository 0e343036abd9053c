"""An isolated containerd with all its files in one folder, for machines with `containerd` and `nerdctl`.

`environ` makes nerdctl use it. The only image is that of the isolated podman. `close` ends everything.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.support.podman_env import IMAGE, PodmanEnv

PROGRAMS = ("containerd", "nerdctl", "runc")
START_LIMIT = 30.0


def missing_containerd() -> str | None:
    """Why no containerd can be started here."""
    if os.geteuid() != 0:
        return "needs root rights"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"needs {' and '.join(missing)}" if missing else None


class IsolatedContainerd:
    def __init__(self, folder: Path, podman: PodmanEnv) -> None:
        self._folder = folder
        folder.mkdir()
        socket, settings = folder / "socket", folder / "nerdctl.toml"
        settings.write_text(
            f'address = "{socket}"\nnamespace = "ankaios-test"\nsnapshotter = "native"\n'
            f'data_root = "{folder / "data"}"\ncgroup_manager = "cgroupfs"\n'
        )
        self.environ = {**os.environ, "NERDCTL_TOML": str(settings)}
        (folder / "containerd.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["containerd", "--config", str(folder / "containerd.toml"), "--root", str(folder / "root"),
                 "--state", str(folder / "state"), "--address", str(socket)],
                stdout=log, stderr=log,
            )  # fmt: skip
        until = time.monotonic() + START_LIMIT
        while not socket.exists() or self.nerdctl("ps", check=False).returncode != 0:
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.05)
        archive = folder / "image.tar"
        podman.podman("save", "--output", str(archive), IMAGE)
        self.nerdctl("load", "--input", str(archive))

    def nerdctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["nerdctl", *arguments]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=120, check=check)

    def clear(self) -> None:
        if containers := self.nerdctl("ps", "--all", "--quiet").stdout.split():
            self.nerdctl("rm", "--force", *containers)

    def close(self) -> None:
        self.clear()
        self._process.terminate()
        self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)
