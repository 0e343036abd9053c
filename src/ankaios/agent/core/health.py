"""Determines the health of one running workload from the results of its health checks.

Input: the checks of a workload, their results and the time. Output: which checks are due, when the next one is due, and
the health to report. Pure: `now` is the time of a monotonic clock in seconds.

The status of a check changes after a configured number of successes or failures in a row. The workload is healthy if
all checks are successful, and unhealthy if one has failed. Results that do not change the health are not reported.
"""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ankaios.common.durations import parse_duration
from ankaios.common.execution_state import HEALTHY, STARTING, UNHEALTHY, ExecutionState, HealthState
from ankaios.common.health import ExecCheck, FileCheck, Health, HttpCheck, NotifyCheck, TcpCheck
from ankaios.common.health_words import add_health_words

SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 24 * 3600.0
SHORTEST_TIMEOUT, LONGEST_TIMEOUT = 0.01, 3600.0
FIRST_CHECK_AFTER = 0.5
INTERVAL_IN_START_PERIOD = 1.0
MAX_HEALTH_TEXT = 200
AnyCheck = ExecCheck | HttpCheck | TcpCheck | FileCheck | NotifyCheck


class HealthResult(Struct, frozen=True):
    """`why` is empty after a success."""

    why: str = ""

    @property
    def succeeded(self) -> bool:
        return not self.why


class CheckRules(Struct, frozen=True):
    """The rules of one check with times in seconds, limited to valid ranges.

    A notify check fails when it becomes due. A notification finishes it earlier.
    """

    label: str
    interval: float = 10.0
    timeout: float = 3.0
    start_period: float = 0.0
    failures: int = 3
    successes: int = 1
    first_after: float = FIRST_CHECK_AFTER
    is_shared: bool = True  # its moments may be those of other checks

    @classmethod
    def of(cls, check: AnyCheck) -> "CheckRules":
        interval = _limited(_seconds(check.interval), SHORTEST_INTERVAL, LONGEST_INTERVAL)
        timeout = _limited(_seconds(check.timeout), SHORTEST_TIMEOUT, LONGEST_TIMEOUT)
        is_notify = isinstance(check, NotifyCheck)
        return cls(
            check_label(check),
            interval + timeout if is_notify else interval,
            timeout,
            _limited(_seconds(check.start_period), 0.0, LONGEST_INTERVAL),
            max(check.failures, 1),
            max(check.successes, 1),
            interval + timeout if is_notify else min(interval, FIRST_CHECK_AFTER),
            not is_notify,
        )


class CheckProgress(Struct, frozen=True):
    """The progress of one check. `failures` and `successes` count results of the same kind in a row.

    `trouble` is the failure that is shown: the newest one when the status changes, else the first one.
    """

    rules: CheckRules
    began: float
    due: float
    status: str = STARTING
    failures: int = 0
    successes: int = 0
    has_succeeded: bool = False
    is_running: bool = False
    trouble: str = ""


class WorkloadHealth(Struct, frozen=True):
    checks: tuple[CheckProgress, ...] = ()


def checks_of(health: Health) -> list[AnyCheck]:
    """Return the declared checks, without the check of the image."""
    declared = (health.exec, health.http, health.tcp, health.file, health.notify)
    return [check for check in declared if check is not None]


def check_label(check: AnyCheck) -> str:
    match check:
        case ExecCheck(command=command):
            return f"exec check '{_shortened(' '.join(command), 60)}'"
        case HttpCheck(port=port, path=path):
            return f"http check of port {port}" + ("" if path == "/" else f" ({_shortened(path, 60)})")
        case TcpCheck(port=port):
            return f"tcp check of port {port}"
        case FileCheck(path=path):
            return f"file check of '{_shortened(path, 60)}'"
        case NotifyCheck():
            return "notify check"


def check_kind(check: AnyCheck) -> str:
    """The key of the check in the manifest. A check of the image is an exec check."""
    match check:
        case ExecCheck():
            return "exec"
        case HttpCheck():
            return "http"
        case TcpCheck():
            return "tcp"
        case FileCheck():
            return "file"
        case NotifyCheck():
            return "notify"


def begin_checks(rules: Iterable[CheckRules], now: float) -> WorkloadHealth:
    return WorkloadHealth(tuple(CheckProgress(rule, now, now + rule.first_after) for rule in rules))


def due_checks(health: WorkloadHealth, now: float) -> list[int]:
    """Return the numbers of the checks to start. A check that still runs is not started again."""
    return [number for number, check in enumerate(health.checks) if not check.is_running and check.due <= now]


def next_due(health: WorkloadHealth) -> float | None:
    """None: all checks are running."""
    return min((check.due for check in health.checks if not check.is_running), default=None)


def start_check(health: WorkloadHealth, number: int) -> WorkloadHealth:
    return _with(health, number, replace(health.checks[number], is_running=True))


def finish_check(health: WorkloadHealth, number: int, result: HealthResult, now: float) -> WorkloadHealth:
    check = replace(health.checks[number], is_running=False)
    updated = _succeeded(check) if result.succeeded else _failed(check, result.why, now)
    return _with(health, number, replace(updated, due=_due_after(updated, now)))


def _succeeded(check: CheckProgress) -> CheckProgress:
    successes = min(check.successes + 1, check.rules.successes)
    better = replace(check, successes=successes, failures=0, has_succeeded=True)
    return better if successes < check.rules.successes else replace(better, status=HEALTHY, trouble="")


def _failed(check: CheckProgress, why: str, now: float) -> CheckProgress:
    why = _shortened(why, MAX_HEALTH_TEXT)
    if is_in_start_period(check, now):
        return replace(check, successes=0, trouble=check.trouble or why)
    failures = min(check.failures + 1, check.rules.failures)
    if check.status == UNHEALTHY or failures < check.rules.failures:
        return replace(check, successes=0, failures=failures, trouble=check.trouble or why)
    return replace(check, successes=0, failures=failures, status=UNHEALTHY, trouble=why)


def is_in_start_period(check: CheckProgress, now: float) -> bool:
    """In the start period failures do not count. The first success ends it early."""
    return not check.has_succeeded and now - check.began < check.rules.start_period


def _due_after(check: CheckProgress, now: float) -> float:
    """In the start period a check is repeated soon, so that dependent workloads do not wait longer than necessary.

    Checks of healthy workloads with the same interval are due at the same moments, up to a tenth of the interval
    earlier: checks that are performed together cost about half as much as single ones.
    """
    interval = check.rules.interval
    if is_in_start_period(check, now):
        return now + min(interval, INTERVAL_IN_START_PERIOD)
    if check.status != HEALTHY or not check.rules.is_shared:
        return now + interval
    step = interval / 10
    return math.floor((now + interval) / step + 0.01) * step  # a timer may be a little early


def health_state(health: WorkloadHealth) -> HealthState:
    """Return the health to report. Results that change nothing return an equal value."""
    bad = [check for check in health.checks if check.status == UNHEALTHY]
    if bad:
        return HealthState(UNHEALTHY, "; ".join(map(_failure_text, bad)))
    waiting = [check for check in health.checks if check.status == STARTING]
    if waiting or not health.checks:
        troubles = (f"{check.rules.label}: {check.trouble}" for check in waiting if check.trouble)
        return HealthState(STARTING, "; ".join(troubles))
    return HealthState(HEALTHY)


def _failure_text(check: CheckProgress) -> str:
    times = "once" if check.rules.failures == 1 else f"{check.rules.failures} times"
    return f"{check.rules.label} failed {times}: {check.trouble}"


def with_health(state: ExecutionState, health: HealthState | None) -> ExecutionState:
    """Return the running state with its health, also as additional information for programs without the field."""
    if health is None:
        return state
    info = add_health_words(state.additional_info, health.status, health.text)
    return replace(state, additional_info=info, health=health)


def _with(health: WorkloadHealth, number: int, check: CheckProgress) -> WorkloadHealth:
    checks: Sequence[CheckProgress] = health.checks
    return WorkloadHealth((*checks[:number], check, *checks[number + 1 :]))


def _seconds(text: str) -> float:
    return (parse_duration(text) or 0) / 1000


def _limited(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _shortened(text: str, length: int) -> str:
    """Return one line without control characters, so that a workload cannot control the terminal of a user."""
    line = "".join(sign if sign.isprintable() else " " for sign in text).strip()
    return line if len(line) <= length else f"{line[: length - 1]}…"


def parse_notification(data: bytes) -> HealthResult | None:
    """Return the health in a datagram of sd_notify; None if the datagram is not about health.

    >>> parse_notification(b"WATCHDOG=1"), parse_notification(b"WATCHDOG=trigger\\nSTATUS=stuck")
    (HealthResult(why=''), HealthResult(why='the workload reports: stuck'))
    """
    pairs = dict(line.split("=", 1) for line in data.decode(errors="replace").splitlines() if "=" in line)
    if pairs.get("WATCHDOG") == "trigger":
        return notification(is_healthy=False, text=pairs.get("STATUS", ""))
    return HealthResult() if "1" in (pairs.get("WATCHDOG"), pairs.get("READY")) else None


def notification(*, is_healthy: bool, text: str) -> HealthResult:
    return HealthResult() if is_healthy else HealthResult(f"the workload reports: {text or 'it is not healthy'}")


def command_check_result(exit_code: int | None, output: str, timeout: float) -> HealthResult:
    """Return the result of a command, with the last line of its output."""
    if exit_code == 0:
        return HealthResult()
    if exit_code is None:
        return no_answer(timeout)
    lines = output.strip().splitlines()
    how = f"exit code {exit_code}" if exit_code > 0 else f"ended by signal {-exit_code}"
    return HealthResult(f"{how}: {lines[-1]}" if lines else how)


def no_answer(timeout: float) -> HealthResult:
    return HealthResult(f"no answer within {timeout:g} s")


def http_result(response: bytes) -> HealthResult:
    """Evaluate the status line of the response."""
    line = response.partition(b"\n")[0].decode(errors="replace").strip()
    version, _, status = line.partition(" ")
    code = status[:3]
    if not version.startswith("HTTP/") or not (code.isascii() and code.isdigit()):
        return HealthResult("the response is not HTTP" if response else "the connection was closed without a response")
    return HealthResult() if 200 <= int(code) < 400 else HealthResult(f"status {status.strip()}")
