"""Virtual time passes without waiting, and a killed process does nothing more."""

import asyncio
import time

import pytest

from ankaios.simulation.virtual_time import NothingToDo, SimulatedProcess, VirtualTimeLoop, current_process


@pytest.fixture
def loop() -> VirtualTimeLoop:
    return VirtualTimeLoop()


def test_an_hour_passes_without_waiting(loop: VirtualTimeLoop) -> None:
    began = time.monotonic()
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.now == 3600
    assert time.monotonic() - began < 60


def test_timers_fire_in_order(loop: VirtualTimeLoop) -> None:
    fired: list[str] = []

    async def work() -> None:
        loop.call_later(2, fired.append, "second")
        loop.call_later(1, fired.append, "first")
        await asyncio.sleep(3)

    loop.run_until_complete(work())
    assert fired == ["first", "second"]


def test_a_wait_without_end_is_an_error(loop: VirtualTimeLoop) -> None:
    with pytest.raises(NothingToDo):
        loop.run_until_complete(asyncio.Event().wait())


def test_functions_for_threads_are_called_immediately(loop: VirtualTimeLoop) -> None:
    async def work() -> str:
        return await asyncio.to_thread(lambda: "done")

    assert loop.run_until_complete(work()) == "done"


def test_a_killed_process_runs_no_cleanup_code(loop: VirtualTimeLoop) -> None:
    seen: list[str] = []

    async def child() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("cleanup")

    async def program() -> None:
        process = current_process()
        assert process is not None
        seen.append(process.name)
        asyncio.get_running_loop().call_later(5, seen.append, "timer")
        await child()

    async def work() -> None:
        process = SimulatedProcess("server", "host")
        process.at_end.append(lambda _: seen.append("sockets closed"))
        process.start(program())
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(20)
        assert seen == ["server", "sockets closed"]

    loop.run_until_complete(work())
