"""`scripts/install` reports what is missing and how to install it, installs only that, and is fast the second time.

A replacement for Python records its arguments, and only the programs of a minimal Debian are on the path.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BARE = ("bash", "env", "cat", "cut", "dirname", "grep", "mkdir", "cp", "readlink", "rm", "sha256sum", "sh", "ldconfig")
PYTHON = """\
#!/bin/sh
echo "$@" >>"$CALLS"
case $1-$2 in
  -c-*version_info*) exit "${OLD:-0}" ;;
  -c-*ensurepip*) exit "${WITHOUT_VENV:-0}" ;;
  -m-venv) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
esac
"""
USER, SUPERUSER = "1000", "0"


class Machine:
    """With a clone, and few installed programs."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "clone"
        self._bin = folder / "bin"
        self._calls = folder / "calls"
        (self.clone / "scripts").mkdir(parents=True)
        (self.clone / "src").mkdir()
        shutil.copy(ROOT / "scripts/install", self.clone / "scripts")
        shutil.copy(ROOT / "pyproject.toml", self.clone)
        self._bin.mkdir()
        for program in BARE:
            if found := shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin"):
                (self._bin / program).symlink_to(found)
        self.program("python3", PYTHON)

    def program(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)

    def install(self, *words: str, user: str = USER, **extra: str) -> subprocess.CompletedProcess[str]:
        self.program("id", f"#!/bin/sh\necho {user}\n")
        self._calls.write_text("")
        environ = {"PATH": str(self._bin), "CALLS": str(self._calls), **extra}
        return subprocess.run(
            [self.clone / "scripts/install", *words],
            env=environ,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        return [line for line in self._calls.read_text().splitlines() if not line.startswith("-c")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_root_it_names_what_is_missing_and_continues(machine: Machine) -> None:
    done = machine.install()
    assert done.returncode == 0, done.stderr
    missing = done.stderr.splitlines()[0].removeprefix("these system packages are missing: ").split()
    assert {"podman", "zsh", "fish", "openssl", "git"} <= set(missing)
    assert done.stderr.splitlines()[1] == f"install them with:  sudo apt-get install {' '.join(missing)}"
    assert "continuing" in done.stderr
    assert any("--group dev" in line for line in machine.calls)


def test_root_installs_what_is_missing_and_nothing_else(machine: Machine, tmp_path: Path) -> None:
    machine.program("apt-get", f'#!/bin/sh\necho "$@" >>{tmp_path}/apt\n')
    machine.program("zsh", "#!/bin/sh\n")
    assert machine.install(user=SUPERUSER).returncode == 0
    update, install = (tmp_path / "apt").read_text().splitlines()
    assert update.startswith("update")
    assert {"podman", "fish"} <= set(install.split())
    assert "zsh" not in install.split()


def test_it_continues_after_a_failure_of_apt(machine: Machine) -> None:
    machine.program("apt-get", "#!/bin/sh\necho 'no network' >&2\nexit 100\n")
    done = machine.install(user=SUPERUSER)
    assert done.returncode == 0
    assert "no network" in done.stderr and "continuing" in done.stderr


def test_the_product_needs_no_packages_of_debian(machine: Machine) -> None:
    done = machine.install("product", user=SUPERUSER)
    assert (done.returncode, done.stderr) == (0, "")
    assert not any("dev" in line or "sdk" in line for line in machine.calls)


def test_without_venv_it_stops_and_names_the_package_to_install(machine: Machine) -> None:
    done = machine.install("product", WITHOUT_VENV="1")
    assert done.returncode == 1
    assert "sudo apt-get install python3-venv" in done.stderr


def test_an_old_python_is_refused(machine: Machine) -> None:
    done = machine.install(OLD="1")
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr and "PYTHON=" in done.stderr
    assert not (machine.clone / ".venv").exists()


def test_a_second_run_installs_nothing(machine: Machine) -> None:
    machine.install()
    machine.install()
    assert machine.calls == []
    machine.install("product")
    assert machine.calls == []


def test_a_clone_that_was_moved_gets_a_new_environment(machine: Machine) -> None:
    """The old one would use files of the old folder."""
    machine.install("product")
    (machine.clone / ".venv/of-the-old-place").touch()
    moved = machine.clone.with_name("moved")
    os.rename(machine.clone, moved)
    machine.clone = moved
    machine.install("product")
    assert not (moved / ".venv/of-the-old-place").exists()
    assert any(line.startswith("-m venv") for line in machine.calls)


def test_an_environment_whose_python_was_replaced_is_created_again(machine: Machine) -> None:
    machine.install("product")
    (machine.clone / ".venv/bin/python").write_text("#!/bin/sh\nexit 1\n")
    assert machine.install("product").returncode == 0
    assert any(line.startswith("-m venv --clear") for line in machine.calls)


@pytest.mark.parametrize("word", ["--help", "prodcut"])
def test_unknown_arguments_change_nothing(machine: Machine, word: str) -> None:
    done = machine.install(word)
    assert done.returncode == 1
    assert "usage: " in done.stderr and "product" in done.stderr
    assert not (machine.clone / ".venv").exists()


def test_a_package_that_cannot_be_fetched_is_reported(machine: Machine) -> None:
    machine.program("python3", PYTHON + 'case $3 in install) echo "no such host" >&2; exit 1 ;; esac\n')
    done = machine.install("product")
    assert done.returncode == 1
    assert "no such host" in done.stderr and "PIP_INDEX_URL" in done.stderr
    assert not list((machine.clone / ".venv").glob(".installed-*"))
