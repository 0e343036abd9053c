"""Telling lists: the first always, later ones only on change."""

from collections.abc import Iterator
from contextlib import aclosing

from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.discovery.base import in_order, poll

ONE = (DiscoveredDevice("one"),)
TWO = (DiscoveredDevice("one"), DiscoveredDevice("two"))


async def told(looks: list[Devices], count: int) -> list[Devices]:
    rounds: Iterator[Devices] = iter(looks)

    async def look() -> Devices:
        return next(rounds)

    heard: list[Devices] = []
    async with aclosing(poll(look, 0)) as lists:
        async for devices in lists:
            heard.append(devices)
            if len(heard) == count:
                break
    return heard


async def test_the_first_list_is_told_even_if_it_is_empty() -> None:
    assert await told([()], 1) == [()]


async def test_an_unchanged_list_is_not_told_again() -> None:
    assert await told([ONE, ONE, ONE, TWO, TWO, ()], 3) == [ONE, TWO, ()]


async def test_a_changed_property_of_a_device_is_a_change() -> None:
    changed = (DiscoveredDevice("one", {"key": "value"}),)
    assert await told([ONE, changed], 2) == [ONE, changed]


def test_lists_are_ordered_by_the_identity_of_the_devices() -> None:
    assert in_order({"two": DiscoveredDevice("two"), "one": DiscoveredDevice("one")}) == TWO
