from pathlib import Path

import pytest

from ankaios.common.errors import Rejected, StartupFailed
from ankaios.server import settings
from ankaios.server.mutating_hooks import MutatingHook
from ankaios.server.settings import Address, ServerSettings, StartupPolicy, read_server_settings
from ankaios.storage.storage_url import SqliteLocation


@pytest.fixture(autouse=True)
def no_outside_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("INSECURE", "CA_PEM", "CRT_PEM", "KEY_PEM", "STORAGE", "STARTUP_MANIFEST_POLICY"):
        monkeypatch.delenv(f"ANKSERVER_{name}", raising=False)
    monkeypatch.setattr(settings, "DEFAULT_CONFIG_FILE", tmp_path / "default.conf")


def with_file(tmp_path: Path, text: str, *arguments: str) -> ServerSettings:
    path = tmp_path / "given.conf"
    path.write_text("version = 'v1'\n" + text)
    return read_server_settings(["-x", str(path), *arguments])


def test_defaults_are_those_of_the_documentation() -> None:
    defaults = read_server_settings([])
    assert str(defaults.address) == "127.0.0.1:25551"
    assert defaults.startup_manifest is None
    assert not defaults.insecure
    assert defaults.hooks == ()
    assert defaults.max_message_size == 64 * 1024 * 1024


@pytest.mark.parametrize("flag", ["-m", "--startup-manifest", "-c", "--startup-config"])
def test_the_startup_manifest_is_named_by_any_of_its_flags(flag: str) -> None:
    assert read_server_settings([flag, "state.yaml"]).startup_manifest == Path("state.yaml")


def test_the_config_file_has_a_value_for_every_setting(tmp_path: Path) -> None:
    """[utest->swdd~server-loads-config-file~1]"""
    read = with_file(
        tmp_path,
        """
        startup_manifest = '/state.yaml'
        address = '0.0.0.0:1234'
        insecure = true
        max_message_size = 4096
        unknown = 'ignored'
        """,
    )
    assert read.startup_manifest == Path("/state.yaml")
    assert read.address == Address("0.0.0.0", 1234)
    assert read.insecure
    assert read.max_message_size == 4096


def test_the_default_config_file_is_used_if_it_exists() -> None:
    settings.DEFAULT_CONFIG_FILE.write_text("version = 'v1'\naddress = '127.0.0.1:7'")
    assert read_server_settings([]).address.port == 7


def test_flags_take_precedence_over_the_environment_and_the_environment_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[utest->swdd~server-loads-config-file~1]"""
    file = "address = '127.0.0.1:1'\ninsecure = false\nstartup_manifest = 'file'"
    monkeypatch.setenv("ANKSERVER_INSECURE", "true")
    read = with_file(tmp_path, file, "-a", "127.0.0.1:2", "-m", "flag")
    assert (read.address.port, read.startup_manifest, read.insecure) == (2, Path("flag"), True)
    monkeypatch.setenv("ANKSERVER_INSECURE", "false")
    assert with_file(tmp_path, file, "-k").insecure


def test_pem_files_are_read_from_flags_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ca", "crt", "key"):
        path = tmp_path / f"{name}.pem"
        path.write_text(name)
        path.chmod(0o600)
    monkeypatch.setenv("ANKSERVER_KEY_PEM", str(tmp_path / "key.pem"))
    pem = read_server_settings(["--ca_pem", str(tmp_path / "ca.pem"), "--crt_pem", str(tmp_path / "crt.pem")]).pem
    assert [part.text for part in (pem.ca, pem.crt, pem.key) if part] == ["ca", "crt", "key"]


def test_hooks_run_by_priority_and_then_in_the_order_of_the_file(tmp_path: Path) -> None:
    read = with_file(
        tmp_path,
        """
        [[mutating_hooks]]
        name = 'late'
        prio = 9
        path = '/opt/hooks'
        time_limit = 5
        [[mutating_hooks]]
        name = 'first'
        [[mutating_hooks]]
        name = 'second'
        """,
    )
    assert read.hooks == (MutatingHook("first"), MutatingHook("second"), MutatingHook("late", 9, "/opt/hooks", 5))
    assert read.hooks[0].executable == "/usr/libexec/ankaios/hooks/first"


@pytest.mark.parametrize(
    "text",
    [
        "mutating_hooks = 'x'",
        "mutating_hooks = ['x']",
        "[[mutating_hooks]]\nprio = 1",
        "[[mutating_hooks]]\nname = ''",
        "[[mutating_hooks]]\nname = 'x'\nprio = 256",
        "[[mutating_hooks]]\nname = 'x'\nprio = -1",
        "[[mutating_hooks]]\nname = 'x'\nprio = true",
        "[[mutating_hooks]]\nname = 'x'\npath = 1",
        "[[mutating_hooks]]\nname = 'x'\ntime_limit = 0",
        "address = 'localhost:1'",
        "address = 1",
        "insecure = 'yes'",
    ],
)
def test_an_invalid_config_file_prevents_the_start(tmp_path: Path, text: str) -> None:
    with pytest.raises(StartupFailed) as caught:
        with_file(tmp_path, text)
    assert caught.value.context == "Config file could not be parsed"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--unknown"],
        ["-a", "localhost:1"],
        ["-a", "127.0.0.1"],
        ["extra"],
        ["-m"],
        ["--max-message-size", "9"],
        ["--insec"],
    ],
)
def test_usage_errors_end_with_code_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read_server_settings(arguments)
    assert caught.value.code == 2


def test_an_invalid_environment_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANKSERVER_INSECURE", "yes")
    with pytest.raises(SystemExit) as caught:
        read_server_settings([])
    assert caught.value.code == 2


def test_the_message_size_can_be_given_as_a_flag() -> None:
    assert read_server_settings(["--max-message-size", "8192"]).max_message_size == 8192


def test_the_storage_comes_from_the_flag_the_environment_or_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them counts. Without any of them, nothing is stored, as in Eclipse Ankaios."""
    assert read_server_settings([]).storage.location is None
    file = "storage = 'sqlite:/file.db'"
    assert with_file(tmp_path, file).storage.location == SqliteLocation(Path("/file.db"))
    monkeypatch.setenv("ANKSERVER_STORAGE", "sqlite:/environment.db")
    assert with_file(tmp_path, file).storage.location == SqliteLocation(Path("/environment.db"))
    flag = ("--storage", "sqlite:/flag.db")
    assert with_file(tmp_path, file, *flag).storage.location == SqliteLocation(Path("/flag.db"))
    with pytest.raises(StartupFailed, match="invalid storage URL 'redis:'"):
        read_server_settings(["--storage", "redis:"])


def test_the_startup_manifest_seeds_an_empty_store_unless_a_policy_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_server_settings([]).startup_policy is StartupPolicy.SEED
    assert read_server_settings(["--startup-manifest-policy", "always"]).startup_policy is StartupPolicy.ALWAYS
    assert with_file(tmp_path, "startup_manifest_policy = 'always'").startup_policy is StartupPolicy.ALWAYS
    with pytest.raises(StartupFailed, match="'startup_manifest_policy' is 'never', expected one of 'seed', 'always'"):
        with_file(tmp_path, "startup_manifest_policy = 'never'")
    monkeypatch.setenv("ANKSERVER_STARTUP_MANIFEST_POLICY", "always")
    assert read_server_settings([]).startup_policy is StartupPolicy.ALWAYS


def test_the_lease_of_a_leader_can_be_longer_but_not_shorter(tmp_path: Path) -> None:
    assert read_server_settings([]).storage.lease == 2
    assert read_server_settings(["--storage-lease", "5"]).storage.lease == 5
    assert with_file(tmp_path, "storage_lease = 7").storage.lease == 7
    with pytest.raises(StartupFailed, match="'storage_lease' is 1, expected 2 or more seconds"):
        with_file(tmp_path, "storage_lease = 1")


@pytest.mark.parametrize("text", ["127.0.0.1:0", "[::1]:25551", "0.0.0.0:65535"])
def test_an_address_is_a_literal(text: str) -> None:
    assert str(Address.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", ":1", "::1:1", "[127.0.0.1]:1", "1.2.3:1"),
        *("127.0.0.1:65536", "127.0.0.1:x", "127.0.0.1:", "127.0.0.1:²", "127.0.0.1:" + "9" * 5000),
    ],
)
def test_other_addresses_are_rejected(text: str) -> None:
    with pytest.raises(Rejected, match="invalid socket address syntax"):
        Address.parse(text)
