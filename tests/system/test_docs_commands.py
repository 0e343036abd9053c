"""Every command shown in README and docs runs, page by page, as a reader would type it.

A page is one shell session: all lines that start with `$ ` in its `console` blocks, in order, in an empty home folder
with the repository's programs on the path. Where the rights allow it the session has a network of its own, so the
default port is free. A line ending in ` &` starts something that ends with the page. Lines without `$ ` are output for
the reader; those in a block marked `console exact` must really be printed.
Needs: nothing but the repository; pages that show containers say so with `<!-- needs: podman -->`.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.podman_env import IMAGE, PodmanEnv, why_no_podman

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```console( exact)?\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
PAGE_LIMIT_SECONDS = 110


def commands(page: Path) -> list[str]:
    """Lines that start with `> ` go on with the line before, as a shell shows it."""
    found: list[str] = []
    for indent, _, body in BLOCK.findall(page.read_text()):
        for line in (line.removeprefix(indent) for line in body.splitlines()):
            if line.startswith("$ "):
                found.append(line[2:])
            elif line.startswith(">") and found:
                found[-1] += "\n" + line[1:].removeprefix(" ")
    return found


def expected_lines(page: Path) -> list[str]:
    return [
        line.strip()
        for _, exact, body in BLOCK.findall(page.read_text())
        if exact
        for line in body.splitlines()
        if line.strip() and not line.strip().startswith(("$ ", "> "))
    ]


def script(page: Path) -> str:
    """Stops at the first failing command and says which one it was."""
    lines = [
        "set -eEu -o pipefail",
        "trap 'code=$?; echo \"FAILED ($code): $BASH_COMMAND\" >&2; exit $code' ERR",
        "trap 'code=$?; trap - ERR; set +e; kill $(jobs -p) 2>/dev/null; wait; exit $code' EXIT",
    ]
    for command in commands(page):
        shown = command.replace("'", "'\\''")
        lines += [f"echo '$ {shown}'", command]
        if command.endswith("&"):
            lines.append("sleep 1.5")  # a reader needs longer to type the next line
    return "\n".join(lines) + "\n"


def isolated() -> list[str]:
    """A network of its own keeps the default port free and everybody else undisturbed."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return []
    return ["unshare", "--net", "--", "/bin/sh", "-c", 'ip link set lo up; exec "$@"', "sh"]


@pytest.fixture
def home() -> Iterator[Path]:
    """As short as a reader's: sockets below it must not have too long a path."""
    with tempfile.TemporaryDirectory(prefix="ank-docs-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.mark.timeout(PAGE_LIMIT_SECONDS + 10)
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, home: Path) -> None:
    podman = PodmanEnv(with_image=False) if "<!-- needs: podman -->" in page.read_text() else None
    if podman and (reason := why_no_podman()):
        pytest.skip(reason)
    environ = {
        **os.environ,
        **(podman.variables if podman else {}),
        "HOME": str(home),
        "TMPDIR": str(home),
        "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
        "NO_COLOR": "1",
        "REPO": str(ROOT),
    }
    if podman:
        podman.import_image()
        podman.podman("tag", IMAGE, "localhost/ankaios-demo")
    (home / "examples").symlink_to(ROOT / "examples")
    session = subprocess.Popen(
        [*isolated(), "bash", "-c", script(page)],
        cwd=home,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    output = ""
    try:
        output, _ = session.communicate(timeout=PAGE_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(session.pid, signal.SIGKILL)
        output, _ = session.communicate()
        output += "\n(did not end in time)"
    finally:
        _end_group(session.pid)
        if podman:
            podman.close()
    assert session.returncode == 0, output
    missing = [line for line in expected_lines(page) if line not in output]
    assert not missing, f"not printed: {missing}\n{output}"


def _end_group(group: int) -> None:
    """Background programs of the page."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, sign)
        except ProcessLookupError:
            return


def test_every_page_of_the_capabilities_shows_commands() -> None:
    """A tutorial without commands would be left out of the test above unnoticed."""
    silent = [page.name for page in (ROOT / "docs/tutorials").glob("*.md") if not commands(page)]
    assert not silent
