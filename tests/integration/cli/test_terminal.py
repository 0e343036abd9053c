"""`ank` on a pseudo terminal, and completion in real shells."""

import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from ankaios.common.pb import ank_base_pb2 as base
from tests.integration.cli.ank import SOURCES, command, environment, example_state
from tests.integration.cli.scripted_server import ScriptedServer, states
from tests.integration.cli.test_updates import DB_ID, MANIFEST, Cluster, served

WEB_ID = next(iter(example_state().workloadStates.agentStateMap["n1"].wlNameStateMap["web"].idStateMap))


class Terminal:
    """`ank` on a terminal of a chosen size; `text` is its output so far."""

    def __init__(self, *words: str, columns: int = 80, lines: int = 24, **env: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            command(*words), stdin=theirs, stdout=theirs, stderr=theirs, env=environment(None, TERM="xterm", **env)
        )
        os.close(theirs)
        self.text = ""

    def read_until(self, pattern: str) -> str:
        while not re.search(pattern, self.text):
            self.text += os.read(self._ours, 65536).decode().replace("\r\n", "\n")
        return self.text

    def end(self) -> str:
        try:
            while data := os.read(self._ours, 65536):
                self.text += data.decode().replace("\r\n", "\n")
        except OSError:  # Linux reports the end of a pseudo terminal this way
            pass
        self.process.wait(20)
        os.close(self._ours)
        return self.text


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def on_screen(text: str) -> list[str]:
    """The lines that the terminal shows: interprets the control sequences that move the cursor or clear a line."""
    screen, row = [""], 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\n|\r|[^\x1b\n\r]+", text):
        if token == "\n":
            row += 1
            screen += [""] * (row + 1 - len(screen))
        elif token.endswith("A") and token[0] == "\x1b":
            row -= int(token[2:-1])
        elif token == "\x1b[2K":
            screen[row] = ""
        elif token[0] not in "\x1b\r":
            screen[row] += token
    return [line.rstrip() for line in screen]


WAIT_TABLE = """\
Successfully applied the manifest(s).
Waiting for workload(s) to reach desired states (press Ctrl+C to interrupt).

WORKLOAD NAME   AGENT   RUNTIME     EXECUTION STATE    ADDITIONAL INFO
db              n1      podman    / Pending(Initial)"""


def test_the_wait_table_is_redrawn_in_place(tmp_path: Path) -> None:
    (tmp_path / "db.yaml").write_text(MANIFEST)
    with served(Cluster(added=[f"db.{DB_ID}.n1"])) as server:
        terminal = Terminal("-k", "-s", server.url, "apply", str(tmp_path / "db.yaml"))
        waiting = on_screen(terminal.read_until(r"/ Pending"))
        server.push(states(("db", DB_ID, "n1", {"running": base.RUNNING_OK})))
        done = on_screen(terminal.end())
    assert waiting == WAIT_TABLE.splitlines()
    assert done[:3] == waiting[:3]
    assert done[3:] == [
        "WORKLOAD NAME   AGENT   RUNTIME     EXECUTION STATE   ADDITIONAL INFO",
        "db              n1      podman      Running(Ok)",
        "",
    ]
    assert terminal.process.returncode == 0


def test_a_signal_ends_the_wait_table_with_a_visible_cursor(tmp_path: Path) -> None:
    (tmp_path / "db.yaml").write_text(MANIFEST)
    with served(Cluster(added=[f"db.{DB_ID}.n1"])) as server:
        terminal = Terminal("-k", "-s", server.url, "apply", str(tmp_path / "db.yaml"))
        assert "\x1b[?25l" in terminal.read_until(r"/ Pending")
        terminal.process.send_signal(signal.SIGINT)
        text = terminal.end()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert terminal.process.returncode == -signal.SIGINT


def test_a_watched_table_is_redrawn_in_place_until_a_signal() -> None:
    with ScriptedServer(example_state()) as server:
        terminal = Terminal("-k", "-s", server.url, "get", "workloads", "--watch")
        terminal.read_until(r"Running")
        server.push(states(("web", WEB_ID, "n1", {"failed": base.FAILED_LOST})))
        shown = on_screen(terminal.read_until(r"Failed\(Lost"))
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end().rstrip().endswith("\x1b[?25h")
    assert [line.split()[0] for line in shown] == ["WORKLOAD", "web"]
    assert terminal.process.returncode == -signal.SIGTERM


def test_states_are_coloured_on_a_terminal_unless_disabled() -> None:
    with ScriptedServer(example_state()) as server:
        words = ("-k", "-s", server.url, "get", "workloads")
        coloured = Terminal(*words).end()
        uncoloured = Terminal(*words, NO_COLOR="1").end()
    assert "\x1b[32mRunning(Ok)    \x1b[39m" in coloured
    assert plain(coloured) == uncoloured
    assert uncoloured.splitlines()[1] == "web             n1      podman    Running(Ok)                      "


def test_additional_info_is_wrapped_to_the_width_and_cannot_control_the_terminal() -> None:
    state = example_state()
    web = state.workloadStates.agentStateMap["n1"].wlNameStateMap["web"].idStateMap[WEB_ID]
    web.additionalInfo = "0123456789abcdefghij\x1b[2J"
    with ScriptedServer(state) as server:
        text = Terminal("-k", "-s", server.url, "get", "workloads", columns=68, NO_COLOR="1").end()
    assert text.splitlines()[1:] == [
        "web             n1      podman    Running(Ok)       0123456789abcdef",
        " " * 52 + "ghij\N{REPLACEMENT CHARACTER}[2J        ",
    ]


def test_a_narrow_terminal_cuts_the_lines() -> None:
    with ScriptedServer(example_state()) as server:
        text = Terminal("-k", "-s", server.url, "get", "workloads", columns=20, NO_COLOR="1").end()
    assert text.splitlines() == ["WORKLOAD NAME   AGEN", "web             n1  "]


@pytest.fixture
def ank_in_path(tmp_path: Path) -> dict[str, str]:
    program = tmp_path / "bin/ank"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ankaios "$@"\n')
    program.chmod(0o755)
    return environment(PATH=f"{program.parent}:{os.environ['PATH']}", PYTHONPATH=str(SOURCES))


def in_bash(env: dict[str, str], line: str, url: str = "", cwd: Path | None = None) -> list[str]:
    """Source the script, then return the completions of bash at the end of the line."""
    words = line.split(" ")
    script = f"""
        source <(COMPLETE=bash ank)
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
        COMP_CWORD={len(words) - 1}
        compopt() {{ printf 'option %s\\n' "$*"; }}
        _ank_complete
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    connection = {"ANK_SERVER_URL": url, "ANK_INSECURE": "true"} if url else {}
    done = subprocess.run(
        ["bash", "-c", script], env=env | connection, capture_output=True, text=True, timeout=30, cwd=cwd
    )
    assert done.stderr == ""
    return [found for found in done.stdout.splitlines() if found]


def test_bash_completes_commands_options_and_values(ank_in_path: dict[str, str]) -> None:
    assert in_bash(ank_in_path, "ank de") == ["describe", "delete"]
    assert in_bash(ank_in_path, "ank -k get wor") == ["workload"]
    assert in_bash(ank_in_path, "ank get workloads --w") == ["--watch"]
    assert in_bash(ank_in_path, "ank get state -o ") == ["yaml", "json"]
    assert in_bash(ank_in_path, "ank get workloads --state Run") == [r"Running\(Ok\)"]
    assert in_bash(ank_in_path, "ank apply ") == ["option -o default"]


def test_bash_completes_names_from_the_server(ank_in_path: dict[str, str]) -> None:
    with ScriptedServer(example_state()) as server:
        assert in_bash(ank_in_path, "ank logs ", server.url) == ["web"]
        assert in_bash(ank_in_path, "ank get workloads --agent ", server.url) == ["n1"]
        assert in_bash(ank_in_path, "ank delete config i", server.url) == ["image"]
        masks = in_bash(ank_in_path, "ank get state ", server.url)
        typed = in_bash(ank_in_path, f"ank -k -s {server.url} logs w")
    assert {"desiredState.workloads.web", "desiredState.configs.image", "workloadStates.n1.web"} <= set(masks)
    assert {"agents.n1.status", "agents.n1.tags"} <= set(masks)
    assert typed == ["web"]


def test_bash_offers_and_prints_nothing_without_a_server(ank_in_path: dict[str, str]) -> None:
    assert in_bash(ank_in_path, "ank logs ", "http://127.0.0.1:1") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(shell: str, ank_in_path: dict[str, str]) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = subprocess.run(["ank"], env=ank_in_path | {"COMPLETE": shell}, capture_output=True, text=True, timeout=30)
    setup = "autoload -Uz compinit; compinit -u; " if shell == "zsh" else ""
    done = subprocess.run(
        [shell, "-c", setup + script.stdout], env=ank_in_path, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "elvish", "powershell"])
def test_every_shell_has_a_script_that_calls_ank(shell: str, ank_in_path: dict[str, str]) -> None:
    script = subprocess.run(["ank"], env=ank_in_path | {"COMPLETE": shell}, capture_output=True, text=True, timeout=30)
    assert script.returncode == 0
    assert "COMPLETE" in script.stdout and "_ANK_COMPLETE_INDEX" in script.stdout


def test_an_unknown_shell_is_wrong_usage(ank_in_path: dict[str, str]) -> None:
    done = subprocess.run(["ank"], env=ank_in_path | {"COMPLETE": "dos"}, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "unknown shell 'dos'" in done.stderr
