"""The existing handlers, and the notification when they change."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from ankaios.devices.core.discovered_device import Devices
from ankaios.devices.discovery.base import DiscoveryHandler, Properties
from ankaios.devices.discovery.registry import HandlerRegistry


class FakeHandler:
    def __init__(self, name: str, shared: bool = False) -> None:
        self.name = name
        self.shared = shared

    async def discover(self, details: str, properties: Properties) -> AsyncGenerator[Devices, None]:
        yield ()


@pytest.mark.parametrize(("name", "shared"), [("debugEcho", False), ("udev", False), ("onvif", True), ("opcua", True)])
def test_the_four_handlers_of_akri_are_built_in(name: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUG_ECHO_INSTANCES_SHARED", raising=False)
    (handler,) = HandlerRegistry().get(name)
    assert (handler.name, handler.shared) == (name, shared)


def test_a_built_in_handler_is_made_once_and_only_when_it_is_named() -> None:
    made: list[FakeHandler] = []

    def make() -> DiscoveryHandler:
        made.append(FakeHandler("x"))
        return made[-1]

    registry = HandlerRegistry({"x": make})
    assert made == []
    assert registry.get("x") == registry.get("x") == made
    assert registry.get("unknown") == []


def test_registered_handlers_join_the_built_in_one_of_their_name() -> None:
    built_in, one, two, other = FakeHandler("x"), FakeHandler("x"), FakeHandler("x"), FakeHandler("y")
    registry = HandlerRegistry({"x": lambda: built_in})
    for handler in (one, two, other):
        registry.add(handler)
    assert registry.get("x") == [built_in, one, two]
    assert registry.get("y") == [other]
    registry.remove(one)
    assert registry.get("x") == [built_in, two]


async def test_waiting_tasks_are_woken_by_every_kind_of_change() -> None:
    registry, handler = HandlerRegistry({}), FakeHandler("x")
    changes: list[Callable[[], None]] = [
        lambda: registry.add(handler),
        registry.announce,
        lambda: registry.remove(handler),
    ]
    for change in changes:
        before = registry.version
        waiting = [asyncio.ensure_future(registry.wait_changed(before)) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(one.done() for one in waiting)
        change()
        async with asyncio.timeout(5):
            assert await asyncio.gather(*waiting) == [before + 1] * 2


async def test_a_change_between_looking_and_waiting_is_not_missed() -> None:
    registry = HandlerRegistry({})
    before = registry.version
    registry.add(FakeHandler("x"))
    async with asyncio.timeout(5):
        assert await registry.wait_changed(before) == before + 1
