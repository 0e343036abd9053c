"""Decides which environment podman is called with.

Input: an environment, and the options of a call. Output: the environment with a setting for the garbage collector, and
whether the call may copy variables into a container. Podman is a short-lived Go program that spends 10 % of its time on
garbage collection, which is not needed because its memory is freed at its end. With a later collection it saves that
time and needs 5 MB more. Containers must not inherit the setting, so calls that may copy it are made without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

COLLECTOR = "GOGC"
LATER = "400"  # percent of garbage, relative to live data, that triggers a collection; the default of Go is 100
_SYSTEM_FILES = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")


def with_late_collector(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Add the setting unless the user has set it."""
    return environ if COLLECTOR in environ else {**environ, COLLECTOR: LATER}


def options_take_environment(options: Sequence[str]) -> bool:
    """Return whether `podman run` with these options may copy variables of its environment; True if in doubt.

    `--env-host` copies all; `--env-file` and `--env` copy variables that are named without a value, also by patterns.
    """
    return any(_takes_environment(option, following) for option, following in pairwise([*options, ""]))


def _takes_environment(option: str, following: str) -> bool:
    if option.startswith("--"):
        name, has_value, value = option.partition("=")
        if name == "--env":
            return "=" not in (value if has_value else following)
        return name.startswith("--env")
    if option.startswith("-") and "e" in option:  # short options can be combined: -ite NAME
        return "=" not in (option.partition("e")[2] or following)
    return False


def settings_take_environment(environ: Mapping[str, str]) -> bool:
    """Return whether a containers.conf may copy a variable into every container; True if in doubt."""
    return any(_sets_environment(path) for path in _settings_files(environ))


def _settings_files(environ: Mapping[str, str]) -> Iterator[str]:
    from glob import glob  # loaded late, so that the agent starts faster

    own = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    yield from (environ[name] for name in ("CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE") if environ.get(name))
    for path in (*_SYSTEM_FILES, f"{own}/containers/containers.conf"):
        yield path
        yield from glob(f"{path}.d/*.conf")  # noqa: PTH207 - pathlib is slower, and this runs for each new container


def _sets_environment(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as settings:  # noqa: PTH123
            return any(line.lstrip().startswith("env") for line in settings)
    except OSError:
        return False
