import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ankaios.common.config import GivenPem, Pem
from ankaios.common.errors import StartupFailed
from ankaios.common.messages import FromAgent, FromClient, FromServerMessage, Respond
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import AgentHello, ToServer
from ankaios.server.core.ankaios_server import AnkaiosServer
from ankaios.server.core.long_messages import LONG_SIZE, message_size
from ankaios.server.core.replies import Decision, Effect, HooksFinished, SecondPassed, ServerMessage
from ankaios.server.core.rollout_monitor import RolloutMonitor
from ankaios.server.core.state_view import StateSnapshot
from ankaios.server.core.update_request_handler import MAX_WAITING_UPDATES
from ankaios.server.mutating_hooks import MutatingHook
from ankaios.server.settings import Address, ServerSettings
from ankaios.server.shell import ServerShell, security, serve
from tests.unit.server.scenario import a_form


class FakeMiddleware:
    """Records messages, and returns them in the order in which they were sent."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[FromServerMessage] = asyncio.Queue()
        self.dropped: list[str] = []

    def dispatch(self, message: FromServerMessage) -> None:
        self.sent.put_nowait(message)

    def drop_agent(self, agent: str, why: str) -> None:
        self.dropped.append(agent)

    async def next(self) -> base.Response:
        async with asyncio.timeout(10):
            message = await self.sent.get()
        assert isinstance(message, Respond)
        return message.response

    async def next_response(self) -> base.Response:
        """Like `next`, but without messages to agents."""
        async with asyncio.timeout(30):
            while not isinstance(message := await self.sent.get(), Respond):
                pass
        return message.response


@asynccontextmanager
async def running(*hooks: MutatingHook) -> AsyncIterator[tuple[ServerShell, FakeMiddleware]]:
    shell, middleware = ServerShell(None, hooks), FakeMiddleware()
    shell.middleware = middleware  # type: ignore[assignment]
    task = asyncio.create_task(shell.run(), name="shell")
    yield shell, middleware
    task.cancel()
    await asyncio.wait([task])


def server_of(shell: ServerShell) -> AnkaiosServer:
    assert shell._server is not None
    return shell._server


def settings(**more: object) -> ServerSettings:
    values = {
        "startup_manifest": None,
        "address": Address("127.0.0.1", 0),
        "insecure": True,
        "pem": GivenPem(),
        "hooks": (),
        "max_message_size": 4096,
    }
    return ServerSettings(**{**values, **more})  # type: ignore[arg-type]


def a_request(number: int) -> FromClient:
    content = base.CompleteStateRequest(fieldMask=["agents"])
    return FromClient("cli-conn-1", base.Request(requestId=f"cli-conn-1@{number}", completeStateRequest=content))


async def test_messages_from_the_channel_are_answered_in_order() -> None:
    """[utest->swdd~server-uses-async-channels~1]"""
    async with running() as (shell, middleware):
        for number in range(50):
            await shell.to_server.send(a_request(number))
        ids = [(await middleware.next()).requestId for _ in range(50)]
        assert ids == [f"cli-conn-1@{number}" for number in range(50)]


async def test_a_channel_with_many_messages_does_not_block_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ankaios.server.shell._TURN_SECONDS", 0.0)
    async with running() as (shell, middleware):
        for number in range(50):
            assert shell.to_server.try_send(a_request(number))
        await asyncio.sleep(0)
        assert 0 < middleware.sent.qsize() < 50


def an_update(number: int = 1) -> FromClient:
    update = base.UpdateStateRequest()
    update.newState.desiredState.apiVersion = "v1"
    workload = update.newState.desiredState.workloads.workloads["web"]
    workload.agent = workload.runtime = workload.runtimeConfig = "x"
    return FromClient("cli-conn-1", base.Request(requestId=f"cli-conn-1@{number}", updateStateRequest=update))


class Fails:
    """Replaces a function: fails a few times, then calls the function."""

    def __init__(self, function: Callable[..., Any], times: int = 1) -> None:
        self._function = function
        self._times = times

    def __call__(self, *arguments: Any) -> Any:
        self._times -= 1
        if self._times >= 0:
            raise ValueError("a bug")
        return self._function(*arguments)


BUG = "Internal error: ValueError: a bug"


async def test_an_internal_error_affects_one_message_and_is_answered_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as (shell, middleware):
        monkeypatch.setattr(server_of(shell), "handle", Fails(server_of(shell).handle))
        for number in range(3):
            await shell.to_server.send(a_request(number))
        answers = [await middleware.next() for _ in range(3)]
        assert [answer.requestId for answer in answers] == [f"cli-conn-1@{number}" for number in range(3)]
        assert [answer.error.message for answer in answers] == [BUG, "", ""]
    assert "internal error in the handling of a FromClient: ValueError: a bug" in caplog.text
    assert "Traceback" in caplog.text


async def test_an_agent_whose_hello_failed_is_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as (shell, middleware):
        monkeypatch.setattr(server_of(shell), "handle", Fails(server_of(shell).handle))
        await shell.to_server.send(FromAgent("n1", ToServer(agentHello=AgentHello(agentName="n1"))))
        await shell.to_server.send(a_request(1))
        assert (await middleware.next()).requestId == "cli-conn-1@1"
        assert middleware.dropped == ["n1"]
    assert "the handling of a FromAgent 'agentHello'" in caplog.text


async def test_a_failed_recovery_loses_only_the_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as (shell, middleware):
        monkeypatch.setattr(server_of(shell), "handle", Fails(server_of(shell).handle))
        monkeypatch.setattr(server_of(shell), "recover", Fails(server_of(shell).recover))
        await shell.to_server.send(a_request(1))
        await shell.to_server.send(a_request(2))
        assert (await middleware.next()).requestId == "cli-conn-1@2"
    assert "the recovery from a FromClient" in caplog.text


async def test_a_message_that_cannot_be_sent_does_not_block_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as (shell, middleware):
        monkeypatch.setattr(middleware, "dispatch", Fails(middleware.dispatch))
        await shell.to_server.send(a_request(1))
        await shell.to_server.send(a_request(2))
        assert (await middleware.next()).requestId == "cli-conn-1@2"
    assert "internal error in the sending of a Respond" in caplog.text


async def test_an_internal_error_of_hooks_rejects_the_update_and_later_updates_are_handled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def no_changes(*_: object) -> None:
        return None

    async with running(MutatingHook("guard")) as (shell, middleware):
        monkeypatch.setattr("ankaios.server.shell.run_hooks", Fails(no_changes))
        for number in range(3):
            await shell.to_server.send(an_update(number))
        answers = [await middleware.next() for _ in range(3)]
        assert answers[0].error.message == f"Update rejected: '{BUG}'"
        assert [answer.HasField("UpdateStateSuccess") for answer in answers] == [False, True, True]
    assert "internal error in the mutating hooks" in caplog.text


async def test_as_many_updates_as_can_wait_are_handled_after_the_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are handled one after the other, not recursively."""
    go = asyncio.Event()

    async def wait(*_: object) -> None:
        await go.wait()

    async with running(MutatingHook("guard")) as (shell, middleware):
        monkeypatch.setattr("ankaios.server.shell.run_hooks", wait)
        await shell.to_server.send(an_update(0))
        for number in range(1, MAX_WAITING_UPDATES + 1):
            await shell.to_server.send(an_update(number))
        go.set()
        for number in range(MAX_WAITING_UPDATES + 1):
            assert (await middleware.next()).requestId == f"cli-conn-1@{number}"


async def test_time_events_continue_after_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ticks = asyncio.Queue[bool]()

    def tick(message: object) -> list[Effect]:
        if isinstance(message, SecondPassed):
            ticks.put_nowait(True)
            if ticks.qsize() == 1:
                raise ValueError("a bug")
        return []

    really_sleep = asyncio.sleep
    monkeypatch.setattr("asyncio.sleep", lambda _: really_sleep(0))
    async with running() as (shell, _):
        monkeypatch.setattr(server_of(shell), "handle", tick)
        async with asyncio.timeout(10):
            while ticks.qsize() < 3:
                await really_sleep(0)
    assert "internal error in the handling of a SecondPassed" in caplog.text


async def test_the_rejection_by_a_hook_is_answered(tmp_path: Path) -> None:
    hook = tmp_path / "guard"
    hook.write_text("#!/bin/sh\ncat >/dev/null\necho no >&2\nexit 1\n")
    hook.chmod(0o755)
    async with running(MutatingHook("guard", path=str(tmp_path))) as (shell, middleware):
        await shell.to_server.send(an_update())
        assert "rejected the change: no" in (await middleware.next()).error.message


async def test_a_startup_state_is_loaded_or_a_reason_not_to_start() -> None:
    shell = ServerShell(None, ())
    await shell.load({"apiVersion": "v1", "workloads": {"web": a_form()}})
    with pytest.raises(StartupFailed) as caught:
        await shell.load({"apiVersion": "v9", "workloads": {}})
    assert str(caught.value) == "server error: 'Unsupported API version. Received 'v9', expected 'v1''"


async def test_hooks_receive_the_startup_state(tmp_path: Path) -> None:
    shell = ServerShell(None, [MutatingHook("missing", path=str(tmp_path))])
    await shell.load({"apiVersion": "v1", "workloads": {}})
    with pytest.raises(StartupFailed, match="server error: 'Mutating hook 'missing' execution failed"):
        await shell.load({"apiVersion": "v1", "workloads": {"web": a_form()}})


async def test_an_unreadable_manifest_and_missing_certificates_end_the_start(tmp_path: Path) -> None:
    """[utest->swdd~server-fails-on-invalid-startup-state~1]"""
    with pytest.raises(StartupFailed, match="Could not read the startup config"):
        await serve(settings(startup_manifest=tmp_path / "missing"))
    with pytest.raises(StartupFailed, match="Missing certificate files"):
        await serve(settings(insecure=False))


def test_insecure_communication_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert security(settings()) is None
    assert "Insecure mode" in caplog.text
    pem = Pem("text", "origin")
    assert security(settings(pem=GivenPem(pem, pem, pem))) is not None
    assert "mTLS is used" in caplog.text


# --- long messages ---


def a_large_update(number: int, connection: str = "cli-conn-1") -> FromClient:
    update = base.UpdateStateRequest(updateMask=["desiredState.workloads"])
    update.newState.desiredState.apiVersion = "v1"
    for name in range(LONG_SIZE + 1):
        workload = update.newState.desiredState.workloads.workloads[f"w{name}"]
        workload.agent, workload.runtime, workload.runtimeConfig = "n1", "podman", str(number)
    return FromClient(connection, base.Request(requestId=f"{connection}@{number}", updateStateRequest=update))


def a_read(connection: str, request_id: str, *masks: str) -> FromClient:
    content = base.CompleteStateRequest(fieldMask=masks)
    return FromClient(connection, base.Request(requestId=f"{connection}@{request_id}", completeStateRequest=content))


class Gate:
    """Replaces `decide`: waits for permission, which only a decision in another thread can do."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, shell: ServerShell, kind: type[ServerMessage] = FromClient
    ) -> None:
        server = server_of(shell)
        self._kind = kind
        self._decide = server.decide
        self.begun, self.go = threading.Event(), threading.Event()
        monkeypatch.setattr(server, "decide", self)

    def __call__(self, message: ServerMessage, now: float) -> Decision:
        is_long = self._kind is not FromClient or server_size(message) > LONG_SIZE
        if isinstance(message, self._kind) and is_long:
            self.begun.set()
            assert self.go.wait(30)
        return self._decide(message, now)


def server_size(message: ServerMessage) -> int:
    return message_size(message, AnkaiosServer().state)


async def test_reads_are_answered_from_the_state_before_while_a_large_update_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (shell, middleware):
        gate = Gate(monkeypatch, shell)
        await shell.to_server.send(a_large_update(1))
        await asyncio.to_thread(gate.begun.wait, 30)
        await shell.to_server.send(a_read("cli-conn-1", "own", "desiredState.workloads.w1"))
        await shell.to_server.send(a_large_update(2, "cli-conn-2"))
        await shell.to_server.send(a_read("cli-conn-2", "later", "desiredState.workloads.w1"))
        await shell.to_server.send(a_read("cli-conn-3", "before", "desiredState.workloads.w1"))
        answer = await middleware.next_response()
        assert answer.requestId == "cli-conn-3@before"
        assert not answer.completeStateResponse.completeState.desiredState.workloads.workloads
        gate.go.set()
        answers = {answer.requestId: answer for answer in [await middleware.next_response() for _ in range(4)]}
        assert answers["cli-conn-1@1"].HasField("UpdateStateSuccess")
        assert answers["cli-conn-2@2"].HasField("UpdateStateSuccess")
        configs = {
            name: answer.completeStateResponse.completeState.desiredState.workloads.workloads["w1"].runtimeConfig
            for name, answer in answers.items()
        }
        assert configs["cli-conn-1@own"] in ("1", "2")  # not the state before its own update
        assert configs["cli-conn-2@later"] == "2"


async def test_an_internal_error_in_a_large_update_is_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as (shell, middleware):
        monkeypatch.setattr(server_of(shell), "handle", Fails(server_of(shell).handle))
        await shell.to_server.send(a_large_update(1))
        await shell.to_server.send(a_large_update(2))
        assert (await middleware.next_response()).error.message == BUG
        assert (await middleware.next_response()).HasField("UpdateStateSuccess")
    assert "internal error in the handling of a FromClient" in caplog.text


async def test_a_large_response_is_made_while_other_messages_are_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    respond = StateSnapshot.response

    def slow(snapshot: StateSnapshot, request: base.Request) -> Respond:
        begun.set()
        assert go.wait(30)
        return respond(snapshot, request)

    monkeypatch.setattr(StateSnapshot, "response", slow)
    async with running() as (shell, middleware):
        await shell.to_server.send(a_large_update(1))
        await middleware.next_response()
        await shell.to_server.send(a_read("cli-conn-1", "large"))
        await shell.to_server.send(a_read("cli-conn-1", "later", "agents"))
        await asyncio.to_thread(begun.wait, 30)
        await shell.to_server.send(a_large_update(2, "cli-conn-2"))
        assert (await middleware.next_response()).requestId == "cli-conn-2@2"
        go.set()
        large = await middleware.next_response()
        assert large.requestId == "cli-conn-1@large"
        assert len(large.completeStateResponse.completeState.desiredState.workloads.workloads) == LONG_SIZE + 1
        assert (await middleware.next_response()).requestId == "cli-conn-1@later"


async def test_the_result_of_a_large_update_is_dropped_if_the_shell_was_closed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (shell, middleware):
        gate = Gate(monkeypatch, shell)
        await shell.to_server.send(a_large_update(1))
        await asyncio.to_thread(gate.begun.wait, 30)
        shell.close("it stops")
        gate.go.set()
        await shell.to_server.send(a_read("cli-conn-2", "after"))
        answer = await middleware.next_response()
        assert (answer.requestId, answer.error.message) == ("cli-conn-2@after", "cannot accept the request: it stops")


async def test_messages_are_received_after_a_large_update_that_hooks_have_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The outcome of hooks is decided in another task than the one that receives messages."""

    async def leave(*_: object) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr("ankaios.server.shell.run_hooks", leave)
    async with running(MutatingHook("guard")) as (shell, middleware):
        gate = Gate(monkeypatch, shell, HooksFinished)
        await shell.to_server.send(a_large_update(1))
        await asyncio.to_thread(gate.begun.wait, 30)
        await shell.to_server.send(a_read("cli-conn-2", "meanwhile", "desiredState.workloads.w1"))
        assert (await middleware.next_response()).requestId == "cli-conn-2@meanwhile"
        gate.go.set()
        assert (await middleware.next_response()).requestId == "cli-conn-1@1"
        await shell.to_server.send(a_read("cli-conn-2", "later", "desiredState.workloads.w1"))
        assert (await middleware.next_response()).requestId == "cli-conn-2@later"


async def test_a_large_change_that_failed_is_undone_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    restore = RolloutMonitor.restoring

    def note_thread(*arguments: Any) -> None:
        threads.append(threading.current_thread())
        restore(*arguments)

    monkeypatch.setattr(RolloutMonitor, "restoring", note_thread)
    really_sleep = asyncio.sleep
    monkeypatch.setattr("asyncio.sleep", lambda seconds: really_sleep(seconds / 100))
    message = a_large_update(1)
    message.request.updateStateRequest.atomic.timeoutMs = 1
    async with running() as (shell, middleware):
        await shell.to_server.send(message)
        assert (await middleware.next_response()).UpdateStateSuccess.rollout == "rollout-1"
        async with asyncio.timeout(30):
            while not threads:
                await really_sleep(0.01)
    assert threads[0] is not threading.main_thread()
