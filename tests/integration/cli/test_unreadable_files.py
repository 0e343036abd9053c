"""Every command that reads files reports an unreadable file by its name, with the reason and a hint.

Needs: for root `setpriv`, which drops the right of root to read every file.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.cli.ank import ERROR, LIMIT, command, environment

needs_limits = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="as root this needs the program setpriv"
)
LIMITED = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"]


def ank(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*(LIMITED if os.geteuid() == 0 else []), *command(*words)],
        env=environment(),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    file = tmp_path / "closed.yaml"
    file.write_text("apiVersion: v1\n")
    file.chmod(0)
    return file


@needs_limits
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-k", "apply"], "Command failed: 'File '{}' cannot be read: Permission denied'"),
        (["-k", "apply", "-d"], "Command failed: 'File '{}' cannot be read: Permission denied'"),
        (["up"], "File '{}' cannot be read: Permission denied"),
        (
            ["-k", "set", "state", "desiredState"],
            "Could not read the state object file '{}'.\nError: 'Permission denied",
        ),
    ],
)
def test_a_file_without_read_permission_is_reported(
    closed: Path, tmp_path: Path, words: list[str], expected: str
) -> None:
    done = ank(*words, str(closed), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert expected.format(closed) in done.stderr
    assert f"hint: run this as its owner '{closed.owner()}', or let others read it: chmod a+r '{closed}'" in done.stderr
    assert "output" not in done.stderr


@needs_limits
def test_validate_reports_it_beside_the_other_files(closed: Path, tmp_path: Path) -> None:
    done = ank("validate", str(closed), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{closed}: error: the file cannot be read: Permission denied; run this as its owner")


@needs_limits
def test_unreadable_certificates_and_settings_are_reported(closed: Path, tmp_path: Path) -> None:
    pems = [word for name in ("ca", "crt", "key") for word in (f"--{name}_pem", str(closed))]
    assert f"cannot read ca_pem '{closed}': Permission denied" in ank(*pems, "get", "agents", cwd=tmp_path).stderr
    settings = ank("--ank-config", str(closed), "get", "agents", cwd=tmp_path)
    assert f"cannot read {closed}: Permission denied" in settings.stderr


@needs_limits
def test_a_folder_without_write_permission_for_certificates_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    done = ank("certs", "create", str(tmp_path / "certs"), cwd=tmp_path)
    assert done.stderr.startswith(
        f"{ERROR}cannot write to '{tmp_path}/certs': Permission denied\nhint: make it writable"
    )


@pytest.mark.parametrize("words", [["-k", "apply"], ["up"], ["-k", "set", "state", "desiredState"]])
def test_missing_files_and_folders_are_reported(tmp_path: Path, words: list[str]) -> None:
    missing = ank(*words, "none.yaml", cwd=tmp_path)
    assert f"hint: check the name; you are in '{tmp_path}'" in missing.stderr
    folder = ank(*words, str(tmp_path), cwd=tmp_path)
    assert f"hint: it is a folder; name the files in it, for example '{tmp_path}/*.yaml'" in folder.stderr


def test_an_error_of_the_machine_is_not_reported_as_an_error_of_the_output(tmp_path: Path) -> None:
    """Temporary files cannot be created; no file of the command line is affected."""
    (tmp_path / "m.yaml").write_text("apiVersion: v1\n")
    sabotage = "import sys, tempfile\ntempfile.tempdir = '/nowhere/at/all'\n"
    start = f"{sabotage}sys.argv[0] = 'ank'\nfrom ankaios.cli.__main__ import main\nmain()"
    done = subprocess.run(
        [command()[0], "-c", start, "up", str(tmp_path / "m.yaml")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"{ERROR}cannot use '/nowhere/at/all/ank-up-")
    assert done.stderr.splitlines()[0].endswith("No such file or directory")


def test_a_missing_story_of_simulate(tmp_path: Path) -> None:
    done = ank("simulate", "web.yaml", "--script", "missing.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"{ERROR}cannot use 'missing.yaml': No such file or directory\nhint: check the name; you are in '{tmp_path}'\n"
    )
