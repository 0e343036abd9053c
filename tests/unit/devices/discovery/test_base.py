"""Lists of devices: the first one is always reported, later ones only if they changed."""

from collections.abc import Iterator
from contextlib import aclosing

from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.discovery.base import in_order, poll

ONE = (DiscoveredDevice("one"),)
TWO = (DiscoveredDevice("one"), DiscoveredDevice("two"))


async def reported_lists(lists: list[Devices], count: int) -> list[Devices]:
    rounds: Iterator[Devices] = iter(lists)

    async def next_list() -> Devices:
        return next(rounds)

    reported: list[Devices] = []
    async with aclosing(poll(next_list, 0)) as reports:
        async for devices in reports:
            reported.append(devices)
            if len(reported) == count:
                break
    return reported


async def test_the_first_list_is_reported_even_if_it_is_empty() -> None:
    assert await reported_lists([()], 1) == [()]


async def test_an_unchanged_list_is_not_reported_again() -> None:
    assert await reported_lists([ONE, ONE, ONE, TWO, TWO, ()], 3) == [ONE, TWO, ()]


async def test_a_changed_property_of_a_device_is_a_change() -> None:
    changed = (DiscoveredDevice("one", {"key": "value"}),)
    assert await reported_lists([ONE, changed], 2) == [ONE, changed]


def test_lists_are_ordered_by_the_identity_of_the_devices() -> None:
    assert in_order({"two": DiscoveredDevice("two"), "one": DiscoveredDevice("one")}) == TWO
