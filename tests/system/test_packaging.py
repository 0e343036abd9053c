"""The shipped packages are tested: Debian package, wheel and sdist are built, installed, used and removed.

Needs: a Python package index for libraries and build tools; for the Debian package also dpkg, /usr/bin/python3 and the
rights to mount. The package is installed on an overlay over / that only the test sees; the machine stays as it is.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ankaios import __version__
from tests.support.cluster import free_port
from tests.support.debian_package import BUILD_SECONDS, dist_folder
from tests.support.shown_commands import installing

ROOT = Path(__file__).resolve().parents[2]
LIFECYCLE = ROOT / "tests/support/package_lifecycle.sh"
HELLO = ROOT / "examples/hello/manifest.yaml"
CONFFILES = {f"/etc/ankaios/{name}.conf" for name in ("ank", "ank-server", "ank-agent")}
VERSIONS = [f"{program} {__version__}" for program in ("ank", "ank-server", "ank-agent")]
RUNNING = r"hello +node +native +Running\(Ok\)"
UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private")
AS_ROOT_WITHOUT_SYSTEMD = """\
sudo() { "$@"; }
systemctl() {
  [ -x /usr/bin/systemctl ] || return 0
  set -- $(printf '%s\\n' "$@" | grep -vxe --now)
  command systemctl "$@"
}
"""
PORT = free_port()


def run(*command: str | Path, environ: Mapping[str, str] | None = None, cwd: Path = Path("/")) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={**(os.environ if environ is None else environ), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def needs_index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where no package can be fetched; a package that cannot be built is a failure."""
    target = tmp_path_factory.mktemp("index")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(target), "hatchling"]
    done = subprocess.run(fetch, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if done.returncode:
        pytest.skip(f"needs a Python package index: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="module")
def built(needs_index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `dist` with the sdist and the wheel made from it."""
    target = tmp_path_factory.mktemp("built") / "dist"
    run(sys.executable, "-m", "build", "--outdir", target, ROOT)
    return target


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return built / f"ankaios-{__version__}-py3-none-any.whl"


def versions_in(folder: Path) -> list[str]:
    return [run(folder / program, "--version").strip() for program in ("ank", "ank-server", "ank-agent")]


def test_sdist_and_wheel_contain_the_expected_files(built: Path, wheel: Path) -> None:
    assert sorted(path.name for path in built.iterdir()) == [wheel.name, f"ankaios-{__version__}.tar.gz"]
    names = zipfile.ZipFile(wheel).namelist()
    assert {"ankaios/py.typed", "ankaios/common/model/state.py", "ankaios/common/pb/ank_base_pb2.py"} <= set(names)
    tops = {name.split("/")[0] for name in names}
    assert tops == {"ankaios", f"ankaios-{__version__}.dist-info"}, "only the package itself"
    assert not [name for name in names if "__pycache__" in name]


def follow_the_docs(kind: str, dist: Path, environ: Mapping[str, str]) -> list[str]:
    """Run the commands of docs/installing.md next to the folder `dist` with the built packages; return the output."""
    return run("bash", "-euc", "\n".join(installing(kind)), environ=environ, cwd=dist.parent).splitlines()


@pytest.mark.timeout(BUILD_SECONDS + 10)
def test_the_wheel_installs_with_pip_into_a_fresh_environment(built: Path, tmp_path: Path) -> None:
    assert (
        follow_the_docs("pip", built, {**os.environ, "HOME": str(tmp_path), "PIP_NO_COMPILE": "1"})
        == [f"ank {__version__}"] * 2
    )
    assert versions_in(tmp_path / "ankaios/bin") == VERSIONS
    run(tmp_path / "ankaios/bin/python", "-c", "import pyudev")
    table = run(tmp_path / "ankaios/bin/ank", "up", "--settle", "--runtime", "native", HELLO)
    assert re.search(RUNNING, table)


@pytest.mark.timeout(BUILD_SECONDS + 10)
def test_the_wheel_installs_as_a_tool_of_uv(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    run(sys.executable, "-m", "pip", "--python", tmp_path / "v/bin/python", "install", "--quiet", "--no-compile", "uv")
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("XDG_")},
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}/.local/bin:{tmp_path}/v/bin:{os.environ['PATH']}",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    assert follow_the_docs("uv", built, environ) == [f"ank {__version__}"]
    assert versions_in(tmp_path / ".local/bin") == VERSIONS
    run("uv", "tool", "uninstall", "--quiet", "ankaios", environ=environ)
    assert list((tmp_path / ".local").rglob("ank*")) == []


def test_the_sdist_installs_with_its_extra_and_uninstalls_completely(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    python = tmp_path / "v/bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-compile", f"{built}/ankaios-{__version__}.tar.gz[udev]")
    run(python, "-c", "import pyudev")
    assert run(python, "-m", "ankaios", "--version").strip() == VERSIONS[0]
    assert versions_in(python.parent) == VERSIONS
    run(*pip, "uninstall", "--quiet", "--yes", "ankaios")
    assert list((tmp_path / "v").rglob("ank*")) == []


def why_no_debian_package() -> str | None:
    for program in ("apt-get", "dpkg-deb", "unshare", "ip", "setpriv", "runuser", "openssl", "/usr/bin/python3"):
        if shutil.which(program) is None:
            return f"building and installing a Debian package needs '{program}'"
    if os.geteuid() != 0:
        return "installing a Debian package needs root rights"
    if "overlay" not in Path("/proc/filesystems").read_text() or subprocess.call([*UNSHARE, "true"]):
        return "installing a Debian package without touching this machine needs overlay file systems and mount rights"
    if Path("/var/lib/dpkg/info/ankaios.list").exists():
        return "the Debian package is installed on this machine already"
    return None


@pytest.fixture(scope="module")
def lifecycle(needs_index: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Sections of the output of package_lifecycle.sh."""
    if reason := why_no_debian_package():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("deb")
    shutil.copytree(dist_folder(), folder / "dist")
    shutil.copy(HELLO, folder / "manifest.yaml")
    for name, kind in (("installed", "debian"), ("started", "debian-started"), ("removed", "debian-removed")):
        (folder / f"{name}.sh").write_text("\n".join([AS_ROOT_WITHOUT_SYSTEMD, *installing(kind), ""]))
    output = run(*UNSHARE, LIFECYCLE, folder)
    parts = re.split(r"^== (.*)\n", output, flags=re.MULTILINE)
    yield dict(zip(parts[1::2], parts[2::2], strict=True))
    shutil.rmtree(folder)


@pytest.mark.timeout(BUILD_SECONDS * 2)
def test_the_debian_package_runs_with_the_python_of_debian(lifecycle: Mapping[str, str]) -> None:
    assert "at /usr/bin/python3" in lifecycle["installed"]
    assert lifecycle["versions"].splitlines() == VERSIONS
    assert re.search(RUNNING, lifecycle["up"])
    assert re.search(RUNNING, lifecycle["up without root"])


def test_the_debian_package_sets_up_a_node_with_mutual_tls(lifecycle: Mapping[str, str]) -> None:
    assert re.search(r"^node1 ", lifecycle["started"], re.MULTILINE), lifecycle["started"]


def test_the_debian_package_leaves_only_settings_and_nothing_after_a_purge(lifecycle: Mapping[str, str]) -> None:
    """Certificates and the settings of root are user data."""
    theirs = ("/etc/ankaios/certs/", "/root/.config/")
    left = {path for path in lifecycle["left after remove"].split() if not path.startswith(theirs)}
    assert left == CONFFILES | {"/etc/ankaios/"}
    left = {path for path in lifecycle["left after purge"].split() if not path.startswith(theirs)}
    assert left == {"/etc/ankaios/"}, "kept only because of the certificates"


def test_an_update_keeps_changed_settings_and_brings_new_ones(lifecycle: Mapping[str, str]) -> None:
    settings = lifecycle["settings after the update"].splitlines()
    assert "/etc/ankaios/ank-agent.conf:ca_pem = '/etc/ankaios/certs/ca.pem'" in settings, lifecycle["updated"]
    assert "/etc/ankaios/ank.conf:# of the next version" in settings, lifecycle["updated"]


def test_systemd_accepts_the_units(lifecycle: Mapping[str, str]) -> None:
    if "no systemd" in lifecycle["units"]:
        pytest.skip("checking units needs systemd-analyze")
    assert lifecycle["units"] == ""


# --- services: the behaviour that the units declare, and their settings


class Notifications:
    """Replaces the part of systemd that receives notifications of a service."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(20)

    def wait_for(self, message: str, times: int = 1) -> None:
        while self.seen.count(message) < times:
            self.seen.append(self._socket.recv(4096).decode())

    def close(self) -> None:
        self._socket.close()


@contextmanager
def service(module: str, *arguments: str, folder: Path) -> Iterator[Notifications]:
    """A program as systemd starts one of Type=notify with a watchdog; ends it with SIGTERM."""
    listener = Notifications(folder / f"{module}.notify")
    environ = {**os.environ, "NOTIFY_SOCKET": str(listener.path), "WATCHDOG_USEC": "100000"}
    with (folder / f"{module}.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", module, *arguments], env=environ, stdout=log, stderr=log)
    try:
        listener.wait_for("READY=1")
        yield listener
        listener.wait_for("WATCHDOG=1", times=3)
        process.terminate()
        listener.wait_for("STOPPING=1")
        assert process.wait(20) == 0
    except TimeoutError:
        raise AssertionError(f"{listener.seen}\n{(folder / f'{module}.log').read_text()}") from None
    finally:
        process.kill()
        process.wait()
        listener.close()


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """The shipped settings with mutual TLS switched on, as docs/installing.md does it, and paths of this test."""
    run(sys.executable, "-m", "ankaios", "certs", "create", tmp_path / "certs")
    files = {}
    for path in (ROOT / "packaging/config").glob("*.conf"):
        text = re.sub(r"^#((ca|crt|key)_pem|server_url|address) =", r"\1 =", path.read_text(), flags=re.MULTILINE)
        for ours, here in (("/etc/ankaios/certs", f"{tmp_path}/certs"), ("/run/ankaios", str(tmp_path))):
            text = text.replace(ours, here)
        files[path.stem] = str(tmp_path / path.name)
        (tmp_path / path.name).write_text(text.replace(":25551", f":{PORT}"))
    return files


def test_services_report_readiness_and_watchdog_pings_to_systemd(settings: dict[str, str], tmp_path: Path) -> None:
    with (
        service("ankaios.server", "--server-config", settings["ank-server"], folder=tmp_path),
        service("ankaios.agent", "--agent-config", settings["ank-agent"], folder=tmp_path),
    ):
        agents = run(sys.executable, "-m", "ankaios", "--ank-config", settings["ank"], "get", "agents")
    assert "node1" in agents


def test_units_match_the_behaviour_of_the_services() -> None:
    for path in (ROOT / "packaging/systemd").glob("*.service"):
        lines = path.read_text().splitlines()
        assert {"Type=notify", "WatchdogSec=20"} <= set(lines)
        assert any(f"{line} ".startswith(f"ExecStart=/usr/bin/{path.stem} ") for line in lines)


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="the rule is for systemd-tmpfiles")
def test_old_files_in_the_default_run_folder_are_kept(tmp_path: Path) -> None:
    for folder in ("ankaios/node_native/web", "other"):
        (tmp_path / "tmp" / folder).mkdir(parents=True)
        (tmp_path / "tmp" / folder / "process").touch()
    (tmp_path / "age.conf").write_text("d /tmp 1777 - - 0\n")
    run("systemd-tmpfiles", f"--root={tmp_path}", "--clean", tmp_path / "age.conf", ROOT / "packaging/tmpfiles.conf")
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["ankaios"]
    assert (tmp_path / "tmp/ankaios/node_native/web/process").exists()


def test_shipped_settings_do_not_accept_unauthenticated_peers() -> None:
    for path in (ROOT / "packaging/config").glob("*.conf"):
        assert not re.search(r"^\s*insecure", path.read_text(), re.MULTILINE), path.name
