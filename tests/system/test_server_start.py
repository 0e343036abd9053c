"""How the real server starts, rejects a start, and ends.

Needs: nothing but the repository.
"""

import re
import signal
from collections.abc import Iterator

import pytest

from ankaios import __version__
from tests.support.wire.peer import ServerProcess

MANIFEST = """
apiVersion: v1
workloads:
  web: {agent: n1, runtime: podman, runtimeConfig: "image: alpine:3"}
"""


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    process = ServerProcess()
    yield process
    process.__exit__(None, None, None)


def workloads(server: ServerProcess) -> list[str]:
    with server.cli() as cli:
        state = cli.answer("r", completeStateRequest={})["completeStateResponse"]["completeState"]
        return sorted(state["desiredState"]["workloads"].get("workloads", {}))


def error_line(server: ServerProcess) -> str:
    (line,) = [line for line in server.log.splitlines() if " ERROR" in line]
    found = re.fullmatch(r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ERROR\] (.*)", line)
    assert found, line
    return found[1]


def test_without_a_manifest_the_server_starts_empty(server: ServerProcess) -> None:
    """[stest->swdd~server-starts-without-startup-config~1]
    [stest->swdd~server-supports-cli-argument-for-insecure-communication~1]
    """
    server.start("--insecure")
    assert workloads(server) == []
    assert "Insecure mode" in server.log


@pytest.mark.parametrize("flag", ["-m", "--startup-manifest", "-c", "--startup-config"])
def test_the_server_begins_with_the_startup_manifest(server: ServerProcess, flag: str) -> None:
    server.start("-k", flag, server.write("state.yaml", MANIFEST))
    assert workloads(server) == ["web"]


def test_settings_are_taken_from_the_config_file(server: ServerProcess) -> None:
    """[stest->swdd~server-loads-config-file~1]"""
    manifest = server.write("state.yaml", MANIFEST)
    config = server.write("c.conf", f"version = 'v1'\ninsecure = true\nstartup_manifest = '{manifest}'\nother = 1\n")
    server.start("-x", config)
    assert workloads(server) == ["web"]


def test_insecure_may_come_from_the_environment() -> None:
    """[stest->swdd~server-supports-cli-argument-for-insecure-communication~1]"""
    with ServerProcess(environ={"ANKSERVER_INSECURE": "true"}) as server:
        assert workloads(server) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_cleanly_after_a_signal(server: ServerProcess, number: signal.Signals) -> None:
    server.start("-k")
    with server.cli() as cli:
        cli.answer("r", completeStateRequest={"fieldMask": ["agents"]})
        assert server.stop(number) == 0
    assert "Traceback" not in server.log


@pytest.mark.parametrize(
    ("manifest", "context", "why"),
    [
        (None, "Could not read the startup config", "cannot read"),
        ("a: b: c", "Parsing start config failed with error", "cannot read the startup manifest"),
        (
            "apiVersion: v1\nworkloads: {web: {}}",
            "Parsing start config failed with error",
            "workloads.web: missing field",
        ),
        (MANIFEST.replace("}", ", tags: [a]}"), "Invalid tags format in startup manifest", "'web'"),
        ("apiVersion: v9", "server error", "Unsupported API version. Received 'v9', expected 'v1'"),
        (MANIFEST.replace("web", "w.b"), "server error", "Unsupported workload name 'w.b'."),
        (MANIFEST.replace("}", ", configs: {c: nope}}"), "server error", "config key 'nope' that does not exist"),
        (
            MANIFEST.replace("}", ", dependencies: {web: ADD_COND_RUNNING}}"),
            "server error",
            "workload dependency 'web' is part of a cycle.",
        ),
    ],
)
def test_an_invalid_manifest_prevents_the_start(
    server: ServerProcess, manifest: str | None, context: str, why: str
) -> None:
    """[stest->swdd~server-fails-on-invalid-startup-state~1]"""
    path = server.write("state.yaml", manifest) if manifest is not None else str(server.folder / "missing.yaml")
    assert server.run_to_end("-k", "-m", path) == 1
    assert error_line(server).startswith(f"{context}: '")
    assert why in error_line(server)


def test_without_a_security_setting_the_server_does_not_start(server: ServerProcess) -> None:
    assert server.run_to_end() == 1
    assert error_line(server) == (
        "Missing certificate files: 'Either provide mTLS config via the '--ca_pem \"\"', '--crt_pem \"\"' and "
        "'--key_pem \"\"' options or deactivate mTLS with the '--insecure' option!'"
    )


@pytest.mark.parametrize("text", ["", "version = 'v2'", "version = 'v1'\naddress = 'localhost:1'", "version ="])
def test_an_invalid_config_file_prevents_the_start(server: ServerProcess, text: str) -> None:
    """[stest->swdd~server-loads-config-file~1]"""
    server.address = None
    assert server.run_to_end("-k", "-x", server.write("c.conf", text)) == 1
    assert error_line(server).startswith("Config file could not be parsed: '")


def test_an_address_in_use_prevents_the_start(server: ServerProcess) -> None:
    server.start("-k")
    second = ServerProcess()
    try:
        assert second.run_to_end("-k", "-a", f"127.0.0.1:{server.port}") == 1
        assert error_line(second).startswith("server error: '")
    finally:
        second.__exit__(None, None, None)


@pytest.mark.parametrize("arguments", [["--unknown"], ["-a", "localhost:1"], ["-m"]])
def test_usage_errors_end_with_code_2(server: ServerProcess, arguments: list[str]) -> None:
    assert server.run_to_end(*arguments) == 2
    assert "usage: ank-server" in server.log


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_one_line(server: ServerProcess, flag: str) -> None:
    assert server.run_to_end(flag) == 0
    assert server.log == f"ank-server {__version__}\n"


def test_help_ends_with_code_0_and_shows_no_hidden_flags(server: ServerProcess) -> None:
    assert server.run_to_end("--help") == 0
    assert "--startup-manifest" in server.log
    assert "--startup-config" not in server.log
