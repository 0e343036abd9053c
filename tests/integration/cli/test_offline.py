"""Commands without a server work with any settings of the connection."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MANIFEST = "apiVersion: v1\nworkloads:\n  w: {agent: a, runtime: native, runtimeConfig: 'command: [cat]'}\n"


@pytest.mark.parametrize("words", [["schema"], ["validate", "m.yaml"], ["certs", "create", "certs"]])
def test_unusable_certificates_do_not_affect_offline_commands(tmp_path: Path, words: list[str]) -> None:
    """The key belongs to another user with the same configuration file."""
    (tmp_path / "m.yaml").write_text(MANIFEST)
    config = tmp_path / "ank.conf"
    config.write_text(f"version = 'v1'\nkey_pem = '{tmp_path}/other-user.pem'\n")
    done = subprocess.run(
        [sys.executable, "-m", "ankaios", "--ank-config", str(config), *words],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_command_that_connects_still_reports_invalid_settings(tmp_path: Path) -> None:
    config = tmp_path / "ank.conf"
    config.write_text(f"version = 'v1'\nkey_pem = '{tmp_path}/missing.pem'\n")
    done = subprocess.run(
        [sys.executable, "-m", "ankaios", "--ank-config", str(config), "get", "agents"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "missing.pem" in done.stderr
