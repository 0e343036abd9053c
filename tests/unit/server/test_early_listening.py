"""The address is read without the complete parser if possible."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ankaios.server.early_listening import DEFAULT_ADDRESS, early_address, listen_early
from ankaios.server.settings import read_server_settings


@pytest.fixture(autouse=True)
def no_default_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("early_listening", "settings"):
        monkeypatch.setattr(f"ankaios.server.{module}.DEFAULT_CONFIG_FILE", tmp_path / "default.conf")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-k"],
        ["--insecure", "-a", "127.0.0.2:5"],
        ["--address", "127.0.0.2:5", "-m", "state.yaml"],
        ["--address=127.0.0.2:5"],
        ["-a", "1.2.3.4:5", "-a", "127.0.0.2:6"],
        ["-m", "x", "--max-message-size", "2000", "-a", "127.0.0.2:5"],
        ["-a", "[::1]:7"],
    ],
)
def test_the_address_is_that_of_the_complete_parser(arguments: list[str]) -> None:
    assert early_address(arguments) == str(read_server_settings(arguments).address)


def test_the_config_file_is_read(tmp_path: Path) -> None:
    config = tmp_path / "c.conf"
    config.write_text("version = 'v1'\naddress = '127.0.0.3:9'\n")
    assert early_address(["-x", str(config)]) == "127.0.0.3:9"
    assert early_address(["-a", "127.0.0.2:5", "-x", str(config)]) == "127.0.0.2:5"
    config.write_text("version = 'v1'\n")
    assert early_address(["-x", str(config)]) == DEFAULT_ADDRESS


@pytest.mark.parametrize("arguments", [["-h"], ["--version"], ["-k", "--help"], ["-ka", "1.2.3.4:5"]])
def test_arguments_that_need_the_complete_parser_are_left_to_it(arguments: list[str]) -> None:
    assert listen_early(arguments) is None


@pytest.mark.parametrize("address", ["localhost:0", "nonsense", "127.0.0.1:x", "127.0.0.1:70000", "", "[::1:0"])
def test_an_invalid_address_is_left_to_the_complete_parser(address: str) -> None:
    assert listen_early(["-a", address]) is None


def test_an_address_in_use_is_left_to_the_later_attempt() -> None:
    early = listen_early(["-a", "127.0.0.1:0"])
    assert early is not None
    with early[0] as listener:
        assert listen_early(["-a", f"127.0.0.1:{listener.getsockname()[1]}"]) is None


def test_slow_modules_are_not_loaded_before_the_server_listens() -> None:
    """Importing asyncio, argparse or msgspec takes longer than everything before the server listens."""
    script = "import sys, ankaios.server.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-IS", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {script}"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"asyncio", "argparse", "msgspec", "logging", "google", "h2", "pathlib", "re", "typing"}


def test_a_socket_of_systemd_is_used(tmp_path: Path) -> None:
    """The process receives the socket as descriptor 3, and the variables are removed."""
    script = (
        "import os, socket; os.environ['LISTEN_PID'] = str(os.getpid());"
        "from ankaios.server.early_listening import listen_early;"
        "early = listen_early(['-a', '127.0.0.1:1']);"
        "print(early[0].getsockname()[1], repr(early[1]), 'LISTEN_FDS' in os.environ, os.get_inheritable(3))"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = f'exec {sys.executable} -c "{script}" 3<&{listener.fileno()}'
        os.set_inheritable(listener.fileno(), True)
        done = subprocess.run(["bash", "-c", command], env={**os.environ, "LISTEN_FDS": "1"}, close_fds=False,
                              capture_output=True, text=True, check=True)  # fmt: skip
        assert done.stdout.split() == [str(listener.getsockname()[1]), "''", "False", "False"]
