from collections.abc import Awaitable, Callable
from itertools import repeat

import pytest

from ankaios.grpc.addresses import TcpAddress
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, Status
from ankaios.simulation.virtual_time import VirtualTimeLoop
from ankaios.storage.etcd.etcd_members import EtcdCredentials, EtcdMember, EtcdMembers, EtcdRejected, EtcdUnavailable

TIMEOUT = CallFailed(Status.DEADLINE_EXCEEDED, "no response")
NO_SPACE = CallFailed(Status.RESOURCE_EXHAUSTED, "database space exceeded")
LIMIT = 5.0


class Script:
    """The result of each attempt: an error when connecting, an error of the call, or None for a response."""

    def __init__(self, *steps: tuple[str, CallFailed] | None) -> None:
        self._steps = list(steps)
        self.called: list[int] = []

    async def prepare(self, member: EtcdMember, credentials: EtcdCredentials | None, seconds: float) -> None:
        self.called.append(member.endpoint.port)
        if self._steps and self._steps[0] is not None and self._steps[0][0] == "connect":
            raise self._steps.pop(0)[1]  # type: ignore[index]

    async def call(self, member: EtcdMember, seconds: float) -> int:
        step = self._steps.pop(0) if self._steps else None
        if step is not None:
            raise step[1]
        return member.endpoint.port


Run = Callable[[Script], Awaitable[int]]


@pytest.fixture
async def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    members = EtcdMembers([TcpAddress("host", port) for port in (1, 2, 3)], None, None)

    async def run_script(script: Script) -> int:
        async def prepare(member: EtcdMember, credentials: EtcdCredentials | None, seconds: float) -> None:
            await script.prepare(member, credentials, seconds)

        monkeypatch.setattr(EtcdMember, "prepare", prepare)
        return await members.attempt(script.call, LIMIT)

    return run_script


async def test_after_a_failure_the_next_member_is_called_for_all_further_requests(run: Run) -> None:
    first, second = Script(("call", TIMEOUT), ("connect", ConnectionBroken("refused")), None), Script(None)
    assert await run(first) == 3
    assert first.called == [1, 2, 3]
    assert await run(second) == 3
    assert second.called == [3]


async def test_a_rejected_call_is_not_repeated(run: Run) -> None:
    script = Script(("call", NO_SPACE))
    with pytest.raises(EtcdRejected, match="database space exceeded") as rejected:
        await run(script)
    assert script.called == [1]
    assert (rejected.value.status, rejected.value.may_be_done) == (Status.RESOURCE_EXHAUSTED, False)


async def test_a_rejection_after_a_lost_response_does_not_mean_that_nothing_was_done(run: Run) -> None:
    with pytest.raises(EtcdRejected) as rejected:
        await run(Script(("call", TIMEOUT), ("call", NO_SPACE)))
    assert rejected.value.may_be_done


async def test_a_call_that_was_never_sent_was_not_done(run: Run) -> None:
    with pytest.raises(EtcdRejected) as rejected:
        await run(Script(("connect", ConnectionBroken("refused")), ("call", NO_SPACE)))
    assert not rejected.value.may_be_done


@pytest.mark.parametrize(
    ("step", "may_be_done"), [(("call", TIMEOUT), True), (("connect", ConnectionBroken("refused")), False)]
)
async def test_without_a_response_the_limit_ends_the_attempts(
    run: Run, monkeypatch: pytest.MonkeyPatch, step: tuple[str, CallFailed], may_be_done: bool
) -> None:
    monkeypatch.setattr("tests.unit.storage.test_etcd_members.LIMIT", 0.02)
    with pytest.raises(EtcdUnavailable, match=r"etcd did not respond within 0\.02 s \(host:1: ") as failed:
        await run(Script(*[step] * 1000))
    assert failed.value.may_be_done is may_be_done


async def test_a_connection_error_is_reported_instead_of_a_later_timeout(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.storage.test_etcd_members.LIMIT", 0.2)
    refused = ("connect", ConnectionBroken("refused"))
    with pytest.raises(EtcdUnavailable) as failed:
        await run(Script(refused, refused, refused, *[("call", TIMEOUT)] * 1000))
    assert str(failed.value) == "etcd did not respond within 0.2 s (host:1: refused; host:2: refused; host:3: refused)"


def test_members_that_all_fail_are_called_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    members = EtcdMembers([TcpAddress("host", port) for port in (1, 2, 3)], None, None)
    script = Script(*repeat(("connect", ConnectionBroken("refused")), 1000))
    monkeypatch.setattr(EtcdMember, "prepare", lambda member, *_: script.prepare(member, None, LIMIT))
    loop = VirtualTimeLoop()
    try:
        with pytest.raises(EtcdUnavailable):
            loop.run_until_complete(members.attempt(script.call, LIMIT))
        assert loop.now == pytest.approx(LIMIT)
    finally:
        loop.close()
    assert len(script.called) == 3 * 13  # pauses of 0.05, 0.1, 0.2, 0.4 s, then of 0.5 s
