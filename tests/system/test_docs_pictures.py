"""Pictures of terminals show what the programs show today. Those of one machine, such as `ank doctor`, may differ.

Needs: tmux.
"""

import shutil
import subprocess
import sys

import pytest

from tests.support.shown_commands import ROOT
from tests.system.test_docs_commands import isolated

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="pictures of terminals need tmux")


@pytest.mark.timeout(150)
@pytest.mark.parametrize("scene", ["validate", "describe", "devices", "plan-80"])
def test_a_picture_is_what_the_program_shows(scene: str) -> None:
    command = [*isolated(), sys.executable, str(ROOT / "tools/terminal_pictures.py"), "--check", scene]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=140)
    assert done.returncode == 0, done.stdout + done.stderr
