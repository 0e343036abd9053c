"""Calls of podman by the podman connector, and handling of the answers."""

import asyncio
import time
from pathlib import Path

import pytest

from ankaios.common import supervision
from ankaios.common.execution_state import FAILED_EXEC_FAILED, RUNNING_OK, SUCCEEDED_OK, ExecutionState, exited
from ankaios.runtimes.command import CommandFailed
from ankaios.runtimes.podman import podman_resync
from ankaios.runtimes.podman.podman_runtime import Podman, PodmanRuntime
from ankaios.runtimes.podman.podman_settings import PodmanSettings
from ankaios.runtimes.runtime_connector import Existing, Extras, LogOptions, RuntimeFailed
from ankaios.runtimes.state_cache import StateCache
from ankaios.simulation.virtual_time import VirtualTimeLoop
from tests.support.bugs import FailsOnce
from tests.support.builders import a_workload, an_instance
from tests.support.waiting import until
from tests.unit.runtimes.fake_monitor import FakeMonitor, FakePodmanFolders
from tests.unit.runtimes.recording_cli import PS, RecordingCli, a_container, failed

SPEC = a_workload("web", "agent_A", config="image: alpine:3")
NAME = SPEC.instance_name


def labelled(container: str, state: str = "running", name: object = NAME, agent: str = "agent_A", **more: int) -> dict:  # type: ignore[type-arg]
    return a_container(container, state, Labels={"name": str(name), "agent": agent}, **more)


def runtime_of(cli: RecordingCli) -> PodmanRuntime:
    return PodmanRuntime(Podman(cli))


def test_the_runtime_name_is_podman() -> None:
    """[utest->swdd~podman-name-returns-podman~1]"""
    assert PodmanRuntime.name == "podman"


async def test_creating_runs_one_command_and_returns_the_container_id() -> None:
    """[utest->swdd~podman-create-workload-returns-workload-id~1]
    [utest->swdd~podman-workload-stores-container-id~1]
    [utest->swdd~podman-create-workload-sets-optionally-container-name~1]
    """
    cli = RecordingCli()
    cli.answers["run"] = "c1\n"
    assert await runtime_of(cli).create_workload(SPEC, Extras()) == "c1"
    expected = f"run --detach --name {NAME.short} --label=name={NAME} --label=agent=agent_A alpine:3"
    assert cli.lines() == [expected]


async def test_the_control_interface_and_files_are_mounted() -> None:
    """[utest->swdd~podman-create-workload-mounts-fifo-files~1]"""
    cli = RecordingCli()
    cli.answers["run"] = "c1\n"
    extras = Extras(control_interface=Path("/ci"), files={Path("/f/x"): "/x"})
    await runtime_of(cli).create_workload(SPEC, extras)
    assert cli.calls[0][4:6] == [
        "--mount=type=bind,source=/ci,destination=/run/ankaios/control_interface",
        "--mount=type=bind,source=/f/x,destination=/x,readonly=true",
    ]


async def test_an_ended_container_is_started_again() -> None:
    """[utest->swdd~podman-workload-starts-container~1]"""
    cli = RecordingCli()
    cli.answers["start"] = "c1\n"
    assert await runtime_of(cli).create_workload(SPEC, Extras(reuse="c1")) == "c1"
    assert cli.lines() == ["start c1"]


async def test_a_failed_start_removes_its_container_by_label_and_reports_the_error() -> None:
    """The container can have a name of the user, and a container with the short name can be unrelated.

    The error leads to `Pending(Starting)` and not to a failed state, as in the original's code (docs/differences.md).
    [utest->swdd~podman-workload-update-workload-state-on-start-failure~1]
    """
    cli = RecordingCli([labelled("half", "created"), a_container("foreign", Names=[NAME.short])])
    cli.answers["run"] = failed("exec not found", 127)
    with pytest.raises(RuntimeFailed, match="exec not found"):
        await runtime_of(cli).create_workload(SPEC, Extras())
    assert cli.lines()[1:] == [PS, "rm --force --ignore half"]


async def test_a_container_that_fails_to_start_again_is_removed() -> None:
    cli = RecordingCli()
    cli.answers["start"] = failed("no such file")
    with pytest.raises(RuntimeFailed):
        await runtime_of(cli).create_workload(SPEC, Extras(reuse="c1"))
    assert cli.lines()[-1:] == ["rm --force --ignore c1"]


async def test_a_failed_clean_up_does_not_hide_the_error_of_the_start() -> None:
    cli = RecordingCli()
    cli.answers |= {"run": failed("image not known"), PS: failed("broken")}
    with pytest.raises(CommandFailed, match="image not known"):
        await runtime_of(cli).create_workload(SPEC, Extras())


async def test_existing_workloads_are_found_by_the_label_agent() -> None:
    """[utest->swdd~podman-list-of-existing-workloads-uses-labels~1]"""
    other, odd = an_instance("job"), an_instance("x", agent="agent_B")
    cli = RecordingCli(
        [
            labelled("c1"),
            labelled("c2", "exited", other, ExitCode=3),
            labelled("c3", agent="agent_B", name=odd),
            labelled("c4", name="no instance name"),
            labelled("c5", name=odd),
            a_container("c6"),
        ]
    )
    found = await runtime_of(cli).existing_workloads("agent_A")
    assert found == [Existing(NAME, RUNNING_OK, "c1"), Existing(other, exited(3), "c2")]


async def test_one_listing_serves_the_whole_restart_of_an_agent() -> None:
    specs = [a_workload(f"w{number}") for number in range(50)]
    cli = RecordingCli([labelled(f"c{number}", name=spec.instance_name) for number, spec in enumerate(specs)])
    runtime = runtime_of(cli)
    assert len(await runtime.existing_workloads("agent_A")) == 50
    reported: list[ExecutionState] = []
    checkers = []
    for spec in specs:
        workload = await runtime.workload_id(spec.instance_name)
        assert workload is not None
        checkers.append(runtime.start_checker(spec, workload, reported.append))
    for _ in range(10):
        await asyncio.sleep(0)
    assert reported == [RUNNING_OK] * 50
    assert cli.count("ps") == 1
    for checker in checkers:
        checker.stop()
    await runtime.close()


async def test_a_listing_that_fails_is_an_error_so_that_the_agent_retries() -> None:
    cli = RecordingCli()
    cli.answers[PS] = failed()
    runtime = runtime_of(cli)
    with pytest.raises(RuntimeFailed):
        await runtime.existing_workloads("agent_A")
    with pytest.raises(RuntimeFailed):
        await runtime.workload_id(NAME)


async def test_the_id_of_a_workload_is_found_by_the_label_name() -> None:
    """[utest->swdd~podman-get-workload-id-uses-label~1]"""
    runtime = runtime_of(RecordingCli([labelled("c1"), labelled("c2", name=an_instance("other"))]))
    assert await runtime.workload_id(NAME) == "c1"
    assert await runtime.workload_id(an_instance("unknown")) is None


async def test_of_several_containers_with_one_name_the_running_one_is_used() -> None:
    runtime = runtime_of(RecordingCli([labelled("old", "exited"), labelled("new")]))
    assert await runtime.workload_id(NAME) == "new"
    assert await runtime.existing_workloads("agent_A") == [Existing(NAME, RUNNING_OK, "new")]


async def test_deleting_stops_and_removes_the_container() -> None:
    """[utest->swdd~podman-delete-workload-stops-and-removes-workload~1]
    [utest->swdd~podman-adapter-request-stopping-container~2]
    """
    cli = RecordingCli()
    await runtime_of(cli).delete_workload("c1")
    assert cli.lines() == ["rm --force --ignore c1"]


async def test_an_exit_that_podman_repairs_is_not_the_end_of_a_resumed_workload(tmp_path: Path) -> None:
    """A restarted agent has not created the container; only the configuration shows that podman restarts it."""
    container, folders = "c1" * 32, FakePodmanFolders(tmp_path)
    spec = a_workload(config="image: alpine:3\ncommandOptions: [--restart=always]")
    first = FakeMonitor(folders, container)
    cli = RecordingCli([labelled(container, name=spec.instance_name, Pid=first.pid)])
    runtime = runtime_of(cli)
    reported: list[ExecutionState] = []
    checker = runtime.start_checker(spec, container, reported.append)
    await until(lambda: runtime.processes(container) == [first.pid])
    first.end(3)
    first.wait()
    second = FakeMonitor(folders, container)
    cli.show(labelled(container, name=spec.instance_name, Pid=second.pid))
    await until(lambda: runtime.processes(container) == [second.pid] or len(reported) > 1)
    checker.stop()
    await runtime.close()
    second.close()
    assert reported == [RUNNING_OK]


async def test_nothing_is_reported_of_a_container_while_it_is_deleted() -> None:
    cli = RecordingCli([labelled("c1", "exited", ExitCode=1)])
    runtime = runtime_of(cli)
    reported: list[ExecutionState] = []
    checker = runtime.start_checker(SPEC, "c1", reported.append)
    await _settle()
    await runtime.delete_workload("c1")
    cli.show()
    await cli.listings.get()
    await _settle()
    assert reported == [exited(1)]
    checker.stop()
    await runtime.close()


async def test_after_a_failed_delete_the_container_is_watched_again() -> None:
    cli = RecordingCli([labelled("c1", "exited", ExitCode=1)])
    runtime = runtime_of(cli)
    reported: list[ExecutionState] = []
    checker = runtime.start_checker(SPEC, "c1", reported.append)
    await _settle()
    cli.answers["rm"] = failed()
    with pytest.raises(RuntimeFailed):
        await runtime.delete_workload("c1")
    cli.show(labelled("c1", "exited", ExitCode=0))
    await cli.listings.get()
    await _settle()
    assert reported == [exited(1), SUCCEEDED_OK]
    checker.stop()
    await runtime.close()


def test_a_container_without_a_monitor_is_polled_until_its_end_is_reported() -> None:
    """[utest->swdd~podman-workload-monitors-workload-state~1]"""
    reported: list[tuple[float, ExecutionState]] = []

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        cli = RecordingCli([labelled("c1")])
        cli.listings = StateCache(cli._list, loop.time)
        podman = Podman(cli)
        podman.watch.now = loop.time
        runtime = PodmanRuntime(podman)
        runtime.start_checker(SPEC, "c1", lambda state: reported.append((loop.time(), state)))
        await asyncio.sleep(3.1)
        cli.show(labelled("c1", "exited", ExitCode=7))
        await asyncio.sleep(3)
        await runtime.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(watch())
    assert reported == [(0.0, RUNNING_OK), (3.5, exited(7))]


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_logs_are_those_of_the_container(tmp_path: Path) -> None:
    from ankaios.runtimes.podman.podman_cli import PodmanCli
    from tests.support.stand_in import StandIn

    stand_in = StandIn(tmp_path)
    runtime = PodmanRuntime(Podman(PodmanCli(PodmanSettings(program=stand_in.program))))
    stand_in.script("logs", do="print", stdout="one\ntwo\n")
    pieces = [piece async for piece in runtime.logs("c1", LogOptions(follow=True, tail=2))]
    assert b"".join(pieces) == b"one\ntwo\n"
    assert stand_in.calls() == [["logs", "-f", "--tail", "2", "c1"]]


async def test_changes_without_hints_are_found_by_the_resync(monkeypatch: pytest.MonkeyPatch) -> None:
    cli = RecordingCli([labelled("c1", "exited", ExitCode=0)], settings=PodmanSettings(resync=0.001))
    runtime = runtime_of(cli)
    reported: list[ExecutionState] = []
    received = asyncio.Event()

    def sink(state: ExecutionState) -> None:
        reported.append(state)
        received.set()

    checker = runtime.start_checker(SPEC, "c1", sink)
    async with asyncio.timeout(60):
        await received.wait()
        received.clear()
        cli.show(labelled("c1", "exited", ExitCode=9))
        await received.wait()
    assert reported == [SUCCEEDED_OK, exited(9)]
    checker.stop()
    await runtime.close()


async def test_the_resync_continues_after_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervision, "FIRST_DELAY", 0.0)
    cli = RecordingCli([labelled("c1", "exited", ExitCode=0)], settings=PodmanSettings(resync=0.001))
    runtime = runtime_of(cli)
    received = asyncio.Event()
    checker = runtime.start_checker(SPEC, "c1", lambda state: received.set() if state == exited(9) else None)
    await _settle()
    monkeypatch.setattr(cli.listings, "get", FailsOnce(cli.listings.get))
    cli.show(labelled("c1", "exited", ExitCode=9))
    async with asyncio.timeout(60):
        await received.wait()
    assert "internal error in the podman resync, starting it again in 0 s: Bug: a bug" in caplog.text
    checker.stop()
    await runtime.close()


async def test_the_slow_listing_ends_when_nothing_is_watched() -> None:
    cli = RecordingCli([labelled("c1", "exited", ExitCode=0)], settings=PodmanSettings(resync=0.001))
    runtime = runtime_of(cli)
    checker = runtime.start_checker(SPEC, "c1", lambda _: None)
    checker.stop()
    began = time.monotonic()
    while any(task.get_name() == "podman resync" for task in asyncio.all_tasks()):
        assert time.monotonic() - began < 60
        await asyncio.sleep(0.001)
    await runtime.close()


async def test_a_failed_container_is_reported_to_the_sink() -> None:
    """[utest->swdd~podman-workload-sends-workload-state~1]"""
    cli = RecordingCli([labelled("c1", "exited", ExitCode=1)])
    runtime = runtime_of(cli)
    reported: list[ExecutionState] = []
    checker = runtime.start_checker(SPEC, "c1", reported.append)
    await _settle()
    checker.stop()
    await runtime.close()
    assert [state.is_same(FAILED_EXEC_FAILED) for state in reported] == [True]


async def test_a_failed_slow_listing_is_logged_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    cli = RecordingCli([labelled("c1", "exited", ExitCode=0)], settings=PodmanSettings(resync=0.001))
    runtime = runtime_of(cli)
    checker = runtime.start_checker(SPEC, "c1", lambda _: None)
    await _settle()
    cli.answers[PS] = failed("locked")
    async with asyncio.timeout(60):
        while caplog.text.count("cannot list containers: locked") < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    checker.stop()
    await runtime.close()


async def test_a_stored_state_triggers_a_listing_before_the_next_resync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(podman_resync, "WRITTEN_PAUSE", 0.0)
    cli = RecordingCli([labelled("c1", "exited", ExitCode=0)], settings=PodmanSettings(resync=1000.0))
    podman = Podman(cli)
    runtime = PodmanRuntime(podman)
    received = asyncio.Event()
    checker = runtime.start_checker(SPEC, "c1", lambda state: received.set() if state == exited(9) else None)
    await _settle()
    cli.show(labelled("c1", "exited", ExitCode=9))
    podman.watch.states_written.set()
    async with asyncio.timeout(60):
        await received.wait()
    checker.stop()
    await runtime.close()


@pytest.mark.parametrize(("answer", "expected"), [("true\n", True), ("false\n", False)])
async def test_podman_reports_an_out_of_memory_kill(answer: str, expected: bool) -> None:
    cli = RecordingCli()
    cli.answers["container inspect --format {{.State.OOMKilled}} c1"] = answer
    assert await runtime_of(cli).was_out_of_memory("c1") is expected
