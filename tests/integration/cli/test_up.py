"""`ank up` as a process: errors are reported immediately, and it cleans up after any way to end it."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.cli.ank import LIMIT, ank, command, environment

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--name", "a b"], "invalid value 'a b' for '--name <NAME>': Unsupported agent name"),
        (["--name", ""], "invalid value '' for '--name <NAME>': Unsupported agent name"),
        (["--runtime", "podmann"], "[possible values: podman, podman-kube, containerd, native]"),
    ],
)
def test_options_that_cannot_work_are_invalid_usage(words: list[str], expected: str) -> None:
    done = ank("up", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr


def test_a_rejection_by_the_server_is_reported_with_the_command_that_shows_the_line(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(
        "apiVersion: v1\nworkloads: {web: {runtime: native, runtimeConfig: 'command: [a]', configs: {a: b}}}"
    )
    done = ank("up", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert "references config key 'b' that does not exist" in done.stderr
    assert done.stderr.endswith(f"hint: to see where: ank validate {file}\n")


@pytest.mark.parametrize("number", SIGNALS, ids=[number.name for number in SIGNALS])
def test_two_signals_at_the_same_time_count_as_one(tmp_path: Path, number: signal.Signals) -> None:
    """`timeout` signals its child and then the process group, so the child receives two signals."""
    env = environment(TMPDIR=str(tmp_path))
    words = command("up", "--runtime", "native")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith(b"Server on ")
            process.send_signal(number)
            time.sleep(0.05)  # long enough for two signals, much less than `ank up` needs to end
            process.send_signal(number)
            assert process.stderr.readline().startswith(b"Stopping ")
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []
