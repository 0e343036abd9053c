"""The limit of concurrent calls."""

import asyncio

from ankaios.runtimes.call_slots import CallSlots


class Worker:
    def __init__(self, slots: CallSlots) -> None:
        self.slots = slots
        self.inside = 0
        self.most = 0
        self.go_on = asyncio.Event()

    async def work(self) -> None:
        async with self.slots.slot():
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self.go_on.wait()
            self.inside -= 1


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_number_of_concurrent_calls_is_limited() -> None:
    worker = Worker(CallSlots(working=2, release_after=1000))
    tasks = [asyncio.create_task(worker.work()) for _ in range(10)]
    await settle()
    assert worker.inside == 2
    worker.go_on.set()
    await asyncio.gather(*tasks)
    assert worker.most == 2


async def test_a_long_call_releases_its_slot_until_a_second_limit() -> None:
    worker = Worker(CallSlots(working=1, waiting=3, release_after=0))
    tasks = [asyncio.create_task(worker.work()) for _ in range(10)]
    async with asyncio.timeout(60):
        while worker.inside < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    await settle()
    assert worker.inside == 4
    worker.go_on.set()
    await asyncio.gather(*tasks)
    assert worker.most == 4


async def test_a_cancelled_call_releases_its_slot() -> None:
    worker = Worker(CallSlots(working=1, waiting=0, release_after=1000))
    first = asyncio.create_task(worker.work())
    await settle()
    second = asyncio.create_task(worker.work())
    await settle()
    assert worker.inside == 1
    first.cancel()
    await settle()
    worker.inside = 0
    worker.go_on.set()
    await second
    async with worker.slots.slot():
        pass
