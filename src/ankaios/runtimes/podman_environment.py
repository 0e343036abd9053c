"""What podman finds in its environment, and what of it may reach containers.

Podman is a short-lived Go program that spends a tenth of its time on collecting garbage which its end would free
anyway. A collector that begins later saves that, for 5 MB more while podman runs. Containers must not inherit it, so a
call that may copy podman's environment into a container is made without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

COLLECTOR = "GOGC"
LATER = "400"  # collect when there is four times as much garbage as data; podman's own default is 100
_SYSTEM_FILES = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")


def with_late_collector(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Whoever has set it knows better."""
    return environ if COLLECTOR in environ else {**environ, COLLECTOR: LATER}


def options_take_environment(options: Sequence[str]) -> bool:
    """Whether `podman run` with these options may copy a variable of its own; in doubt it may.

    `--env-host` copies all, `--env-file` and `--env` those that are named without a value, also by patterns.
    """
    return any(_takes_environment(option, following) for option, following in pairwise([*options, ""]))


def _takes_environment(option: str, following: str) -> bool:
    if option.startswith("--"):
        name, has_value, value = option.partition("=")
        if name == "--env":
            return "=" not in (value if has_value else following)
        return name.startswith("--env")
    if option.startswith("-") and "e" in option:  # short options may be written together: -ite NAME
        return "=" not in (option.partition("e")[2] or following)
    return False


def settings_take_environment(environ: Mapping[str, str]) -> bool:
    """Whether containers.conf may tell podman to copy a variable into every container; in doubt it may."""
    return any(_sets_environment(path) for path in _settings_files(environ))


def _settings_files(environ: Mapping[str, str]) -> Iterator[str]:
    from glob import glob  # not at each start of an agent

    own = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    yield from (environ[name] for name in ("CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE") if environ.get(name))
    for path in (*_SYSTEM_FILES, f"{own}/containers/containers.conf"):
        yield path
        yield from glob(f"{path}.d/*.conf")  # noqa: PTH207 - on the way to each new container


def _sets_environment(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as settings:  # noqa: PTH123
            return any(line.lstrip().startswith("env") for line in settings)
    except OSError:
        return False
