"""Every command shown in README, docs and the pages of the examples runs, page by page, as a reader would type it.

A page is one shell session in a folder that looks like a clone: it has all files of the repository, and changes
by the page do not affect the repository. If permitted, the session has a separate network, so that the default port is
free. A line that ends with ` &` starts a program that ends with the page. Commands that cannot be typed as shown are in
`INSTEAD`, with the reason, and the end of `scripts/test` lists them.
Needs: nothing but the repository; pages that show containers declare it with `<!-- needs: podman -->`.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.cli.command_line.arguments import HelpRequested, UsageError, VersionRequested
from ankaios.cli.command_line.parser import parse_command_line
from ankaios.cli.tree.ank import ANK
from tests.support.leftovers import RUN_VARIABLE
from tests.support.notes import note
from tests.support.podman_env import IMAGE, PodmanEnv, why_no_podman
from tests.support.runner import STEPS
from tests.support.shown_commands import KINDS, PAGES, REFERENCE, ROOT, SHELLS, Block, blocks, in_text, indented_code

HERE = Path(__file__).parent
PAGE_LIMIT_SECONDS = 110
COPY = '(cd "$REPO" && tar -c --exclude=./.venv --exclude=./.git .) | tar -x -C ankaios'
CLONE = (
    'git -c safe.directory="*" clone --quiet "$REPO" ankaios'
    if (ROOT / ".git").exists()
    else f"mkdir ankaios && {COPY}"
)
BORROW = 'ln -s "$REPO/.venv" ankaios/.venv'
WHOLE_RUN = "'scripts/test' would run itself; one step of it stands for all"
INSTEAD = {
    "git clone <address of this repository> ankaios": (
        f"{CLONE} && {BORROW}",
        "the address is this repository on this machine, whose .venv the clone borrows",
    ),
    "scripts/test    # everything a change has to pass": ("scripts/test trace", WHOLE_RUN),
    "scripts/test    # makes .venv, then everything a change has to pass; about ten minutes": (
        '"$REPO/scripts/test" trace',
        WHOLE_RUN,
    ),
}
# In running text: the test that runs it.
IN_TEXT = {
    ".venv/bin/mkdocs serve": "test_mkdocs_serves_the_site",
    "python3 -m build": "test_packaging.py",
    "scripts/build-deb": "test_packaging.py",
    "scripts/demo": "test_demo.py",
    "scripts/install": "every run of scripts/test",
    "scripts/generate-proto": "scripts/test proto",
    "scripts/release prepare 1.2.0": "test_release.py",
    "scripts/release check": "releasing.md",
    ".venv/bin/uv lock": "test_project_files.py",
    "uv sync": "test_project_files.py",
    ".venv/bin/pytest": "contributing.md",
    "tools/reference_docs.py": "contributing.md",
    "tools/architecture_picture.py": "test_docs_site.py",
    "tools/terminal_pictures.py": "test_docs_pictures.py",
    "tools/trace.py --missing": "scripts/test trace",
    "scripts/simulate": "simulation.md",
    "tools/simulation_sensitivity.py": "test_sensitivity.py",
    "tools/mutate_tagged.py": "test_mutate_tagged.py",
    "tools/mutate_tagged.py dependencies": "test_mutate_tagged.py",
    "apt-get remove": "package_lifecycle.sh",
    "apt-get purge": "package_lifecycle.sh",
    "journalctl -u ank-server -u ank-agent": "test_systemd.py",
    "systemctl reload ank-server": "test_systemd.py",
    "systemctl edit ank-server": "test_systemd.py",
    "systemctl edit ank-server.socket": "test_systemd.py",
    "systemctl enable --now ank-server.socket": "test_systemd.py",
}


def shown(page: Path) -> list[Block]:
    """The blocks that this test runs."""
    return [
        block for block in blocks(page) if block.language == "console" and KINDS.get(block.kind) == Path(__file__).name
    ]


def script(page: Path) -> str:
    """Stop at the first failing command and report it."""
    lines = [
        "set -eEu -o pipefail",
        "trap 'code=$?; echo \"FAILED ($code): $BASH_COMMAND\" >&2; exit $code' ERR",
        "trap 'code=$?; trap - ERR; set +e; kill $(jobs -p) 2>/dev/null; wait; exit $code' EXIT",
    ]
    last = ""
    for block in shown(page):
        refused = refusals(block)
        typed = [line for command in block.commands for line in typed_in(command, fails=command in refused)]
        lines += meanwhile(last, typed) if block.kind == "meanwhile" else typed
        last = block.commands[-1]
    return "\n".join(lines) + "\n"


def refusals(block: Block) -> set[str]:
    """The commands below which an error is shown."""
    found, last = set(), ""
    for line in block.lines:
        if line.startswith("$ "):
            last = line[2:]
        elif "error: " in line:
            found.add(last)
    return found


def typed_in(command: str, *, fails: bool = False) -> list[str]:
    run = INSTEAD.get(command, (command, ""))[0]
    if fails:
        run = f"if {run}; then false; fi"
    elif run.split()[-1] == "doctor":  # its findings depend on the machine
        run = f"{run} || [ $? = 1 ]"
    lines = ["echo '$ " + command.replace("'", "'\\''") + "'", run]
    if command.endswith("&"):
        lines.append("sleep 1.5")  # a reader needs longer to type the next line
    return lines


def meanwhile(command: str, typed: list[str]) -> list[str]:
    """While the command runs on a terminal, as it does for a reader."""
    words = command.split("#")[0].split()
    spawn = f"import pty; pty.spawn({words!r}, lambda there: __import__('os').read(there, 999))"
    return [
        f'"{sys.executable}" -c "{spawn}" >terminal.log 2>&1 </dev/zero &',
        "terminal=$!",
        "for _ in {1..100}; do ank -k get workloads 2>/dev/null | grep -q Running && break; sleep 0.2; done",
        *typed,
        'kill "$terminal"',
        'wait "$terminal" || true',
        "for _ in {1..100}; do ank -k get workloads >/dev/null 2>&1 || break; sleep 0.2; done",
    ]


def isolated() -> list[str]:
    """A separate network keeps the default port free and does not affect other tests."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return []
    return ["unshare", "--net", "--", "/bin/sh", "-c", 'ip link set lo up; exec "$@"', "sh"]


@pytest.fixture
def home() -> Iterator[Path]:
    """As short as a reader's: sockets below it must not have too long a path."""
    with tempfile.TemporaryDirectory(prefix="docs-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for entry in ROOT.iterdir():
            if entry.name not in (".git", ".demo", "build", "dist", "site"):
                (folder / entry.name).symlink_to(entry)
        yield folder


@pytest.mark.timeout(PAGE_LIMIT_SECONDS + 10)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if shown(page)], ids=lambda page: str(page.relative_to(ROOT).with_suffix(""))
)
def test_the_commands_of_a_page_run(page: Path, home: Path) -> None:
    needs_podman = "<!-- needs: podman -->" in page.read_text()
    if needs_podman and (reason := why_no_podman()):
        pytest.skip(reason)
    podman = PodmanEnv() if needs_podman else None
    if podman:
        podman.podman("tag", IMAGE, "localhost/ankaios-demo")
    try:
        code, output = type_in(script(page), home, podman.variables if podman else {})
    finally:
        if podman:
            podman.close()
    assert code == 0, output
    expected = [line for block in shown(page) if block.kind == "exact" for line in block.output]
    missing = [line for line in expected if line not in output]
    assert not missing, f"not printed: {missing}\n{output}"
    for command in (command for block in shown(page) for command in block.commands):
        if command in INSTEAD:
            instead, why = INSTEAD[command]
            note("instead", f"{command.split('#')[0].strip()}: {why}", f"run: {instead}")


def type_in(text: str, home: Path, more: dict[str, str]) -> tuple[int, str]:
    """Run a shell without variables of this test run; return exit code and output."""
    environ = {
        **{name: value for name, value in os.environ.items() if name != RUN_VARIABLE},
        **more,
        "HOME": str(home),
        "TMPDIR": str(home),
        "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
        "NO_COLOR": "1",
        "REPO": str(ROOT),
    }
    session = subprocess.Popen(
        [*isolated(), "bash", "-c", text],
        cwd=home,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = session.communicate(timeout=PAGE_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(session.pid, signal.SIGKILL)
        output, _ = session.communicate()
        output += "\n(did not end in time)"
    finally:
        _end_group(session.pid)
    return session.returncode, output


def _end_group(group: int) -> None:
    """Background programs of the page."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, sign)
        except ProcessLookupError:
            return


def test_every_tutorial_shows_commands() -> None:
    """Without this check, the test above would skip a tutorial without commands and pass."""
    without_commands = [page.name for page in (ROOT / "docs/tutorials").glob("*.md") if not shown(page)]
    assert not without_commands


# --- every shown command is run


def test_every_block_of_commands_is_run_by_a_test() -> None:
    for page in PAGES:
        assert indented_code(page) == [], f"{page}: mark it as ```console and begin commands with '$ '"
        for block in blocks(page):
            where = f"{page.relative_to(ROOT)}: {block.lines[:2]}"
            if page != REFERENCE:
                assert block.language not in SHELLS, f"{where}: mark it as ```console and begin commands with '$ '"
            if block.language == "console":
                assert block.kind in KINDS, f"{where}: no test runs blocks of the kind '{block.kind}'"
                assert block.commands, f"{where}: no line begins with '$ '"
            else:
                assert not block.commands, f"{where}: only blocks marked ```console are run"


@pytest.mark.parametrize(("kind", "file"), sorted(KINDS.items()))
def test_every_kind_of_block_names_the_test_that_runs_it(kind: str, file: str) -> None:
    assert f'"{kind}"' in (HERE / file).read_text() or kind == ""
    assert kind == "" or any(block.kind == kind for page in PAGES for block in blocks(page)), "no page has such a block"


def test_commands_that_are_run_in_another_form_are_still_shown() -> None:
    commands = {command for page in PAGES for block in shown(page) for command in block.commands}
    assert set(INSTEAD) <= commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT).with_suffix("")))
def test_commands_in_running_text_exist(page: Path) -> None:
    """Commands of `ank` are accepted by its parser; all others are run by a test."""
    executed = {command for page in PAGES for block in blocks(page) for command in block.commands}
    for command in in_text(page):
        words = command.split(" | ")[0].split()
        if words[0].endswith("ank"):
            assert why_not_understood(words[1:]) is None, command
        elif words[0] == "scripts/test":
            assert set(words[1:]) <= set(STEPS)
        elif words[0].startswith("examples/"):
            assert any(command in line for line in executed), f"{command} is not run by any page"
        else:
            assert command in IN_TEXT, f"{page.name}: no test runs '{command}'"


def why_not_understood(words: list[str]) -> str | None:
    """A missing file or name is accepted: the text describes the command, not one use of it."""
    try:
        parse_command_line(ANK, words)
    except (HelpRequested, VersionRequested):
        return None
    except UsageError as fault:
        return None if "required" in str(fault) else str(fault)
    return None


def test_mkdocs_serves_the_site() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mkdocs", "serve", "--dev-addr", f"127.0.0.1:{port}"]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log)
        try:
            assert "<title>Ankaios in Python</title>" in fetched(f"http://127.0.0.1:{port}/", server)
            assert re.search(r"<h1[^>]*>Quickstart", fetched(f"http://127.0.0.1:{port}/quickstart.html", server))
        finally:
            server.terminate()
            server.wait(20)


def fetched(url: str, server: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=10) as page:
                return str(page.read(), "utf-8")
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"nothing was served at {url}")
