"""Whether mount namespaces can be made on this machine."""

import os
import subprocess

import pytest


def may_mount() -> bool:
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not may_mount(), reason="needs the right to make mount namespaces")
