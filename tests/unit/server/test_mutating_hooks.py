import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest

from ankaios.common.pb.grpc_api_pb2 import AddedWorkload, UpdateWorkload
from ankaios.server.core.update_rejected import HookFailed, HookVeto, InvalidState
from ankaios.server.mutating_hooks import MutatingHook, run_hooks

UPDATE = UpdateWorkload(addedWorkloads=[AddedWorkload()])
ADD_ONE = f"""#!/usr/bin/env -S '{sys.executable}'
import sys
data = sys.stdin.buffer.read()
sys.stdout.buffer.write(data + b"\\x0a\\x00")
"""


def a_hook(directory: Path, name: str, text: str, time_limit: int = 30) -> MutatingHook:
    path = directory / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return MutatingHook(name, path=str(directory), time_limit=time_limit)


async def test_hooks_that_return_their_input_change_nothing(tmp_path: Path) -> None:
    assert await run_hooks([a_hook(tmp_path, "same", "#!/bin/sh\ncat\n")], UPDATE) is None


async def test_each_hook_reads_the_output_of_the_previous_hook(tmp_path: Path) -> None:
    hooks = [a_hook(tmp_path, "one", ADD_ONE), a_hook(tmp_path, "two", ADD_ONE)]
    wanted = await run_hooks(hooks, UPDATE)
    assert wanted is not None
    assert len(wanted.addedWorkloads) == 3


async def test_no_output_is_an_empty_update(tmp_path: Path) -> None:
    assert await run_hooks([a_hook(tmp_path, "drop", "#!/bin/sh\ncat >/dev/null\n")], UPDATE) == UpdateWorkload()


async def test_a_hook_need_not_read(tmp_path: Path) -> None:
    large = UpdateWorkload(addedWorkloads=[AddedWorkload()] * 200_000)
    assert await run_hooks([a_hook(tmp_path, "deaf", "#!/bin/sh\nexit 0\n")], large) == UpdateWorkload()


async def test_a_failed_hook_rejects_the_update_with_its_error_output(tmp_path: Path) -> None:
    hook = a_hook(tmp_path, "guard", "#!/bin/sh\ncat >/dev/null\necho ' not on my watch ' >&2\nexit 3\n")
    with pytest.raises(HookVeto) as caught:
        await run_hooks([hook], UPDATE)
    veto = "Hook 'guard' rejected the change: not on my watch"
    assert str(caught.value) == f"Update rejected by mutating hook 'guard': '{veto}'"
    assert caught.value.reason == f"Mutating hook 'guard' vetoed the state change: '{veto}'"


async def test_a_hook_that_cannot_be_started_has_failed(tmp_path: Path) -> None:
    with pytest.raises(HookFailed) as caught:
        await run_hooks([MutatingHook("missing", path=str(tmp_path))], UPDATE)
    assert str(caught.value).startswith("Update rejected: 'Mutating hook 'missing' execution failed: 'cannot start")


async def test_a_hook_that_does_not_end_in_time_has_failed_and_is_ended(tmp_path: Path) -> None:
    with pytest.raises(HookFailed, match="no answer within 1 s"):
        await run_hooks([a_hook(tmp_path, "slow", "#!/bin/sh\nsleep 600\n", time_limit=1)], UPDATE)


async def test_processes_that_a_hook_started_are_ended_after_the_hook_has_ended(tmp_path: Path) -> None:
    """It holds the output open, so the answer never ends."""
    text = f"#!/bin/sh\ncat >/dev/null\nsleep 600 &\necho $! > {tmp_path}/child\n"
    with pytest.raises(HookFailed, match="no answer within 1 s"):
        await run_hooks([a_hook(tmp_path, "parent", text, time_limit=1)], UPDATE)
    await ended(int((tmp_path / "child").read_text()))


async def test_a_cancelled_run_ends_the_hook_and_its_processes(tmp_path: Path) -> None:
    text = f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/child\nwait\n"
    run = asyncio.create_task(run_hooks([a_hook(tmp_path, "slow", text)], UPDATE))
    async with asyncio.timeout(10):
        while not (tmp_path / "child").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await ended(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("turns", range(8))
async def test_a_run_may_be_cancelled_at_any_time_during_its_start(tmp_path: Path, turns: int) -> None:
    hook = a_hook(tmp_path, "slow", f"#!/bin/sh\necho $$ > {tmp_path}/hook\nsleep 600\n")
    run = asyncio.create_task(run_hooks([hook], UPDATE))
    for _ in range(turns):
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await run
    if (text := (tmp_path / "hook").read_text() if (tmp_path / "hook").exists() else "").strip():
        with pytest.raises(ProcessLookupError):
            os.kill(int(text), 0)


async def ended(pid: int) -> None:
    """The exit code may not have been read yet, so a zombie counts as ended."""
    async with asyncio.timeout(10):
        while _state(pid) not in ("", "Z"):  # noqa: ASYNC110 - the kernel decides
            await asyncio.sleep(0.01)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


async def test_output_that_is_no_update_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidState) as caught:
        await run_hooks([a_hook(tmp_path, "odd", "#!/bin/sh\ncat >/dev/null\nprintf '\\377\\377'\n")], UPDATE)
    assert str(caught.value).startswith("Update rejected: 'Resulting State is invalid, reason: '")
