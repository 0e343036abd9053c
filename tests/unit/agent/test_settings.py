from pathlib import Path

import pytest

from ankaios import __version__
from ankaios.agent.__main__ import main
from ankaios.agent.agent import connectors_for
from ankaios.agent.settings import default_run_folder, read_agent_settings
from ankaios.common.config import require_security
from ankaios.common.errors import StartupFailed


@pytest.fixture(autouse=True)
def no_outside_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ankaios.agent.settings.DEFAULT_CONFIG_FILE", tmp_path / "default.conf")
    for name in ("INSECURE", "CA_PEM", "CRT_PEM", "KEY_PEM"):
        monkeypatch.delenv(f"ANKAGENT_{name}", raising=False)


def a_file(tmp_path: Path, text: str, name: str = "agent.conf") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def test_defaults() -> None:
    settings = read_agent_settings(["-n", "agent_A", "-k"])
    assert settings.name == "agent_A"
    assert settings.server_url == "https://127.0.0.1:25551"
    assert settings.run_folder == default_run_folder()
    assert settings.insecure
    assert settings.tags == {}
    assert settings.runtimes is None


def test_flags_take_precedence_over_environment_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_file(
        tmp_path,
        """
        version = 'v1'
        name = 'file'
        server_url = 'http://file:1'
        run_folder = '/file'
        insecure = false
        runtimes = ['podman']
        unknown = 1
        [tags]
        from = 'file'
        """,
    )
    settings = read_agent_settings(["-x", file])
    assert (settings.name, settings.server_url, settings.run_folder) == ("file", "http://file:1", Path("/file"))
    assert (settings.tags, settings.runtimes, settings.insecure) == ({"from": "file"}, ("podman",), False)
    monkeypatch.setenv("ANKAGENT_INSECURE", "true")
    flags = ["-x", file, "-n", "flag", "-s", "http://flag:1", "-r", "/flag", "-t", "a=1=2", "-t", "b=", "-t", "a=3"]
    settings = read_agent_settings(flags)
    assert (settings.name, settings.server_url, settings.run_folder) == ("flag", "http://flag:1", Path("/flag"))
    assert (settings.tags, settings.insecure) == ({"a": "3", "b": ""}, True)


def test_the_default_file_is_read_if_it_exists(tmp_path: Path) -> None:
    a_file(tmp_path, "version = 'v1'\nname = 'default'", "default.conf")
    assert read_agent_settings([]).name == "default"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = 'x'", "version"),
        ("version = 'v2'", "version"),
        ("version = 'v1", "agent.conf"),
        ("version = 'v1'\nname = 7", "'name' must be a string"),
        ("version = 'v1'\nname = 'x'\ntags = {a = 1}", "'tags.a' must be a string"),
        ("version = 'v1'\nname = 'x'\nruntimes = [1]", "list of strings"),
        ("version = 'v1'\nname = 'x'\npodman_socket = 'podman.sock'", "'podman_socket' must be an absolute path"),
        ("version = 'v1'\nname = 'x'\nca_pem = '/x'\nca_pem_content = 'y'", "ca_pem"),
    ],
)
def test_an_invalid_file_is_reported_with_its_error(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(StartupFailed, match=complaint):
        read_agent_settings(["-x", a_file(tmp_path, text)])


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ([], "Agent name is invalid"),
        (["-n", ""], "Agent name is invalid"),
        (["-n", "a.b"], "a.b"),
        (["-n", "grün"], "grün"),
        (["-n", "a", "-s", "tcp://x"], "Wrong server address format"),
        (["-n", "a", "-s", "http://"], "is not of the form https://<host>:<port>"),
        (["-n", "a", "-s", "http://host:port"], "is not of the form https://<host>:<port>"),
        (["-n", "a", "-s", "http://a..b:1"], "is not of the form https://<host>:<port>"),
        (["-n", "a", "-s", "http://host:99999"], "with a port up to 65535"),
        (["-n", "a", "-x", "/nowhere"], "/nowhere"),
    ],
)
def test_invalid_values_prevent_the_start(flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StartupFailed, match=complaint):
        read_agent_settings(flags)
    assert main(flags) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--unknown"], ["-t", "novalue"], ["-k", "true"], ["--nam", "x"]])
def test_usage_errors_have_their_own_code(flags: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["-n", "a", *flags])
    assert end.value.code == 2


def test_an_invalid_switch_in_the_environment_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANKAGENT_INSECURE", "yes")
    with pytest.raises(SystemExit) as end:
        main(["-n", "a"])
    assert end.value.code == 2


def test_a_flag_and_its_value_may_be_one_word() -> None:
    settings = read_agent_settings(["-nflag", "--server-url=http://flag:1", "-kt", "a=1"])
    assert (settings.name, settings.server_url, settings.insecure, settings.tags) == (
        *("flag", "http://flag:1", True),
        {"a": "1"},
    )


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("-V", "--version", "-h", "--help"):
        with pytest.raises(SystemExit) as end:
            main([flag])
        assert end.value.code == 0
    out = capsys.readouterr().out
    assert f"ank-agent {__version__}" in out
    assert "ANKAGENT_KEY_PEM" in out


def test_without_certificates_and_without_insecure_the_agent_does_not_start() -> None:
    with pytest.raises(StartupFailed, match=r"--ca_pem.*--crt_pem.*--key_pem.*--insecure"):
        settings = read_agent_settings(["-n", "a"])
        require_security(settings.pem, settings.insecure)


def test_an_agent_needs_a_runtime(tmp_path: Path) -> None:
    """[utest->swdd~agent-supports-multiple-runtime-connectors~1]"""
    for runtimes in ("[]", "['vm', 'jail']"):
        file = a_file(tmp_path, f"version = 'v1'\nname = 'a'\nruntimes = {runtimes}")
        with pytest.raises(StartupFailed, match="podman"):
            connectors_for(read_agent_settings(["-x", file]))


def test_podman_is_listed_early_only_by_agents_that_use_it(tmp_path: Path) -> None:
    assert read_agent_settings(["-n", "a"]).uses_podman
    for runtimes, uses in (("['podman']", True), ("['native', 'podman-kube']", True), ("['native']", False)):
        file = a_file(tmp_path, f"version = 'v1'\nname = 'a'\nruntimes = {runtimes}")
        assert read_agent_settings(["-x", file]).uses_podman is uses


def test_a_podman_socket_selects_the_service_that_runs_containers(tmp_path: Path) -> None:
    assert read_agent_settings(["-n", "a"]).podman.socket is None
    file = a_file(tmp_path, "version = 'v1'\nname = 'a'\npodman_socket = '/run/podman/podman.sock'")
    podman = read_agent_settings(["-x", file]).podman
    assert podman.plain_environment()["CONTAINER_HOST"] == "unix:///run/podman/podman.sock"


@pytest.mark.parametrize(
    "url", ["http://host", "https://[::1]:25551/path", "http://10.0.0.1:1?x#y", "http://host:65535"]
)
def test_every_address_that_a_connection_accepts_is_accepted(url: str) -> None:
    assert read_agent_settings(["-n", "a", "-s", url]).server_url == url


def test_the_state_folder_and_the_time_without_a_server_are_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = read_agent_settings(["-n", "a", "-k"])
    assert (plain.state_dir, plain.offline_start_after) == (None, 5)
    file = a_file(tmp_path, "version = 'v1'\nstate_dir = '/file'\noffline_start_after = 9\n")
    settings = read_agent_settings(["-n", "a", "-k", "-x", file])
    assert (settings.state_dir, settings.offline_start_after) == (Path("/file"), 9)
    monkeypatch.setenv("ANKAGENT_STATE_DIR", "/env")
    assert read_agent_settings(["-n", "a", "-k", "-x", file]).state_dir == Path("/env")
    assert read_agent_settings(["-n", "a", "-k", "-x", file, "--state-dir", "/flag"]).state_dir == Path("/flag")


def test_a_negative_time_without_a_server_is_rejected(tmp_path: Path) -> None:
    file = a_file(tmp_path, "version = 'v1'\noffline_start_after = -1\n")
    with pytest.raises(StartupFailed, match="'offline_start_after' must not be negative, found '-1'"):
        read_agent_settings(["-n", "a", "-k", "-x", file])
