"""Each change is reported once to the server, and checked once for the workloads that wait."""

import asyncio
from pathlib import Path

import pytest

from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.claim_plan import ResourceNeed
from ankaios.devices.core.node_devices import DeviceChanges
from ankaios.devices.core.pending_claims import PendingClaims
from ankaios.devices.device_reporter import DeviceReporter
from ankaios.devices.foreign_devices import ForeignDevices
from tests.unit.devices.nodes import LOCAL, a_node

CAM, GPU = "akri.sh/cam", "x/gpu"
CAMERA = DeviceChanges({LOCAL}, {"cam"})


class Reporter:
    """Of a node with one local camera; `w` waits for it and a GPU."""

    def __init__(self, folder: Path) -> None:
        self.sent: list[grpc.DeviceReport] = []
        self.woken: list[str] = []
        self.obstacle: str | None = None
        self.node = a_node()
        self.foreign = ForeignDevices(folder, lambda resource, registered: None)
        self.pending = PendingClaims(lambda owner, needs: self.obstacle)
        self.reporter = DeviceReporter(
            self.node,
            self.foreign,
            self.pending,
            lambda message: self.sent.append(message.deviceReport),
            self.woken.append,
        )
        self.pending.add("w", (ResourceNeed(None, CAM, 1), ResourceNeed(None, GPU, 1)), "none free", failed=False)


@pytest.fixture
def made(tmp_path: Path) -> Reporter:
    return Reporter(tmp_path)


async def test_all_changes_of_one_turn_are_one_report_and_one_check(made: Reporter) -> None:
    made.reporter.changed(CAMERA)
    made.reporter.changed(CAMERA)
    made.reporter.changed(DeviceChanges())
    assert (made.sent, made.woken) == ([], [])
    await asyncio.sleep(0)
    assert [list(report.seen) for report in made.sent] == [[LOCAL]]
    assert made.woken == ["w"]


async def test_a_complete_report_contains_the_changes_but_does_not_replace_the_check(made: Reporter) -> None:
    made.reporter.changed(CAMERA)
    made.reporter.report_all()
    await asyncio.sleep(0)
    assert [report.complete for report in made.sent] == [True]
    assert made.woken == ["w"]


async def test_a_resource_of_another_plugin_is_reported_when_the_plugin_changes(made: Reporter) -> None:
    made.reporter.plugin_changed(GPU, registered=False)
    await asyncio.sleep(0)
    assert [list(report.goneResources) for report in made.sent] == [[GPU]]
    assert made.woken == ["w"]


async def test_a_plugin_that_registers_retries_failed_claims(made: Reporter) -> None:
    made.pending.add("w", (ResourceNeed(None, GPU, 1),), "out of order", failed=True)
    made.reporter.plugin_changed(GPU, registered=False)
    await asyncio.sleep(0)
    assert made.woken == []
    made.reporter.plugin_changed(GPU, registered=True)
    await asyncio.sleep(0)
    assert made.woken == ["w"]


async def test_failed_claims_are_retried_on_request(made: Reporter) -> None:
    made.reporter.retry_failed()
    assert made.woken == []
    made.pending.add("w", (ResourceNeed(None, GPU, 1),), "out of order", failed=True)
    made.reporter.retry_failed()
    assert made.woken == ["w"]


async def test_a_configuration_that_is_removed_is_reported_with_its_devices(made: Reporter) -> None:
    made.reporter.report_all()
    made.reporter.changed(made.node.configure({}))
    await asyncio.sleep(0)
    report = made.sent[1]
    assert (list(report.gone), list(report.goneResources)) == ([LOCAL], [f"akri.sh/{LOCAL}", CAM])
