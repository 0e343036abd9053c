"""debugEcho: devices from descriptions, and a file that removes them."""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest

from ankaios.devices.core.discovered_device import Devices, DiscoveredDevice
from ankaios.devices.discovery.base import InvalidDetails
from ankaios.devices.discovery.debug_echo import DebugEchoHandler, is_offline

DETAILS = "descriptions: [foo1, foo0, foo0]"
BOTH = (
    DiscoveredDevice("foo0", {"DEBUG_ECHO_DESCRIPTION": "foo0"}),
    DiscoveredDevice("foo1", {"DEBUG_ECHO_DESCRIPTION": "foo1"}),
)


async def test_each_description_is_a_device_until_the_file_contains_offline(tmp_path: Path) -> None:
    file = tmp_path / "availability.txt"
    received: list[Devices] = []
    async with asyncio.timeout(10), aclosing(DebugEchoHandler(availability_file=file).discover(DETAILS, {})) as lists:
        received.append(await anext(lists))
        file.write_text("OFFLINE\n")
        received.append(await anext(lists))
        file.write_text("ONLINE\n")
        received.append(await anext(lists))
    assert received == [BOTH, (), BOTH]


async def test_offline_from_the_beginning_is_reported_as_an_empty_list(tmp_path: Path) -> None:
    file = tmp_path / "availability.txt"
    file.write_text("OFFLINE")
    async with asyncio.timeout(10), aclosing(DebugEchoHandler(availability_file=file).discover(DETAILS, {})) as lists:
        assert await anext(lists) == ()


async def test_descriptions_are_required() -> None:
    with pytest.raises(InvalidDetails, match="missing required field `descriptions`"):
        await anext(DebugEchoHandler().discover("", {}))


def test_the_environment_configures_sharing_and_the_path_of_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DEBUG_ECHO_INSTANCES_SHARED", raising=False)
    assert DebugEchoHandler().shared is False
    monkeypatch.setenv("DEBUG_ECHO_INSTANCES_SHARED", "true")
    assert DebugEchoHandler().shared is True
    assert DebugEchoHandler(shared=False).shared is False


async def test_the_file_can_be_named_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("OFFLINE")
    monkeypatch.setenv("DEBUG_ECHO_AVAILABILITY_FILE", str(tmp_path / "file"))
    async with aclosing(DebugEchoHandler().discover(DETAILS, {})) as lists:
        assert await anext(lists) == ()


def test_a_pipe_or_folder_in_place_of_the_file_neither_blocks_nor_counts(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert is_offline(tmp_path / "pipe") is False
    assert is_offline(tmp_path) is False
    assert is_offline(tmp_path / "missing") is False
