"""An internal error in each kind of task of an agent is logged and reported, and all tasks continue."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ankaios.agent.core.workload_events import StateSeen
from ankaios.agent.core.workload_lifecycle import reduce
from ankaios.common import supervision
from ankaios.common.device_grant import DeviceGrant
from ankaios.common.execution_state import exited
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import FromServer, TellWorkloads
from ankaios.common.workload import (
    ControlInterfaceAccess,
    LogRule,
    Operation,
    ResourceRequest,
    RestartPolicy,
    StateRule,
    WorkloadSpec,
)
from ankaios.runtimes.runtime_connector import Extras
from tests.support.bugs import BUG, SHOWN, FailsOnce
from tests.support.builders import a_workload
from tests.support.fake_runtime import FakeRuntime
from tests.unit.agent.fake_devices import FakeDevices
from tests.unit.agent.harness import AgentScenario, an_agent, server_hello, update_workload
from tests.unit.agent.pipes import Pipes
from tests.unit.agent.test_log_streams import line, logs_request

OTHER = a_workload("other", "A")
WEB = a_workload("web", "A", restart_policy=RestartPolicy.ON_FAILURE)
NAME = WEB.instance_name
RULES = (StateRule(Operation.READ_WRITE, ("*",)), LogRule(("*",)))
WITH_INTERFACE = a_workload("web", "A", access=ControlInterfaceAccess(RULES))
CAMERA = a_workload("web", "A", resources=(ResourceRequest("camera", 1),))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_DELAY", 0.001)
    monkeypatch.setattr("ankaios.agent.fifo.PACE_LIMIT", 0.002)


class LateRuntime(FakeRuntime):
    """The container is created, and then the start fails."""

    has_bug = False

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> str:
        made = await super().create_workload(spec, extras)
        if self.has_bug:
            self.has_bug = False
            raise BUG
        return made


@dataclass
class Given:
    """`messages`: all messages to server and workload."""

    scenario: AgentScenario
    patch: pytest.MonkeyPatch
    messages: list[str]

    async def handle(self, *messages: FromServer) -> None:
        self.messages += await self.scenario.handle(*messages)

    async def until_reported(self, text: str) -> None:
        async def look() -> bool:
            for message in await self.scenario.messages():
                if message.HasField("updateWorkloadState"):
                    self.messages.append(self.scenario._line(message))
                elif message.WhichOneof("ToServerEnum") in ("logEntriesResponse", "logsStopResponse"):
                    self.messages.append(line(message))
                else:
                    self.messages.append(str(message))
            return any(text in message for message in self.messages)

        while not await look():
            await self.scenario.until(lambda: len(self.scenario.outbox._queue) > 0)

    def fail_next(self, call: str) -> None:
        self.scenario.podman.fail_next(call, BUG)


async def start(given: Given) -> None:
    given.fail_next("create")
    await given.handle(update_workload((WEB,)))
    await given.until_reported("web Running(Ok)")


async def start_with_devices(given: Given) -> None:
    devices = given.scenario.manager._devices
    assert isinstance(devices, FakeDevices)
    devices.grant = DeviceGrant()
    given.patch.setattr(devices, "acquire", FailsOnce(devices.acquire))
    await given.handle(update_workload((CAMERA,)))
    await given.until_reported("web Running(Ok)")


async def late_start(given: Given) -> None:
    assert isinstance(given.scenario.podman, LateRuntime)
    given.scenario.podman.has_bug = True
    await given.handle(update_workload((WEB,)))
    await given.until_reported("web Running(Ok)")


async def deletion(given: Given) -> None:
    await given.handle(update_workload((WEB,)))
    given.fail_next("delete")
    await given.handle(update_workload(deleted={NAME: {}}))
    await given.until_reported("web Removed")


async def watch(given: Given) -> None:
    podman = given.scenario.podman
    given.patch.setattr(podman, "start_checker", FailsOnce(podman.start_checker))
    await given.handle(update_workload((WEB,)))
    await given.until_reported("web Running(Ok)")


async def decision(given: Given) -> None:
    await given.handle(update_workload((WEB,)))
    failing = FailsOnce(reduce)

    def decide(workload: Any, event: Any) -> Any:
        return failing(workload, event) if isinstance(event, StateSeen) else reduce(workload, event)

    given.patch.setattr("ankaios.agent.workload_task.reduce", decide)
    given.scenario.podman.report_wrong_state(given.scenario.podman.named("web").id, exited(7))
    given.messages.clear()
    await given.until_reported("web Running(Ok)")


async def report(given: Given) -> None:
    work = given.scenario.manager._work
    given.patch.setattr(work, "_forward", FailsOnce(work._forward))
    await given.handle(update_workload((WEB,)))
    await given.until_reported("web Running(Ok)")


async def operation(given: Given) -> None:
    facade = given.scenario.manager._work._facade
    given.patch.setattr(facade, "create", FailsOnce(facade.create))
    await given.handle(update_workload((WEB,)))
    await given.handle(server_hello(OTHER, WEB))
    await given.until_reported("web Running(Ok)")


async def message(given: Given) -> None:
    planner = given.scenario.manager._planner
    given.patch.setattr(planner, "update_workload", FailsOnce(planner.update_workload))
    await given.handle(update_workload((WEB,)))
    await given.handle(server_hello(OTHER, WEB))
    await given.until_reported("web Running(Ok)")


async def listing(given: Given) -> None:
    given.fail_next("existing")
    await given.handle(server_hello(OTHER, WEB))
    await given.until_reported("web Running(Ok)")


async def listed(given: Given) -> None:
    planner = given.scenario.manager._planner
    given.patch.setattr(planner, "listed", FailsOnce(planner.listed))
    await given.handle(server_hello(OTHER, WEB))
    await given.until_reported("web Running(Ok)")


async def unneeded(given: Given) -> None:
    given.scenario.podman.add_existing(NAME)
    given.fail_next("delete")
    await given.handle(server_hello(OTHER))
    await given.until_reported("web Removed")


async def answer(given: Given) -> None:
    await given.handle(update_workload((WEB,)))
    given.fail_next("existing")
    given.scenario.manager.has_workloads = False  # as an agent whose runtimes are not listed yet
    given.scenario.manager.handle(FromServer(tellWorkloads=TellWorkloads()))
    await given.until_reported("knownWorkloads")
    given.messages.append(f"{SHOWN} is for the log only")


async def logs(given: Given) -> None:
    await given.handle(update_workload((WEB,)))
    podman = given.scenario.podman
    given.patch.setattr(podman, "logs", FailsOnce(podman.logs))
    given.scenario.manager.handle(logs_request("r", "web"))
    await given.until_reported("r: web stop")
    podman.print(podman.named("web").id, b"hello\n")
    given.scenario.manager.handle(logs_request("again", "web"))
    await given.until_reported("again: ['web.given hello']")


async def request(given: Given) -> None:
    await given.handle(update_workload((WITH_INTERFACE,)))
    interface = interface_of(given)
    pipes = Pipes(interface.folder)
    pipes.hello()
    await pipes.receive()
    given.patch.setattr(interface._session, "receive", FailsOnce(interface._session.receive))
    for number in (1, 2):
        pipes.ask(f"r{number}", "desiredState")
    response = (await pipes.receive()).response
    given.messages.append(f"{response.requestId}: {response.error.message}")
    await given.until_reported('"web@r2"')
    pipes.close()


async def reading(given: Given) -> None:
    await given.handle(update_workload((WITH_INTERFACE,)))
    interface = interface_of(given)
    given.patch.setattr(interface._reader, "read", FailsOnce(interface._reader.read))
    pipes = Pipes(interface.folder)
    pipes.hello()
    await pipes.receive()
    pipes.ask("r1", "desiredState")  # reaches the read that fails
    pipes.ask("r2", "desiredState")
    await given.until_reported('"web@r2"')
    given.messages.append(f"{SHOWN} is for the log only")
    pipes.close()


async def writing(given: Given) -> None:
    await given.handle(update_workload((WITH_INTERFACE,)))
    interface = interface_of(given)
    pipes = Pipes(interface.folder)
    pipes.hello()
    await pipes.receive()
    given.patch.setattr(interface._writer, "write", FailsOnce(interface._writer.write))
    for number in (1, 2):
        interface.deliver(base.Response(requestId=f"r{number}", error=base.Error(message=SHOWN)))
    given.messages.append(str((await pipes.receive()).response))
    assert 'requestId: "r2"' in given.messages[-1]
    pipes.close()


def interface_of(given: Given) -> Any:
    return given.scenario.manager._work.workloads["web"].interface._interface


@dataclass
class Kind:
    crash: Callable[[Given], Awaitable[None]]
    log: str
    reported: str
    spec: WorkloadSpec = WEB


RETRY = f"«Retry 1: {SHOWN}»"
KINDS = [
    Kind(start, "the step Start of workload 'web'", f"web Failed(Unknown){RETRY}"),
    Kind(late_start, "the step Start of workload 'web'", f"web Failed(Unknown){RETRY}"),
    Kind(start_with_devices, "the step AcquireDevices of workload 'web'", f"web Pending(Starting){RETRY}", CAMERA),
    Kind(deletion, "the step DeleteContainer of workload 'web'", f"web Stopping(DeleteFailed)«{SHOWN}»"),
    Kind(watch, "the step Watch of workload 'web'", f"web Failed(Unknown){RETRY}"),
    Kind(decision, "the decision StateSeen of workload 'web'", f"web Failed(Unknown){RETRY}"),
    Kind(report, f"the report that '{NAME}' is Pending(Starting)", "web Running(Ok)"),
    Kind(operation, "an operation on workload 'web'", f"web Failed(Unknown)«{SHOWN}»"),
    Kind(message, "the message 'updateWorkload' of the server", f"web Pending(StartingFailed)«{SHOWN}»"),
    Kind(listing, "the list of existing workloads of 'podman', starting it again", f"web Pending(Starting)«{SHOWN}"),
    Kind(listed, "the list of existing workloads of 'podman', starting it again", f"web Pending(Starting)«{SHOWN}"),
    Kind(unneeded, f"the deletion of the unneeded '{NAME}', retrying", f"web Stopping(DeleteFailed)«{SHOWN}»"),
    Kind(answer, "the list of existing workloads of 'podman'", SHOWN),
    Kind(logs, "the logs of 'web', stopping their collection", f"r: ['web.given {SHOWN}']"),
    Kind(request, "a message of workload 'web'", f"r1: {SHOWN}", WITH_INTERFACE),
    Kind(reading, "the control interface of 'web', requests, starting it again", SHOWN, WITH_INTERFACE),
    Kind(writing, "the control interface of 'web', responses, starting it again", SHOWN, WITH_INTERFACE),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crash.__name__)
async def test_an_internal_error_is_logged_reported_and_retried_while_others_continue(
    kind: Kind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with an_agent(made_by=LateRuntime, devices=FakeDevices(), expects_bugs=True) as a:
        given = Given(a, monkeypatch, [])
        await given.handle(server_hello(OTHER))
        other = a.podman.named("other").id
        await kind.crash(given)

        errors = [record for record in caplog.records if record.levelname == "ERROR"]
        assert [record.getMessage().startswith(f"internal error in {kind.log}") for record in errors] == [True]
        assert errors[0].exc_info and errors[0].exc_info[1] is BUG
        assert [message for message in given.messages if kind.reported in message], given.messages

        await given.handle(update_workload((a_workload("late", "A"),), {NAME: {}}))
        await a.until(lambda: not a.folder.of(NAME).exists())
        await given.until_reported("late Running(Ok)")
        left = {each.instance_name.workload: each.id for each in a.podman.workloads.values()}
        assert sorted(left) == ["late", "other"]
        assert left["other"] == other
