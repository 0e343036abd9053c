"""When checks are due, how their results are evaluated, and what is reported."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ankaios.agent.core.health import (
    CheckRules,
    HealthResult,
    WorkloadHealth,
    begin_checks,
    checks_of,
    command_check_result,
    due_checks,
    finish_check,
    health_state,
    http_result,
    next_due,
    parse_notification,
    start_check,
    with_health,
)
from ankaios.common.execution_state import RUNNING_OK, ExecutionState, HealthState
from ankaios.common.health import ExecCheck, FileCheck, Health, HttpCheck, NotifyCheck, TcpCheck

OK, BAD = HealthResult(), HealthResult("connection refused")
HTTP = CheckRules("http check of port 80", interval=5.0, failures=3)


def after(results: list[HealthResult], rules: CheckRules = HTTP, every: float = 5.0) -> WorkloadHealth:
    health = begin_checks([rules], 0.0)
    for number, result in enumerate(results):
        health = finish_check(start_check(health, 0), 0, result, every * (number + 1))
    return health


def status(results: list[HealthResult], rules: CheckRules = HTTP) -> str:
    return health_state(after(results, rules)).status


def test_a_workload_is_healthy_after_enough_successes_in_a_row() -> None:
    rules = CheckRules("x", successes=2)
    assert status([], rules) == "Starting"
    assert status([OK, BAD, OK], rules) == "Starting"
    assert status([OK, OK], rules) == "Healthy"


def test_a_workload_is_unhealthy_after_enough_failures_in_a_row() -> None:
    assert status([OK, BAD, BAD]) == "Healthy"
    assert status([OK, BAD, BAD, OK, BAD, BAD]) == "Healthy"
    assert status([OK, BAD, BAD, BAD]) == "Unhealthy"
    assert status([OK, BAD, BAD, BAD, OK]) == "Healthy"


def test_the_text_contains_the_failed_check_the_count_and_the_reason() -> None:
    assert health_state(after([BAD] * 3)) == HealthState(
        "Unhealthy", "http check of port 80 failed 3 times: connection refused"
    )
    assert health_state(after([BAD], CheckRules("tcp check of port 1", failures=1))).text == (
        "tcp check of port 1 failed once: connection refused"
    )


def test_further_failures_are_not_reported_again() -> None:
    first = health_state(after([BAD] * 3))
    assert health_state(after([BAD] * 3 + [HealthResult("no answer within 3 s")] * 9)) == first


def test_a_workload_that_was_never_healthy_reports_the_failing_check() -> None:
    assert health_state(after([])) == HealthState("Starting")
    waiting = HealthState("Starting", "http check of port 80: connection refused")
    assert health_state(after([BAD])) == waiting
    assert health_state(after([BAD, HealthResult("other")])) == waiting


def test_failures_in_the_start_period_do_not_count_until_a_success() -> None:
    rules = CheckRules("x", start_period=60.0, failures=2)
    assert status([BAD] * 11, rules) == "Starting"
    assert status([BAD] * 13, rules) == "Unhealthy"
    assert status([OK, BAD, BAD], rules) == "Unhealthy"


def test_in_the_start_period_a_check_is_repeated_soon() -> None:
    rules = CheckRules("x", interval=30.0, start_period=60.0)
    assert next_due(after([BAD], rules)) == 5.0 + 1.0
    assert next_due(after([BAD], CheckRules("x", interval=30.0))) == 5.0 + 30.0
    assert next_due(after([OK], rules)) == 33.0  # at the moment of other checks, see below


def test_checks_of_healthy_workloads_are_due_at_the_same_moments_and_keep_their_interval() -> None:
    """Checks that are performed together cost less."""
    rules = CheckRules("x", interval=5.0)
    ends = [100.0, 100.2, 100.49]
    dues = {next_due(finish_check(begin_checks([rules], 0.0), 0, OK, end)) for end in ends}
    assert dues == {105.0}
    health = begin_checks([rules], 0.0)
    for expected in (105.0, 110.0, 115.0):
        health = finish_check(health, 0, OK, expected - 5.0 - 0.0005)  # the timer was a little early
        assert next_due(health) == expected


def test_a_notification_is_never_due_earlier() -> None:
    rules = CheckRules.of(NotifyCheck(interval="5s", timeout="1s"))
    assert next_due(finish_check(begin_checks([rules], 0.0), 0, OK, 100.3)) == 106.3


def test_all_checks_must_succeed_and_one_that_failed_is_enough() -> None:
    health = begin_checks([CheckRules("a"), CheckRules("b", failures=1)], 0.0)
    health = finish_check(health, 0, OK, 1.0)
    assert health_state(health).status == "Starting"
    assert health_state(finish_check(health, 1, OK, 1.0)).status == "Healthy"
    assert health_state(finish_check(health, 1, BAD, 1.0)).text == "b failed once: connection refused"


def test_a_check_that_runs_is_not_started_again() -> None:
    health = begin_checks([HTTP], 0.0)
    assert due_checks(health, 0.1) == []
    assert due_checks(health, 0.5) == [0]
    running = start_check(health, 0)
    assert due_checks(running, 100.0) == [] and next_due(running) is None
    assert next_due(finish_check(running, 0, OK, 7.0)) == 12.0


def test_values_of_rules_are_limited() -> None:
    wild = HttpCheck(interval="0s", timeout="99h", start_period="99h", failures=0, successes=0, port=1)
    rules = CheckRules.of(wild)
    assert (rules.interval, rules.timeout, rules.start_period) == (0.1, 3600.0, 24 * 3600.0)
    assert (rules.failures, rules.successes) == (1, 1)


def test_a_notification_may_be_late_by_the_timeout() -> None:
    rules = CheckRules.of(NotifyCheck(interval="5s", timeout="2s"))
    assert (rules.interval, rules.first_after) == (7.0, 7.0)


@pytest.mark.parametrize(
    ("check", "label"),
    [
        (ExecCheck(command=("sh", "-c", "x")), "exec check 'sh -c x'"),
        (HttpCheck(port=80), "http check of port 80"),
        (HttpCheck(port=80, path="/health"), "http check of port 80 (/health)"),
        (TcpCheck(port=81), "tcp check of port 81"),
        (FileCheck(path="/a\x1b[31mb"), "file check of '/a [31mb'"),
        (NotifyCheck(), "notify check"),
    ],
)
def test_checks_are_named_by_their_target(check: Any, label: str) -> None:
    assert CheckRules.of(check).label == label


def test_the_checks_of_a_workload_are_the_declared_ones() -> None:
    assert checks_of(Health(image=True)) == []
    assert checks_of(Health(tcp=TcpCheck(port=1), notify=NotifyCheck())) == [TcpCheck(port=1), NotifyCheck()]


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (b"READY=1", OK),
        (b"STATUS=fine\nWATCHDOG=1\n", OK),
        (b"WATCHDOG=trigger", HealthResult("the workload reports: it is not healthy")),
        (b"STATUS=stuck\nWATCHDOG=trigger", HealthResult("the workload reports: stuck")),
        (b"MAINPID=1", None),
        (b"\xff\x00=\n==", None),
        (b"", None),
    ],
)
def test_notifications_of_systemd_are_parsed(data: bytes, result: HealthResult | None) -> None:
    assert parse_notification(data) == result


@pytest.mark.parametrize(
    ("code", "output", "why"),
    [
        (0, "noise", ""),
        (1, "", "exit code 1"),
        (3, "first\nlast\n", "exit code 3: last"),
        (-9, "", "ended by signal 9"),
        (None, "x", "no answer within 0.5 s"),
    ],
)
def test_the_result_of_a_command_is_its_exit_code_with_the_last_line(code: int | None, output: str, why: str) -> None:
    assert command_check_result(code, output, 0.5).why == why


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (b"HTTP/1.1 200 OK\r\n", ""),
        (b"HTTP/1.0 204", ""),
        (b"HTTP/1.1 302 Found\r\n", ""),
        (b"HTTP/1.1 503 Service Unavailable\r\nx: y", "status 503 Service Unavailable"),
        (b"HTTP/1.1 404 Not Found\r\n", "status 404 Not Found"),
        (b"SSH-2.0-OpenSSH\r\n", "the response is not HTTP"),
        (b"HTTP/1.1 \xb2\xb2\xb2 x\n", "the response is not HTTP"),
        (b"", "the connection was closed without a response"),
    ],
)
def test_the_result_of_a_request_is_its_status(response: bytes, why: str) -> None:
    assert http_result(response).why == why


@pytest.mark.parametrize(
    ("health", "info"),
    [
        (None, ""),
        (HealthState("Healthy"), "healthy"),
        (HealthState("Starting"), "not healthy yet"),
        (HealthState("Unhealthy", "x failed"), "unhealthy: x failed"),
    ],
)
def test_health_is_part_of_the_additional_information(health: HealthState | None, info: str) -> None:
    assert with_health(RUNNING_OK, health) == ExecutionState("Running", "Ok", info, health)
    if health:
        assert with_health(RUNNING_OK.because("note"), health).additional_info == f"note, {info}"


class Naive:
    """Evaluates all results since the start, each time."""

    def __init__(self, rules: CheckRules) -> None:
        self.rules = rules
        self.results: list[tuple[bool, float]] = []

    def status(self) -> str:
        found, row, was, succeeded = "Starting", 0, None, False
        for good, at in self.results:
            if not good and not succeeded and at < self.rules.start_period:
                continue
            row, was = (row + 1 if was == good else 1), good
            succeeded = good or succeeded
            if row >= (self.rules.successes if good else self.rules.failures):
                found = "Healthy" if good else "Unhealthy"
        return found


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0.1, 20.0)), max_size=30),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([0.0, 15.0]),
)
def test_the_status_is_that_of_a_naive_model(
    results: list[tuple[bool, float]], failures: int, successes: int, start: float
) -> None:
    rules = CheckRules("x", failures=failures, successes=successes, start_period=start)
    naive, health, now = Naive(rules), begin_checks([rules], 0.0), 0.0
    for good, pause in results:
        now += pause
        naive.results.append((good, now))
        health = finish_check(start_check(health, 0), 0, OK if good else BAD, now)
        assert health_state(health).status == naive.status()
        due = next_due(health)
        assert due is not None and now < due <= now + rules.interval * 1.001
