"""What changed is passed on once to everybody whom it concerns."""

import asyncio
from pathlib import Path

import pytest

from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import DiscoveredDevice
from ankaios.devices.core.node_devices import NodeDevices
from ankaios.devices.core.waiting_room import WaitingRoom
from ankaios.devices.core.workload_plan import Need
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.device_news import DeviceNews
from ankaios.devices.kubelet_registration import PluginHost
from ankaios.devices.server_slots import ServerSlots
from ankaios.devices.slot_office import SlotOffice

CAM, GPU = "akri.sh/cam", "x/gpu"


class News:
    """Of a node with one local camera; `w` waits for one."""

    def __init__(self, folder: Path) -> None:
        self.sent: list[grpc.DeviceReport] = []
        self.woken: list[str] = []
        self.obstacle: str | None = "none free"
        self.node = NodeDevices("node-a")
        self.node.configure({"cam": Configuration("cam", "fake")})
        self.touched = self.node.observe("cam", "s", [DiscoveredDevice("foo0")], False, 0)
        self.manager = DeviceManager(folder, self._changed)
        self.plugins = PluginHost(folder, watches=False)
        self.room = WaitingRoom(lambda owner, needs: self.obstacle)
        office = SlotOffice(self.node, ServerSlots(lambda message: None), lambda touched: None)
        self.news = DeviceNews(
            self.node,
            self.manager,
            self.plugins,
            office,
            self.room,
            lambda message: self.sent.append(message.deviceReport),
            self.woken.append,
        )
        self.room.enter("w", (Need(None, CAM, 1), Need(None, GPU, 1)), "none free", failed=False)

    def _changed(self, resource: str, came: bool) -> None:
        self.news.plugin_changed(resource, came)

    async def begin(self) -> None:
        self.news.begin()
        await asyncio.sleep(0)
        self.sent.clear()


@pytest.fixture
def made(tmp_path: Path) -> News:
    return News(tmp_path)


async def test_all_changes_of_a_moment_are_one_report_and_one_look_at_those_who_wait(made: News) -> None:
    await made.begin()
    made.obstacle = None
    made.news.note(made.touched)
    made.news.note(made.touched)
    assert (made.sent, made.woken) == ([], [])
    await asyncio.sleep(0)
    assert [list(report.seen) for report in made.sent] == [["cam-fbcb99"]]
    assert made.woken == ["w"]


async def test_a_complete_report_leaves_nothing_to_report_but_wakes_nobody_less(made: News) -> None:
    await made.begin()
    made.obstacle = None
    made.news.note(made.touched)
    made.news.report_all()
    await asyncio.sleep(0)
    assert [report.complete for report in made.sent] == [True]
    assert made.woken == ["w"]


async def test_before_it_begins_nothing_is_passed_on_and_then_all_that_is_known(made: News) -> None:
    made.obstacle = None
    made.news.note(made.touched)
    made.manager.mark(GPU, ["g0"], "other")
    await asyncio.sleep(0)
    assert (made.sent, made.woken, made.plugins.resources()) == ([], [], {})
    made.news.begin()
    await asyncio.sleep(0)
    assert set(made.plugins.resources()) == {CAM, "akri.sh/cam-fbcb99"}
    assert made.woken == ["w"]


async def test_of_our_own_plugins_lists_are_no_news_and_of_others_use_is(made: News) -> None:
    await made.begin()
    made.obstacle = None
    made.news.plugin_changed(CAM, False)
    await asyncio.sleep(0)
    assert (made.sent, made.woken) == ([], [])
    made.manager.mark(GPU, ["g0"], "other")
    await asyncio.sleep(0)
    assert [list(report.goneResources) for report in made.sent] == [[GPU]]
    assert made.woken == ["w"]


async def test_a_plugin_of_ours_that_came_is_news_for_those_who_failed(made: News) -> None:
    await made.begin()
    made.room.enter("w", (Need(None, CAM, 1),), "out of order", failed=True)
    made.news.note(made.touched)
    await asyncio.sleep(0)
    assert made.woken == []
    made.news.plugin_changed(CAM, True)
    await asyncio.sleep(0)
    assert made.woken == ["w"]


async def test_a_device_that_is_gone_takes_its_plugin_along(made: News) -> None:
    await made.begin()
    made.news.note(made.node.configure({}))
    await asyncio.sleep(0)
    assert made.plugins.resources() == {}
    assert list(made.sent[0].gone) == ["cam-fbcb99"]
    assert list(made.sent[0].goneResources) == ["akri.sh/cam-fbcb99", CAM]
