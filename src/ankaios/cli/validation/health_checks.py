"""Checks the health checks of a workload: what the agent cannot perform, and what it performs differently."""

from collections.abc import Iterator
from ipaddress import ip_address

from ankaios.agent.core.health import LONGEST_INTERVAL, LONGEST_TIMEOUT, SHORTEST_INTERVAL, SHORTEST_TIMEOUT
from ankaios.cli.validation.findings import WARNING, Form, Problem
from ankaios.cli.validation.manifest_set import ManifestSet
from ankaios.common.durations import format_duration, parse_duration

_WITH_IMAGE = ("podman",)
_WITH_SEVERAL_CONTAINERS = ("podman-kube",)
_LIMITS = {
    "interval": (SHORTEST_INTERVAL, LONGEST_INTERVAL),
    "timeout": (SHORTEST_TIMEOUT, LONGEST_TIMEOUT),
    "startPeriod": (0.0, LONGEST_INTERVAL),
}
_KINDS = ("exec", "http", "tcp", "file", "notify")


def check_health(form: Form) -> Iterator[Problem]:
    health = form.get("health", {})
    if health.get("image") and form["runtime"] not in _WITH_IMAGE:
        text = f"the HEALTHCHECK of an image cannot be used with the runtime '{form['runtime']}', declare a check"
        yield Problem(("health",), text)
    for kind in _KINDS:
        if kind in health:
            yield from _check(kind, health[kind], form["runtime"])


def _check(kind: str, check: Form, runtime: str) -> Iterator[Problem]:
    path = ("health", kind)
    for name, (low, high) in _LIMITS.items():
        seconds = (parse_duration(check.get(name, "1s")) or 0) / 1000
        if not low <= seconds <= high:
            used = format_duration(round((low if seconds < low else high) * 1000))
            yield Problem((*path, name), f"{check[name]} is out of range, {used} is used instead", WARNING)
    if kind == "exec" and not check.get("command"):
        yield Problem((*path, "command"), "the command is empty")
    if "host" in check and not _is_address(check["host"]):
        yield Problem((*path, "host"), f"'{check['host']}' is not an IP address")
    if "container" in check and runtime not in _WITH_SEVERAL_CONTAINERS:
        yield Problem((*path, "container"), f"has no effect with the runtime '{runtime}'", WARNING)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def check_healthy_dependencies(form: Form, manifests: ManifestSet) -> Iterator[Problem]:
    """A workload without health checks never becomes healthy."""
    for name, condition in form.get("dependencies", {}).items():
        entry = manifests.workloads.get(name)
        if condition == "ADD_COND_HEALTHY" and entry is not None and not entry.form.get("health"):
            text = f"'{name}' has no health checks, so it never becomes healthy"
            yield Problem(("dependencies", name), text, WARNING)
