"""Podman collects garbage late, and no container inherits the setting."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ankaios.runtimes.podman import environment
from ankaios.runtimes.podman.environment import (
    options_take_environment,
    settings_take_environment,
    with_late_collector,
)


def test_the_garbage_collector_of_podman_starts_late_unless_the_user_sets_it() -> None:
    assert with_late_collector({"A": "b"}) == {"A": "b", "GOGC": "400"}
    assert with_late_collector({"GOGC": "50"}) == {"GOGC": "50"}


@pytest.mark.parametrize(
    "options",
    [
        ["--env-host"],
        ["--env-host=true"],
        ["--env-file", "names"],
        ["--env-file=names"],
        ["--env", "GOGC"],
        ["--env", "GO*"],
        ["--env=GOGC"],
        ["--env"],
        ["-e", "GOGC"],
        ["-e", "*"],
        ["-eGOGC"],
        ["-ite", "GOGC"],
        ["-iteGOGC"],
        ["-p", "1:1", "-e", "A=b", "-e", "GOGC"],
    ],
)
def test_options_that_copy_variables_are_recognised(options: Sequence[str]) -> None:
    assert options_take_environment(options)


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--rm", "-d", "--name", "web"],
        ["-e", "A=b"],
        ["-eA=b"],
        ["-ite", "A="],
        ["--env", "A=b"],
        ["--env=A=b"],
        ["--network=host", "--label=env=test", "--volume", "/etc:/etc"],
    ],
)
def test_options_with_explicit_values_copy_nothing(options: Sequence[str]) -> None:
    assert not options_take_environment(options)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(environment, "_SYSTEM_FILES", (str(tmp_path / "etc/containers.conf"),))
    return tmp_path


@pytest.mark.parametrize(
    "place", ["etc/containers.conf", "etc/containers.conf.d/a.conf", ".config/containers/containers.conf", "given"]
)
def test_settings_files_that_copy_variables_are_recognised_at_each_path(home: Path, place: str) -> None:
    environ = {"HOME": str(home), "CONTAINERS_CONF": str(home / "given")}
    assert not settings_take_environment(environ)
    path = home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[containers]\n#env = ["A"]\n# env_host = true\nnetns = "none"\n')
    assert not settings_take_environment(environ)
    for line in ('env = ["GOGC"]', " env_host = true"):
        path.write_text(f"[containers]\n{line}\n")
        assert settings_take_environment(environ)
