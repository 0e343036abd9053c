import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ankaios.common.config import GivenPem, Pem
from ankaios.common.errors import StartupFailed
from ankaios.common.messages import FromClient, FromServerMessage, Respond
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.server.mutating_hooks import MutatingHook
from ankaios.server.settings import Address, ServerSettings
from ankaios.server.shell import ServerShell, security, serve
from tests.unit.server.story import a_form


class FakeMiddleware:
    """Notes what is sent, and tells when it was."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[FromServerMessage] = asyncio.Queue()

    def dispatch(self, message: FromServerMessage) -> None:
        self.sent.put_nowait(message)

    async def next(self) -> base.Response:
        async with asyncio.timeout(10):
            message = await self.sent.get()
        assert isinstance(message, Respond)
        return message.response


@asynccontextmanager
async def running(*hooks: MutatingHook) -> AsyncIterator[tuple[ServerShell, FakeMiddleware]]:
    shell, middleware = ServerShell(None, hooks), FakeMiddleware()
    shell.middleware = middleware  # type: ignore[assignment]
    task = asyncio.create_task(shell.run(), name="shell")
    yield shell, middleware
    task.cancel()
    await asyncio.wait([task])


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


async def test_messages_come_in_through_the_channel_and_answers_go_out_in_their_order() -> None:
    """[utest->swdd~server-uses-async-channels~1]"""
    async with running() as (shell, middleware):
        for number in range(50):
            await shell.to_server.send(a_request(number))
        ids = [(await middleware.next()).requestId for _ in range(50)]
        assert ids == [f"cli-conn-1@{number}" for number in range(50)]


async def test_a_busy_channel_leaves_others_their_turn() -> None:
    async with running() as (shell, middleware):
        for number in range(100):
            assert shell.to_server.try_send(a_request(number))
        await asyncio.sleep(0)
        assert 0 < middleware.sent.qsize() < 100


async def test_a_veto_of_a_hook_is_answered(tmp_path: Path) -> None:
    hook = tmp_path / "guard"
    hook.write_text("#!/bin/sh\ncat >/dev/null\necho no >&2\nexit 1\n")
    hook.chmod(0o755)
    async with running(MutatingHook("guard", path=str(tmp_path))) as (shell, middleware):
        update = base.UpdateStateRequest()
        update.newState.desiredState.apiVersion = "v1"
        workload = update.newState.desiredState.workloads.workloads["web"]
        workload.agent = workload.runtime = workload.runtimeConfig = "x"
        request = base.Request(requestId="cli-conn-1@u", updateStateRequest=update)
        await shell.to_server.send(FromClient("cli-conn-1", request))
        assert "rejected the change: no" in (await middleware.next()).error.message


async def test_a_startup_state_is_loaded_or_a_reason_not_to_start() -> None:
    shell = ServerShell(None, ())
    await shell.load({"apiVersion": "v1", "workloads": {"web": a_form()}})
    with pytest.raises(StartupFailed) as caught:
        await shell.load({"apiVersion": "v9", "workloads": {}})
    assert str(caught.value) == "server error: 'Unsupported API version. Received 'v9', expected 'v1''"


async def test_a_startup_state_is_shown_to_the_hooks(tmp_path: Path) -> None:
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


def test_insecurity_is_never_silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert security(settings()) is None
    assert "Insecure mode" in caplog.text
    pem = Pem("text", "origin")
    assert security(settings(pem=GivenPem(pem, pem, pem))) is not None
    assert "mTLS is used" in caplog.text
