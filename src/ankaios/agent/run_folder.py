"""Where an agent keeps what lives as long as its workloads: FIFOs and files, one folder for each instance.

    <run folder>/<agent>_io/<workload>.<id>/control_interface/{input,output}
    <run folder>/<agent>_io/<workload>.<id>/files/<mount point>

It is never removed as a whole: workloads outlive the agent and keep using it.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from ankaios.common.errors import StartupFailed
from ankaios.common.workload import InstanceName

_CONTEXT = "Run folder creation failed. Cannot continue without run folder"


def default_run_folder() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp") / "ankaios"


class RunFolder:
    """[impl->swdd~agent-control-interface-pipes-path-naming~1]"""

    def __init__(self, base: Path, agent: str) -> None:
        self.path = base / f"{agent}_io"

    def prepare(self, base: Path) -> None:
        """Only the default folder is made on demand: a mistyped one must not silently fill the disk elsewhere."""
        try:
            if not base.is_dir():
                if base != default_run_folder():
                    raise StartupFailed(_CONTEXT, f"the run folder '{base}' does not exist, create it first")
                base.mkdir(parents=True)
                base.chmod(0o777)
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise StartupFailed(_CONTEXT, f"cannot create '{self.path}': {error.strerror}") from error

    def of(self, name: InstanceName) -> Path:
        return self.path / f"{name.workload}.{name.id}"

    def control_interface(self, name: InstanceName) -> Path:
        return self.of(name) / "control_interface"

    def files(self, name: InstanceName) -> Path:
        return self.of(name) / "files"

    def remove(self, name: InstanceName) -> None:
        shutil.rmtree(self.of(name), ignore_errors=True)

    def remove_files(self, name: InstanceName) -> None:
        shutil.rmtree(self.files(name), ignore_errors=True)
        with suppress(OSError):
            self.of(name).rmdir()  # only if nothing else is in it
