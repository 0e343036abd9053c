"""The container of an updated workload is created while its predecessor stops."""

import asyncio

import pytest
from msgspec.structs import replace

from ankaios.agent.successor import can_be_prepared
from ankaios.common.execution_state import PENDING_STARTING
from ankaios.common.workload import ControlInterfaceAccess, File, LogRule, ResourceRequest, WorkloadSpec
from ankaios.runtimes.fake import FakeRuntime
from ankaios.runtimes.runtime_connector import RuntimeFailed
from tests.support.builders import a_workload
from tests.unit.agent.harness import AgentStory, an_agent, server_hello, update_workload

OLD, NEW = a_workload("web", "A", config="image: one"), a_workload("web", "A", config="image: two")


class PreparingRuntime(FakeRuntime):
    """Records its calls in order."""

    async def prepare_workload(self, spec: WorkloadSpec) -> str:
        await asyncio.sleep(0)
        self.calls.append(("prepare", spec.instance_name.id))
        self._fail("prepare")
        return self.add_existing(spec.instance_name, PENDING_STARTING, spec).id

    def _fail(self, call: str) -> None:
        if call in self.fail_always:
            raise self.fail_always[call]


async def updated(a: AgentStory, new: WorkloadSpec = NEW) -> list[str]:
    await a.server_says(server_hello(OLD))
    a.podman.calls.clear()
    await a.server_says(update_workload((new,), {OLD.instance_name: {}}))
    return [call for call, _ in a.podman.calls if call in ("prepare", "create", "delete")]


async def test_a_successor_is_prepared_during_the_delete_and_then_started() -> None:
    async with an_agent(made_by=PreparingRuntime) as a:
        assert sorted(await updated(a)) == ["create", "delete", "prepare"]
        (only,) = a.podman.workloads.values()
        assert (only.instance_name, only.starts) == (NEW.instance_name, 2)


async def test_a_failed_preparation_changes_nothing() -> None:
    def broken(runtime: FakeRuntime) -> None:
        runtime.fail_always["prepare"] = RuntimeFailed("no image")

    async with an_agent(made_by=PreparingRuntime, prepare=broken) as a:
        assert (await updated(a))[-1] == "create"
        (only,) = a.podman.workloads.values()
        assert only.instance_name == NEW.instance_name


async def test_a_prepared_container_is_removed_if_its_predecessor_cannot_be_deleted() -> None:
    async with an_agent(made_by=PreparingRuntime, chance=lambda: 1.0) as a:
        await a.server_says(server_hello(OLD))
        a.podman.fail_next("delete", RuntimeFailed("busy"))
        await a.server_says(update_workload((NEW,), {OLD.instance_name: {}}))
        assert [each.instance_name for each in a.podman.workloads.values()] == [OLD.instance_name]


@pytest.mark.parametrize(
    ("new", "can"),
    [
        (NEW, True),
        (replace(OLD, tags={"a": "b"}), False),
        (replace(NEW, runtime="podman-kube"), False),
        (replace(NEW, files=(File("/x", data="y"),)), False),
        (replace(NEW, resources=(ResourceRequest("camera", 1),)), False),
        (replace(NEW, access=ControlInterfaceAccess(allow=(LogRule(("*",)),))), False),
    ],
)
def test_only_what_needs_nothing_from_the_host_and_has_another_name_is_prepared(new: WorkloadSpec, can: bool) -> None:
    assert can_be_prepared(OLD, new) == can
