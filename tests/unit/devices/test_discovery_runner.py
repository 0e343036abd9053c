import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from pathlib import Path

import pytest

from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.discovery.base import HandlerLost, InvalidDetails, Properties
from ankaios.devices.discovery.registry import HandlerRegistry
from ankaios.devices.discovery_runner import LARGEST_PROPERTY, DiscoveryRunner, read_properties

CAM = Configuration("cam", "fake", "details", {"user": b"x"})


class FakeHandler:
    name = "fake"
    shared = True

    def __init__(self, *answers: Devices | Exception) -> None:
        self.answers = list(answers)
        self.questions: list[tuple[str, Properties]] = []
        self.open = 0

    async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        self.questions.append((details, properties))
        self.open += 1
        try:
            while self.answers:
                answer = self.answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                yield answer
            await asyncio.Event().wait()
        finally:
            self.open -= 1


class RecordingNode(NodeDevices):
    """Records the lists and failures that the runner passes on."""

    def __init__(self) -> None:
        super().__init__("node-a")
        self.seen: list[tuple[str, str, int]] = []
        self.failures: list[tuple[str, str, str]] = []

    def observe(
        self, configuration: str, source: str, devices: Iterable[DiscoveredDevice], shared: bool, now: float
    ) -> DeviceChanges:
        assert shared
        self.seen.append((configuration, source, len(list(devices))))
        return DeviceChanges()

    def discovery_possible(self, configuration: str, source: str) -> DeviceChanges:
        self.failures = [failure for failure in self.failures if failure[1] != source]
        return DeviceChanges()

    def discovery_failed(self, configuration: str, source: str, reason: str) -> DeviceChanges:
        self.failures.append((configuration, source, reason))
        return DeviceChanges()


class Runner:
    def __init__(self, *handlers: FakeHandler) -> None:
        self.registry = HandlerRegistry({})
        for handler in handlers:
            self.registry.add(handler)
        self.node = RecordingNode()
        self.runner = DiscoveryRunner(self.registry, self.node, lambda changes: None)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def devices(number: int) -> Devices:
    return tuple(DiscoveredDevice(f"foo{index}") for index in range(number))


@pytest.fixture
async def made() -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def start(made: list[asyncio.Task[None]], *handlers: FakeHandler) -> Runner:
    runner = Runner(*handlers)
    runner.runner.configure({"cam": CAM})
    made.append(asyncio.create_task(runner.runner.run()))
    await runner.settle()
    return runner


async def test_every_list_of_every_handler_of_the_name_is_passed_on(made: list[asyncio.Task[None]]) -> None:
    first, second = FakeHandler(devices(1), devices(2)), FakeHandler(devices(3))
    runner = await start(made, first, second)
    assert runner.node.seen == [("cam", "fake#0", 1), ("cam", "fake#0", 2), ("cam", "fake#1", 3)]
    assert first.questions == [("details", {"user": b"x"})]


async def test_a_handler_that_registers_later_is_used(made: list[asyncio.Task[None]]) -> None:
    runner = await start(made)
    runner.registry.add(FakeHandler(devices(1)))
    await runner.settle()
    assert runner.node.seen == [("cam", "fake#0", 1)]


async def test_a_failed_handler_keeps_its_devices_and_is_called_again(
    made: list[asyncio.Task[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ankaios.devices.discovery_runner.FIRST_PAUSE", 0)
    handler = FakeHandler(devices(1), HandlerLost("unreachable"), HandlerLost("unreachable"), devices(2))
    runner = await start(made, handler)
    await asyncio.sleep(0.01)
    assert [number for _, _, number in runner.node.seen] == [1, 2]
    assert len(handler.questions) == 3


async def test_a_handler_that_ends_without_a_list_is_not_called_in_a_loop(made: list[asyncio.Task[None]]) -> None:
    class Silent(FakeHandler):
        async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
            self.questions.append((details, properties))
            yield devices(1)

    handler = Silent()
    await start(made, handler)
    assert len(handler.questions) == 1


async def test_the_devices_of_a_handler_that_does_not_return_are_removed(made: list[asyncio.Task[None]]) -> None:
    handler = FakeHandler(devices(2))
    runner = await start(made, handler)
    runner.registry.remove(handler)
    await runner.settle()
    assert runner.node.seen[-1] == ("cam", "fake#0", 0)
    assert handler.open == 0


async def test_invalid_details_are_reported_and_not_retried(
    made: list[asyncio.Task[None]], caplog: pytest.LogCaptureFixture
) -> None:
    handler = FakeHandler(InvalidDetails("no such key"), devices(1))
    with caplog.at_level(logging.ERROR):
        runner = await start(made, handler)
    assert "no devices are discovered for 'cam': no such key" in caplog.text
    assert runner.node.failures == [("cam", "fake#0", "no such key")]
    runner.registry.announce()
    await runner.settle()
    assert runner.node.seen == [("cam", "fake#0", 0), ("cam", "fake#0", 1)]


async def test_devices_of_earlier_details_are_not_reported_for_rejected_details(
    made: list[asyncio.Task[None]],
) -> None:
    """After a restart of the agent they would be unknown; their grace time remains to correct the details."""
    handler = FakeHandler(devices(2))
    runner = await start(made, handler)
    handler.answers = [InvalidDetails("no such key")]
    runner.runner.configure({"cam": Configuration("cam", "fake", "wrong")})
    await runner.settle()
    assert runner.node.seen == [("cam", "fake#0", 2), ("cam", "fake#0", 0)]
    assert runner.node.failures == [("cam", "fake#0", "no such key")]


async def test_handlers_that_disappeared_are_removed(made: list[asyncio.Task[None]]) -> None:
    handler = FakeHandler(devices(1))
    alive = weakref.ref(handler)
    runner = await start(made, handler)
    runner.registry.remove(handler)
    await runner.settle()
    del handler
    gc.collect()
    assert alive() is None


async def test_devices_of_a_handler_that_left_while_the_details_changed_are_removed(
    made: list[asyncio.Task[None]],
) -> None:
    handler = FakeHandler(devices(2))
    runner = await start(made, handler)
    runner.runner.configure({"cam": Configuration("cam", "fake", "other")})
    runner.registry.remove(handler)
    await runner.settle()
    assert runner.node.seen == [("cam", "fake#0", 2), ("cam", "fake#0", 0)]


async def test_a_configuration_that_is_added_again_receives_no_earlier_devices(
    made: list[asyncio.Task[None]],
) -> None:
    class LateHandler(FakeHandler):
        """It returns a list after its configuration was deleted."""

        def __init__(self) -> None:
            super().__init__()
            self.released = asyncio.Event()

        async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
            self.questions.append((details, properties))
            if len(self.questions) == 1:
                await self.released.wait()
            yield devices(len(self.questions))
            await asyncio.Event().wait()

    handler = LateHandler()
    runner = await start(made, handler)
    handler.released.set()
    runner.runner.configure({})
    runner.runner.configure({"cam": CAM})
    await runner.settle()
    assert runner.node.seen == [("cam", "fake#1", 2)]


async def test_a_discovery_continues_unless_its_details_change(made: list[asyncio.Task[None]]) -> None:
    handler = FakeHandler(devices(1))
    runner = await start(made, handler)
    runner.runner.configure({"cam": Configuration("cam", "fake", "details", {"user": b"x"}, capacity=9)})
    await runner.settle()
    assert len(handler.questions) == 1
    runner.runner.configure({"cam": Configuration("cam", "fake", "other")})
    await runner.settle()
    assert [details for details, _ in handler.questions] == ["details", "other"]
    runner.runner.configure({})
    await runner.settle()
    assert handler.open == 0


async def test_devices_of_a_handler_that_is_not_used_any_more_are_removed(made: list[asyncio.Task[None]]) -> None:
    class OtherHandler(FakeHandler):
        name = "other"

    runner = await start(made, FakeHandler(devices(2)), OtherHandler(devices(1)))
    runner.runner.configure({"cam": Configuration("cam", "other")})
    await runner.settle()
    assert runner.node.seen == [("cam", "fake#0", 2), ("cam", "fake#0", 0), ("cam", "other#1", 1)]


async def test_devices_stay_until_the_same_handler_answers_changed_details(made: list[asyncio.Task[None]]) -> None:
    runner = await start(made, FakeHandler(devices(2)))
    runner.runner.configure({"cam": Configuration("cam", "fake", "other")})
    await runner.settle()
    assert runner.node.seen == [("cam", "fake#0", 2)]


async def test_the_last_devices_of_an_ended_discovery_are_not_passed_on(made: list[asyncio.Task[None]]) -> None:
    class LateHandler(FakeHandler):
        """It returns a list after its details changed."""

        def __init__(self) -> None:
            super().__init__()
            self.released = asyncio.Event()

        async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
            await self.released.wait()
            yield devices(2)
            await asyncio.Event().wait()

    handler = LateHandler()
    runner = await start(made, handler)
    handler.released.set()
    runner.runner.configure({"cam": Configuration("cam", "other")})
    await runner.settle()
    assert runner.node.seen == [("cam", "fake#0", 0)]


async def test_a_handler_without_its_package_keeps_its_devices_and_reports_what_to_install(
    made: list[asyncio.Task[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade that needs another package, running workloads keep their devices."""
    monkeypatch.setattr("ankaios.devices.discovery_runner.FIRST_PAUSE", 0)
    runner = await start(made, FakeHandler(devices(1), HandlerLost("install x"), HandlerLost("install x")))
    assert runner.node.seen == [("cam", "fake#0", 1)]
    assert runner.node.failures == [("cam", "fake#0", "install x")]


async def test_a_missing_handler_is_reported_until_it_registers(made: list[asyncio.Task[None]]) -> None:
    runner = await start(made)
    assert runner.node.failures == [("cam", "registration", "the discovery handler 'fake' is not registered")]
    runner.registry.add(FakeHandler(devices(1)))
    await runner.settle()
    assert runner.node.failures == []


def test_properties_are_read_from_files_and_are_no_part_of_the_configuration(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    files = {"password": str(secret)}
    configuration = Configuration("cam", "onvif", properties={"user": b"admin"}, property_files=files)
    assert read_properties(configuration) == {"user": b"admin", "password": b"s3cret"}
    assert b"s3cret" not in repr(configuration).encode()
    secret.unlink()
    with pytest.raises(HandlerLost, match="cannot read the file of the property 'password'"):
        read_properties(configuration)
    secret.write_bytes(b"x" * (LARGEST_PROPERTY + 1))
    with pytest.raises(HandlerLost, match="has more than"):
        read_properties(configuration)
