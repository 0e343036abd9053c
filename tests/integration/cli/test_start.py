"""The start of every command: settings, certificates, connecting, usage, help."""

import json
import subprocess
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from ankaios import __version__
from ankaios.common.model.schema import schema_text
from tests.integration.cli.ank import ERROR, WARN, ank, command, environment, example_state
from tests.integration.cli.scripted_server import ScriptedServer

NO_TLS_CHOICE = (
    "Missing certificate files: Either provide mTLS config via the '--ca_pem \"\"', '--crt_pem \"\"' and "
    "'--key_pem \"\"' options or deactivate mTLS with the '--insecure' option!"
)


def first_line(text: str) -> str:
    return text.partition("\n")[0]


def test_a_missing_server_is_named_and_a_hint_explains_how_to_start_one() -> None:
    for words in (("get", "state"), ("get", "workloads"), ("logs", "x"), ("delete", "config", "x")):
        done = ank("-k", "-s", "https://127.0.0.1:1", *words)
        assert (done.returncode, done.stdout) == (1, "")
        text, hint = done.stderr.splitlines()
        assert text == f"{ERROR}Could not connect to Ankaios server on 'http://127.0.0.1:1'."
        assert hint.startswith("hint: ") and "ank-server --insecure" in hint


def test_a_refused_version_is_reported_with_the_text_of_the_server() -> None:
    with ScriptedServer() as server:
        server.hello_status = (grpc.StatusCode.FAILED_PRECONDITION, "Unsupported protocol version '9'.")
        done = ank("get", "state", url=server.url)
    expected = f"{ERROR}Ankaios version mismatch: 'Unsupported protocol version '9'.'.\n"
    assert (done.returncode, done.stderr) == (1, expected)


def test_the_hello_carries_the_version() -> None:
    with ScriptedServer() as server:
        ank("get", "configs", url=server.url)
    assert server.received[0].commanderHello.protocolVersion == __version__


def test_an_invalid_url_and_a_missing_tls_setting_are_reported_without_prefix() -> None:
    bad = ank("-k", "-s", "localhost", "get", "agents")
    text, hint = bad.stderr.splitlines()
    assert text == f"{ERROR}Cannot connect to server: 'Wrong server address format: 'localhost'.'"
    assert hint.startswith("hint: an address looks like https://")
    missing = ank("get", "agents")
    text, hint = missing.stderr.splitlines()
    assert (missing.returncode, text) == (1, f"{ERROR}{NO_TLS_CHOICE}")
    assert hint.startswith("hint: 'ank -k …' connects to a server without TLS")


def test_settings_are_read_from_the_environment_and_the_file_in_the_home(tmp_path: Path) -> None:
    folder = tmp_path / ".config/ankaios"
    folder.mkdir(parents=True)
    with ScriptedServer(example_state()) as server:
        by_env = ank("get", "configs", env=environment(ANK_SERVER_URL=server.url, ANK_INSECURE="true"))
        (folder / "ank.conf").write_text(f"version = 'v1'\nserver_url = '{server.url}'\ninsecure = true\n")
        by_file = ank("get", "configs", env=environment(tmp_path))
        (folder / "ank.conf").write_text(f"version = 'v1'\n[default]\nserver_url = '{server.url}'\ninsecure = true\n")
        by_table = ank("get", "configs", env=environment(tmp_path))
        off_by_env = ank("get", "configs", env=environment(tmp_path, ANK_INSECURE="false"))
    assert [done.stdout for done in (by_env, by_file, by_table)] == ["CONFIG\nimage \n"] * 3
    assert first_line(off_by_env.stderr) == f"{ERROR}{NO_TLS_CHOICE}"


def test_a_file_that_cannot_be_used_ends_the_command(tmp_path: Path) -> None:
    file = tmp_path / "ank.conf"
    assert ank("-x", str(file), "get", "configs").returncode == 1
    file.write_text("server_url = 'x'")
    done = ank("-x", str(file), "get", "configs")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{ERROR}Config file could not be parsed: '")
    file.write_text("version = 'v1'\nquiet = true\n")
    assert ank("-x", str(file), "apply", "-", stdin="apiVersion: v1").stdout == ""


def test_invalid_certificates_are_reported(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("x")
    key.chmod(0o644)
    done = ank("--key_pem", str(key), "get", "configs")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{ERROR}Certificate error: '")
    assert done.stderr.endswith("hint: 'ank certs create DIR' makes files that fit together and have the right modes\n")
    for words in (["--ca_pem", str(tmp_path / "x")], ["-x", str(tmp_path / "x")]):
        assert ank(*words, "get", "configs").stderr.endswith("hint: check the name\n")


def test_certificates_override_the_insecure_option_with_a_warning(tmp_path: Path) -> None:
    words = []
    for name in ("ca_pem", "crt_pem", "key_pem"):
        (tmp_path / name).write_text("-----BEGIN NOTHING-----\n")
        (tmp_path / name).chmod(0o600)
        words += [f"--{name}", str(tmp_path / name)]
    done = ank("-k", *words, "-s", "https://127.0.0.1:1", "get", "configs")
    assert done.stdout.startswith(WARN)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{ERROR}Certificate error: 'cannot use ca_pem")


def test_a_missing_home_is_only_a_warning() -> None:
    env = environment()
    del env["HOME"]
    done = ank("apply", "-", stdin="apiVersion: v1", env=env)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{WARN}HOME is not set")


def test_version_and_help_are_printed_on_standard_output() -> None:
    for words in (("--version",), ("-V",)):
        done = ank(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"ank {__version__}\n", "")
    done = ank("get", "workloads", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ank get workloads --watch" in done.stdout
    assert ank("help", "apply").stdout == ank("apply", "-h").stdout
    for group in ("get", "delete"):
        done = ank(group, "help")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == ank(group, "--help").stdout
    assert ank("get", "help", "state").stdout == ank("get", "state", "--help").stdout


@pytest.mark.parametrize(
    "words", [(), ("get",), ("set",), ("delete",), ("run",), ("apply",), ("logs",), ("describe",), ("-k",)]
)
def test_a_command_without_its_arguments_prints_help_on_standard_error(words: tuple[str, ...]) -> None:
    done = ank(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: ank" in done.stderr and "-h, --help" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gett",), "unrecognized subcommand 'gett'"),
        (("get", "workloads", "--what"), "unexpected argument '--what' found"),
        (("get", "state", "-o", "xml"), "invalid value 'xml' for '-o <FORMAT>'"),
        (("get", "state", "--output", "json"), "unexpected argument '--output' found"),
        (("get", "workloads", "-k"), "unexpected argument '-k' found"),
        (("get", "agents", "x"), "unexpected argument 'x' found"),
        (("set", "state", "", "f"), "invalid value '' for '<MASK>...': an empty mask selects nothing; name a part"),
        (("set", "state", "only-one"), "the following required arguments were not provided:"),
        (("run", "workload", "x"), "the following required arguments were not provided:"),
        (("run", "workload", "x", "--tags", "k"), "invalid value 'k' for '--tags <KEY=VALUE>'"),
        (("delete", "workload"), "the following required arguments were not provided:"),
        (("logs", "-f"), "the following required arguments were not provided:"),
        (("logs", "x", "--tail", "many"), "invalid value 'many' for '--tail <N>'"),
        (("--response-timeout", "soon", "get", "state"), "invalid value 'soon' for '--response-timeout <MS>'"),
        (("-q", "-q", "get", "state"), "the argument '--quiet' cannot be used multiple times"),
        (("-s",), "a value is required for '--server-url <URL>' but none was supplied"),
    ],
)
def test_wrong_usage_ends_with_code_2(words: tuple[str, ...], expected: str) -> None:
    done = ank(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert first_line(done.stderr).startswith(f"error: {expected}")
    assert "\n\nUsage: ank" in done.stderr and done.stderr.endswith("\n\nFor more information, try '--help'.\n")


def test_an_invalid_value_in_the_environment_is_a_usage_error() -> None:
    done = ank("get", "state", env=environment(ANK_INSECURE="yes"))
    assert done.returncode == 2
    assert "ANK_INSECURE" in done.stderr


def test_the_schema_is_printed_unchanged() -> None:
    done = ank("schema")
    assert (done.returncode, done.stdout) == (0, schema_text())
    assert json.loads(done.stdout)["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_output_that_cannot_be_written_is_a_failure() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command("--help"), stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=30)
    assert (done.returncode, done.stderr) == (
        1,
        f"{ERROR}Could not write the output: No space left on device\n".encode(),
    )


def test_verbose_prints_debug_messages_on_standard_output_unless_quiet() -> None:
    with ScriptedServer(example_state()) as server:
        expected = ank("-v", "get", "configs", url=server.url)
        quiet = ank("-v", "-q", "get", "configs", url=server.url)
    assert expected.stdout == f"\x1b[38;5;12mdebug:\x1b[39m Connecting to '{server.url}'\nCONFIG\nimage \n"
    assert quiet.stdout == "CONFIG\nimage \n"
