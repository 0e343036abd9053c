"""`ank up` with a podman that has the image of the example and nothing else."""

import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.isolated_podman import IMAGE, IsolatedPodman, missing_program  # noqa: E402

SCRATCH = ROOT / "build"
IMAGE_OF_MANIFEST = "localhost/ankaios-demo"


def main() -> int:
    if missing := missing_program():
        print(f"this example runs containers, and the program '{missing}' is not installed", file=sys.stderr)
        return 1
    SCRATCH.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="pod-", dir=SCRATCH))
    try:
        with IsolatedPodman(folder=folder) as podman:
            podman.podman("tag", IMAGE, IMAGE_OF_MANIFEST)
            settle = [] if sys.stdout.isatty() else ["--settle"]
            up = [str(Path(sys.executable).with_name("ank")), "up", "--runtime", "podman-kube", *settle]
            command = [*up, *sys.argv[1:], str(HERE / "manifest.yaml")]
            # Ctrl+C and other signals are handled by the cluster, which then cleans up.
            cluster = subprocess.Popen(command, env=podman.environ)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, lambda *_: cluster.terminate())
            return cluster.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            SCRATCH.rmdir()  # unless another program uses it


if __name__ == "__main__":
    sys.exit(main())
