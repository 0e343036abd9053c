"""Programs run with a time limit, and errors when they fail."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest

from ankaios.runtimes import command
from ankaios.runtimes.command import CommandFailed, probe_command, run_command, stream_command


async def run(script: str, stdin: bytes = b"", limit: float = 20.0) -> str:
    return await run_command("sh", ["-c", script], limit=limit, stdin=stdin)


async def test_a_program_gets_its_input_and_its_output_is_returned() -> None:
    assert await run("cat; echo more", b"given\n") == "given\nmore\n"


async def test_a_program_that_does_not_read_its_input_succeeds() -> None:
    assert await run("exec 0<&-; echo done", b"x" * 1_000_000) == "done\n"


async def test_a_probed_program_gets_an_input_that_is_larger_than_a_pipe() -> None:
    """Its standard input stays open, so that it notices the end of the agent."""
    script = "head -c 200000 | wc -c"
    assert await probe_command("sh", ["-c", script], limit=20.0, stdin=b"x" * 200_000) == (0, b"200000\n")


async def test_a_failure_contains_the_error_output_and_the_command() -> None:
    with pytest.raises(CommandFailed) as caught:
        await run("echo ' it broke ' >&2; exit 3")
    assert str(caught.value) == "it broke. Execution of 'sh \"-c\" \"echo ' it broke ' >&2; exit 3\"'"
    assert caught.value.exit_code == 3


async def test_a_failure_contains_the_output() -> None:
    with pytest.raises(CommandFailed) as caught:
        await run("echo half; exit 1")
    assert caught.value.output == "half\n"


async def test_a_failure_without_error_output_contains_the_exit_code() -> None:
    with pytest.raises(CommandFailed, match="Ended with exit code 4"):
        await run("exit 4")


async def test_a_program_killed_during_a_call_is_a_failure() -> None:
    with pytest.raises(CommandFailed, match="Ended by signal 9") as caught:
        await run("kill -9 $$")
    assert caught.value.exit_code == -9


async def test_a_missing_program_is_reported_as_not_spawned() -> None:
    with pytest.raises(CommandFailed, match=r"Could not spawn command: .*No such file") as caught:
        await run_command("/no/such/program", ["a"], limit=1)
    assert caught.value.exit_code is None


async def test_an_argument_that_cannot_be_passed_is_a_failure() -> None:
    with pytest.raises(CommandFailed, match="Could not spawn command"):
        await run_command("true", ["a\0b"], limit=1)


async def test_a_hanging_program_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"No response within 0\.3 s"):
        await run(f"sleep 100 & echo $! > {tmp_path}/pid; wait", limit=0.3)
    child = int((tmp_path / "pid").read_text())
    async with asyncio.timeout(60):
        while _runs(child):  # noqa: ASYNC110 - no event is available
            await asyncio.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


async def test_a_program_with_endless_output_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_OUTPUT", 100_000)
    with pytest.raises(CommandFailed, match="More than 100000 bytes of output"):
        await run("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done")


async def test_output_that_is_no_text_is_a_failure() -> None:
    with pytest.raises(CommandFailed, match="not UTF-8 at byte 1"):
        await run(r"printf 'a\377'")


async def test_without_process_descriptors_the_end_is_polled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert await run("sleep 0.01; echo done") == "done\n"
    with pytest.raises(CommandFailed, match="No response"):
        await run("exec 1>&- 2>&-; sleep 100", limit=0.2)


async def test_input_larger_than_a_pipe_is_read_in_parts() -> None:
    assert await run("sleep 0.01; wc -c", b"x" * 300_000) == "300000\n"


async def test_a_program_that_ends_while_others_hold_its_output_is_waited_for() -> None:
    assert await run("(sleep 0.02; echo late) & echo early") == "early\nlate\n"


async def test_a_cancelled_call_ends_the_program(tmp_path: Path) -> None:
    task = asyncio.create_task(run(f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 100"))
    async with asyncio.timeout(60):
        while not (tmp_path / "pid").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _runs(int((tmp_path / "pid").read_text()))


async def test_streamed_output_is_returned_in_parts_with_the_error_output() -> None:
    pieces = stream_command("sh", ["-c", "echo one; echo two >&2"])
    assert b"".join([piece async for piece in pieces]) == b"one\ntwo\n"


async def test_closing_a_stream_ends_the_program() -> None:
    pieces = cast(AsyncGenerator[bytes, None], stream_command("sh", ["-c", "echo $$; sleep 100"]))
    pid = int(await anext(pieces))
    await pieces.aclose()
    assert not _runs(pid)


async def test_a_program_gets_the_given_environment() -> None:
    found = await run_command("sh", ["-c", "echo $MINE"], limit=5, env={**os.environ, "MINE": "yes"})
    assert found == "yes\n"
