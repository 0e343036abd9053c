"""The behaviour that an agent requires of every runtime.

[itest->swdd~podman-workload-sends-workload-state~1]
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from ankaios.common.execution_state import FAILED_LOST, RUNNING_OK, SUCCEEDED_OK, ExecutionState, exited
from ankaios.common.workload import InstanceName
from ankaios.runtimes.podman.states import KUBE_UNKNOWN
from ankaios.runtimes.runtime_connector import Extras, LogOptions, RuntimeConnector, Unsupported
from tests.integration.runtimes.state_log import LIMIT, StateLog
from tests.support.isolated_containerd import IsolatedContainerd
from tests.support.podman_env import PodmanEnv, podman_env  # noqa: F401 - a fixture
from tests.support.runtime_subjects import AGENT, SUBJECTS, WITH_PROCESSES, Subject, make_subject, waits_for_end

LONG = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
EXITS_0 = "echo out; echo err >&2; sleep 0.3; exit 0"
EXITS_3 = "sleep 0.3; exit 3"


@pytest.fixture(scope="module")
def containerd_env(podman_env: PodmanEnv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IsolatedContainerd]:  # noqa: F811
    env = IsolatedContainerd(tmp_path_factory.mktemp("c") / "d", podman_env)
    yield env
    env.close()


@pytest.fixture(params=SUBJECTS)
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    async with make_subject(request.param, tmp_path, request) as made:
        yield made


@pytest.fixture
async def connector(subject: Subject) -> AsyncIterator[RuntimeConnector]:
    made = subject.connect()
    yield made
    await made.close()


async def _has_processes(connector: RuntimeConnector, workload: str, *, expected: bool) -> None:
    async with asyncio.timeout(30):
        while bool(connector.processes(workload)) != expected:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.05)


async def test_a_created_workload_runs_until_it_is_deleted(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("web", LONG)
    workload = await connector.create_workload(spec, Extras())
    log = StateLog()
    checker = connector.start_checker(spec, workload, log)
    assert await log.first() == RUNNING_OK
    assert await connector.workload_id(spec.instance_name) == workload
    if isinstance(subject, WITH_PROCESSES):
        await _has_processes(connector, workload, expected=True)
    await connector.delete_workload(workload)
    checker.stop()
    await _has_processes(connector, workload, expected=False)
    assert await connector.workload_id(spec.instance_name) is None
    assert await connector.existing_workloads(AGENT) == []


@pytest.mark.parametrize(("script", "code"), [(EXITS_0, 0), (EXITS_3, 3)])
async def test_the_end_of_a_workload_is_reported_with_its_exit_code(
    subject: Subject, connector: RuntimeConnector, script: str, code: int
) -> None:
    spec = subject.spec("job", script)
    workload = await connector.create_workload(spec, Extras())
    log = StateLog()
    checker = connector.start_checker(spec, workload, log)
    await log.first()
    await subject.let_end(workload, code)
    await log.until(exited(code))
    checker.stop()
    async with asyncio.timeout(LIMIT):  # a runtime may need a moment to clean up
        while [each.state for each in await connector.existing_workloads(AGENT)] != [exited(code)]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_existing_workloads_are_those_of_the_calling_agent(subject: Subject, connector: RuntimeConnector) -> None:
    mine, other = subject.spec("web", LONG), subject.spec("web", LONG, agent="other_A")
    workload = await connector.create_workload(mine, Extras())
    await connector.create_workload(other, Extras())
    (existing,) = await connector.existing_workloads(AGENT)
    assert (existing.instance_name, existing.state) == (mine.instance_name, RUNNING_OK)
    assert existing.id == (workload if subject.can_reuse else None)
    assert await connector.existing_workloads("A") == []  # a name with the same ending


async def test_deleting_a_missing_workload_succeeds(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("web", LONG)
    workload = await connector.create_workload(spec, Extras())
    await connector.delete_workload(workload)
    await connector.delete_workload(workload)
    unknown = InstanceName.of("never", AGENT, "made")
    assert await connector.workload_id(unknown) is None


async def test_a_stopped_checker_reports_nothing(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("job", EXITS_0)
    workload = await connector.create_workload(spec, Extras())
    stopped_log, log = StateLog(), StateLog()
    stopped = connector.start_checker(spec, workload, stopped_log)
    checker = connector.start_checker(spec, workload, log)
    await log.first()
    stopped.stop()
    reported = list(stopped_log.states)
    await subject.let_end(workload, 0)
    await log.until(SUCCEEDED_OK)
    checker.stop()
    stopped.stop()
    assert stopped_log.states == reported


async def test_a_closed_connector_reports_nothing(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("web", LONG)
    workload = await connector.create_workload(spec, Extras())
    log = StateLog()
    connector.start_checker(spec, workload, log)
    await log.first()
    await connector.close()
    again = subject.connect()
    await again.delete_workload(workload)
    assert log.states == [RUNNING_OK]
    await again.close()


async def test_an_ended_workload_runs_again_under_the_same_id(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("job", waits_for_end(subject, 0))
    workload = await connector.create_workload(spec, Extras())
    first, second = StateLog(), StateLog()
    checker = connector.start_checker(spec, workload, first)
    await first.first()
    await subject.let_end(workload, 0)
    await first.until(SUCCEEDED_OK)
    checker.stop()
    (subject.folder / "end").unlink(missing_ok=True)
    assert await connector.create_workload(spec, Extras(reuse=workload)) == workload
    checker = connector.start_checker(spec, workload, second)
    assert await second.first() == RUNNING_OK
    await subject.let_end(workload, 0)
    await second.until(SUCCEEDED_OK)
    checker.stop()
    assert second.states == [RUNNING_OK, SUCCEEDED_OK]


async def test_a_restarted_agent_watches_running_workloads(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("job", waits_for_end(subject, 3))
    workload = await connector.create_workload(spec, Extras())
    await connector.close()
    restarted = subject.connect()
    (existing,) = await restarted.existing_workloads(AGENT)
    assert existing.state == RUNNING_OK
    assert await restarted.workload_id(spec.instance_name) == workload
    log = StateLog()
    checker = restarted.start_checker(spec, workload, log)
    assert await log.first() == RUNNING_OK
    await subject.let_end(workload, 3)
    await log.until(exited(3))
    checker.stop()
    await restarted.close()


async def test_an_exit_without_an_agent_is_reported_later(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("job", "exit 3")
    workload = await connector.create_workload(spec, Extras())
    await subject.let_end(workload, 3)
    await connector.close()
    restarted = subject.connect()
    log = StateLog()
    checker = restarted.start_checker(spec, workload, log)
    await log.until(exited(3))
    checker.stop()
    await restarted.close()


async def test_a_workload_removed_by_hand_is_reported(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("web", LONG)
    workload = await connector.create_workload(spec, Extras())
    log = StateLog()
    checker = connector.start_checker(spec, workload, log)
    await log.until(RUNNING_OK)
    await subject.remove_by_hand(workload)
    await log.until(_gone(subject))
    checker.stop()


def _gone(subject: Subject) -> ExecutionState:
    return FAILED_LOST if subject.loses else KUBE_UNKNOWN


async def test_logs_contain_the_complete_output(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("job", EXITS_0)
    workload = await connector.create_workload(spec, Extras())
    log = StateLog()
    checker = connector.start_checker(spec, workload, log)
    await log.first()
    await subject.let_end(workload, 0)
    await log.until(SUCCEEDED_OK)
    checker.stop()
    async with asyncio.timeout(LIMIT):
        pieces = [piece async for piece in connector.logs(workload, LogOptions())]
    assert sorted(b"".join(pieces).splitlines()) == [b"err", b"out"]


async def test_followed_logs_end_with_the_workload(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("job", "sleep 0.3; echo out; echo err; exit 0")
    workload = await connector.create_workload(spec, Extras())
    reader = asyncio.create_task(_read(connector, workload), name="reader")
    await subject.let_end(workload, 0)
    async with asyncio.timeout(LIMIT):
        assert (await reader).splitlines() == [b"out", b"err"]


async def _read(connector: RuntimeConnector, workload: str) -> bytes:
    return b"".join([piece async for piece in connector.logs(workload, LogOptions(follow=True))])


async def test_closing_followed_logs_ends_the_collection(subject: Subject, connector: RuntimeConnector) -> None:
    spec = subject.spec("web", f"echo hello; {LONG}")
    workload = await connector.create_workload(spec, Extras())
    if subject.name == "fake":
        cast("object", connector).print(workload, b"hello\n")  # type: ignore[attr-defined]
    pieces = cast(AsyncGenerator[bytes, None], connector.logs(workload, LogOptions(follow=True)))
    async with asyncio.timeout(LIMIT):
        assert (await anext(pieces)).startswith(b"hello")
        await pieces.aclose()


@pytest.mark.parametrize("subject", [name for name in SUBJECTS if name != "fake"], indirect=True)
@pytest.mark.parametrize("config", ["[", "- a list", "image: 1\ncommand: 1\nmanifest: 1", ""])
async def test_an_invalid_configuration_is_rejected_without_retry(
    subject: Subject, connector: RuntimeConnector, config: str
) -> None:
    """The fake runtime accepts any configuration."""
    spec = replace(subject.spec("web", LONG), runtime_config=config)
    with pytest.raises(Unsupported):
        await connector.create_workload(spec, Extras())
    assert await connector.existing_workloads(AGENT) == []
