"""Global options over environment over file over default."""

import io
from pathlib import Path
from typing import Any

import pytest

from ankaios.cli.settings import DEFAULT_SERVER_URL, CliSettings, load_settings
from ankaios.cli.terminal.output import CliError, CliOutput


def loaded(
    values: dict[str, Any] | None = None, home: Path | None = None, **environ: str
) -> tuple[CliSettings, CliOutput]:
    output = CliOutput(io.StringIO(), io.StringIO(), {"NO_COLOR": "1"})
    return load_settings(values or {}, output, {"HOME": str(home or "/nonexistent"), **environ}), output


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".config/ankaios").mkdir(parents=True)
    return tmp_path


def write(home: Path, text: str) -> None:
    (home / ".config/ankaios/ank.conf").write_text(f"version = 'v1'\n{text}")


def test_defaults() -> None:
    settings, output = loaded()
    assert (settings.server_url, settings.timeout_ms, settings.no_wait, settings.insecure) == (
        DEFAULT_SERVER_URL,
        3000,
        False,
        False,
    )
    assert (output.quiet, output.verbose) == (False, False)


def test_the_file_sets_everything(home: Path) -> None:
    write(home, "server_url = 'http://f'\nresponse_timeout = 5\nno_wait = true\ninsecure = true\nverbose = true\n")
    settings, output = loaded(home=home)
    assert (settings.server_url, settings.timeout_ms, settings.no_wait, settings.insecure) == (
        "http://f",
        5,
        True,
        True,
    )
    assert output.verbose


def test_the_environment_overrides_the_file_and_the_command_line_overrides_both(home: Path) -> None:
    write(home, "server_url = 'http://f'\ninsecure = true\n")
    settings, _ = loaded(home=home, ANK_SERVER_URL="http://e", ANK_INSECURE="false")
    assert (settings.server_url, settings.insecure) == ("http://e", False)
    settings, _ = loaded({"server_url": "http://c", "insecure": True}, home, ANK_SERVER_URL="http://e")
    assert (settings.server_url, settings.insecure) == ("http://c", True)


def test_a_missing_tls_choice_is_reported_only_before_connecting() -> None:
    settings, output = loaded()
    with pytest.raises(CliError, match=r"^Missing certificate files: Either provide mTLS config"):
        settings.security(output)
    insecure, _ = loaded({"insecure": True})
    assert insecure.security(output) is None


def test_a_named_file_must_exist() -> None:
    with pytest.raises(CliError, match="Config file could not be parsed"):
        loaded({"ank_config": "/nonexistent/ank.conf"})
