"""The containerd connector and its calls of nerdctl."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ankaios.common.execution_state import (
    FAILED_EXEC_FAILED,
    FAILED_LOST,
    FAILED_UNKNOWN,
    PENDING_STARTING,
    RUNNING_OK,
    STOPPING,
    SUCCEEDED_OK,
    ExecutionState,
    exited,
)
from ankaios.runtimes.command import CommandFailed
from ankaios.runtimes.container_listing import Container
from ankaios.runtimes.containerd.containerd_runtime import ContainerdRuntime, NerdctlStateGetter
from ankaios.runtimes.containerd.nerdctl_cli import (
    NERDCTL_UNREADABLE,
    NerdctlCli,
    NerdctlSettings,
    nerdctl_state,
    parse_containers,
    parse_ids,
)
from ankaios.runtimes.exit_watch import process_start
from ankaios.runtimes.runtime_connector import CheckTarget, Existing, Extras, RuntimeFailed
from tests.support.builders import a_workload, an_instance
from tests.unit.runtimes.recording_cli import failed

SPEC = a_workload("web", "agent_A", "containerd", "image: alpine:3\ngeneralOptions: [--namespace, k8s.io]")
NAME = SPEC.instance_name
PS = "ps --all --quiet --no-trunc"


class RecordingNerdctl(NerdctlCli):
    """Replaces nerdctl: answers depend on the beginning of the command line."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(NerdctlSettings())
        self.answers: dict[str, Any] = {"": "", **answers}
        self.lines: list[str] = []

    async def _call_now(
        self, arguments: Sequence[str], limit: float, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        line = " ".join(arguments)
        self.lines.append(line)
        answer = self.answers[max((key for key in self.answers if line.startswith(key)), key=len)]
        if isinstance(answer, Exception):
            raise answer
        return str(answer)


def entry(container: str, word: str = "running", code: int = 0, pid: int = 0, name: object = NAME) -> dict[str, Any]:
    labels = {"name": str(name), "agent": "agent_A", "nerdctl/networks": '["none"]'}
    state = {"Status": word, "ExitCode": code, "Pid": pid}
    return {"Id": container, "State": state, "Config": {"Labels": labels}}


def nerdctl_with(*entries: dict[str, Any], **answers: Any) -> RecordingNerdctl:
    """Lists these containers."""
    ids = "\n".join(each["Id"] for each in entries)
    return RecordingNerdctl(**{"ps": ids, "inspect": json.dumps(list(entries)), **answers})


def parsed_states(text: str) -> dict[str, ExecutionState]:
    return states_of(parse_containers(text))


def states_of(containers: Iterable[Container]) -> dict[str, ExecutionState]:
    return {container.id: container.state for container in containers}


@pytest.mark.parametrize(
    ("word", "code", "state"),
    [
        ("created", 0, PENDING_STARTING.because("created")),
        ("restarting", 0, PENDING_STARTING.because("restarting")),
        ("Running", 0, RUNNING_OK),
        ("exited", 0, SUCCEEDED_OK),
        ("exited", 3, exited(3)),
        ("exited", None, FAILED_UNKNOWN.because("exited")),
        ("dead", 4, exited(4)),
        ("dead", 0, FAILED_EXEC_FAILED.because("Exit code: '0'")),
        ("removing", 0, STOPPING.because("removing")),
        ("paused", 0, FAILED_UNKNOWN.because("paused")),
        ("new", 0, FAILED_UNKNOWN.because("new")),
    ],
)
def test_each_status_of_nerdctl_has_its_state(word: str, code: int | None, state: ExecutionState) -> None:
    assert nerdctl_state(word, code) == state


def test_ids_are_listed_in_one_line_each() -> None:
    assert parse_ids("c1\n\nlevel=warning\nc2\n") == ["c1", "c2"]
    assert parse_ids("") == []


def test_invalid_ids_are_an_error() -> None:
    with pytest.raises(RuntimeFailed, match="cannot read the list of containers: time="):
        parse_ids("time=now level=fatal")


@pytest.mark.parametrize("labels", [None, [], {"name": 1}])
def test_invalid_labels_are_ignored(labels: object) -> None:
    (container,) = parse_containers(json.dumps([entry("c1") | {"Config": {"Labels": labels}}]))
    assert container.labels == {}


@pytest.mark.parametrize("text", ["", "{}", "x"])
def test_invalid_states_are_an_error(text: str) -> None:
    with pytest.raises(RuntimeFailed, match="cannot read the states of containers"):
        parsed_states(text)


def test_one_invalid_state_does_not_affect_the_others() -> None:
    text = '[3, {"Id": "a"}, {"Id": "b", "State": {"Status": "running"}}, {"Id": "c", "State": {"Status": 3}}]'
    assert parsed_states(text) == {"a": FAILED_UNKNOWN, "b": RUNNING_OK, "c": FAILED_UNKNOWN}


async def test_run_and_start_have_the_same_arguments_as_for_podman() -> None:
    cli = RecordingNerdctl(**{"--namespace k8s.io run": "c1\n", "--namespace k8s.io start": "name\n"})
    runtime = ContainerdRuntime(cli)
    assert await runtime.create_workload(SPEC, Extras(control_interface=Path("/ci"))) == "c1"
    assert await runtime.create_workload(SPEC, Extras(reuse="c1")) == "c1"
    assert cli.lines == [
        f"--namespace k8s.io run --detach --name {NAME.short} "
        "--mount=type=bind,source=/ci,destination=/run/ankaios/control_interface "
        f"--label=name={NAME} --label=agent=agent_A alpine:3",
        "--namespace k8s.io start c1",
    ]


async def test_existing_workloads_are_found_by_label_and_inspected_together() -> None:
    other, foreign = an_instance("job"), an_instance(agent="agent_B")
    entries = [entry("c1"), entry("c2", "exited", 2, name=other), entry("c3", name="odd"), entry("c4", name=foreign)]
    cli = nerdctl_with(*entries)
    found = await ContainerdRuntime(cli).existing_workloads("agent_A")
    assert found == [Existing(NAME, RUNNING_OK, "c1"), Existing(other, exited(2), "c2")]
    assert cli.lines == [PS, "inspect c1 c2 c3 c4"]


async def test_without_containers_nothing_is_inspected() -> None:
    cli = RecordingNerdctl()
    runtime = ContainerdRuntime(cli)
    assert await runtime.existing_workloads("agent_A") == []
    assert (await cli.listings.get()).get().by_id == {}
    assert cli.lines == [PS]


async def test_the_id_of_a_workload_is_found_by_label() -> None:
    cli = nerdctl_with(entry("c1", name=an_instance("job")), entry("c2", "exited"), entry("c3"))
    assert await ContainerdRuntime(cli).workload_id(NAME) == "c3"
    assert await ContainerdRuntime(cli).workload_id(an_instance("none")) is None
    assert cli.lines == [PS, "inspect c1 c2 c3"]


async def test_a_failed_run_removes_its_container() -> None:
    failing = {"--namespace": failed("no such image")}
    cli = nerdctl_with(entry("half", "created"), **failing)
    with pytest.raises(CommandFailed, match="no such image"):
        await ContainerdRuntime(cli).create_workload(SPEC, Extras())
    assert cli.lines[1:] == [PS, "inspect half", "stop half", "rm half"]
    cli = RecordingNerdctl(ps=failed("broken"), **failing)
    with pytest.raises(CommandFailed, match="no such image"):
        await ContainerdRuntime(cli).create_workload(SPEC, Extras())


async def test_a_missing_container_is_deleted_without_an_error() -> None:
    gone = failed('level=fatal msg="no such container: c1"')
    cli = RecordingNerdctl(stop=gone, rm=gone)
    await ContainerdRuntime(cli).delete_workload("c1")
    assert cli.lines == ["stop c1", "rm c1"]
    cli.answers["rm"] = failed("busy")
    with pytest.raises(CommandFailed, match="busy"):
        await ContainerdRuntime(cli).delete_workload("c1")


async def test_states_come_from_one_shared_listing() -> None:
    cli = nerdctl_with(entry("c1"), entry("c2", "exited", 1))
    getters = [NerdctlStateGetter(cli, container) for container in ("c1", "c2", "c3")]
    assert [await getter.get_state() for getter in getters] == [RUNNING_OK, exited(1), FAILED_LOST]
    assert cli.lines == [PS, "inspect c1 c2"]
    assert getters[0].pause() == 0.5


def inspect_failed(why: str, output: str) -> CommandFailed:
    return CommandFailed("nerdctl inspect", why, 1, output)


@pytest.mark.parametrize(
    ("error", "states"),
    [
        (inspect_failed("1 errors: [no such object b]", json.dumps([entry("a")])), {"a": RUNNING_OK}),
        (inspect_failed("2 errors: [no such object a no such object b]", ""), {}),
    ],
)
async def test_a_container_that_is_removed_meanwhile_does_not_hide_the_others(
    error: CommandFailed, states: dict[str, ExecutionState]
) -> None:
    cli = RecordingNerdctl(ps="a\nb", inspect=error)
    assert states_of((await cli.listings.get()).get().by_id.values()) == states


@pytest.mark.parametrize(
    "error",
    [
        inspect_failed("1 errors: [cannot read b]", json.dumps([entry("a")])),
        inspect_failed("1 errors: [no such object a]", ""),
        inspect_failed("1 errors: [no such object b]", "garbage"),
    ],
)
async def test_containers_that_cannot_be_inspected_do_not_count_as_removed(error: CommandFailed) -> None:
    """A removed container is restarted, so a second one would run beside it."""
    cli = RecordingNerdctl(ps="a\nb", inspect=error)
    with pytest.raises(RuntimeFailed):
        (await cli.listings.get()).get()


async def test_if_nerdctl_fails_the_state_is_unknown() -> None:
    cli = RecordingNerdctl(ps=failed())
    assert await NerdctlStateGetter(cli, "c1").get_state() == NERDCTL_UNREADABLE
    assert cli.lines == [PS, PS]


async def test_the_process_of_a_container_is_read_from_the_listing_and_cached() -> None:
    cli = nerdctl_with(entry("c1", pid=os.getpid()))
    runtime = ContainerdRuntime(cli)
    assert runtime.processes("c1") == []  # nothing is listed yet
    target = await runtime.check_target("c1")
    assert target == CheckTarget(os.getpid(), process_start(os.getpid()) or 0)
    cli.answers["ps"] = failed("hangs")
    cli.listings.reset()
    assert await runtime.check_target("c1") == target
    assert runtime.processes("c1") == [os.getpid()]
    assert cli.lines == [PS, "inspect c1"]


@pytest.mark.parametrize(("word", "pid"), [("running", 2**22 + 1), ("running", 0), ("exited", 1)])
async def test_a_container_without_a_process_cannot_be_checked(word: str, pid: int) -> None:
    """The listing of an ended container can have the id of an earlier process."""
    runtime = ContainerdRuntime(nerdctl_with(entry("c1", word, pid=pid)))
    for container in ("c1", "c2"):
        with pytest.raises(RuntimeFailed, match="cannot find the process of the workload"):
            await runtime.check_target(container)
        assert runtime.processes(container) == []


async def test_the_usage_of_a_listed_container_needs_no_call() -> None:
    cli = nerdctl_with(entry("c1", pid=os.getpid()))
    runtime = ContainerdRuntime(cli)
    assert (await NerdctlStateGetter(cli, "c1").get_state()) == RUNNING_OK
    assert runtime.processes("c1") == [os.getpid()]
    assert cli.lines == [PS, "inspect c1"]


async def test_a_start_without_an_id_is_rejected() -> None:
    runtime = ContainerdRuntime(RecordingNerdctl())
    with pytest.raises(RuntimeFailed, match="printed no container id"):
        await runtime.create_workload(SPEC, Extras())


async def test_a_missing_nerdctl_is_reported_as_a_failed_command() -> None:
    """Missing output does not mean that no container exists."""
    runtime = ContainerdRuntime(NerdctlCli(NerdctlSettings(program="/no/such")))
    with pytest.raises(RuntimeFailed, match="Could not spawn command"):
        await runtime.existing_workloads("agent_A")
    with pytest.raises(RuntimeFailed, match="Could not spawn command"):
        await runtime.create_workload(SPEC, Extras())


def test_containers_can_be_listed_in_one_array_or_in_one_array_each() -> None:
    """The second form is that of nerdctl 1.7."""
    one, two = ({"Id": name, "State": {"Status": "running"}} for name in ("c1", "c2"))
    assert parsed_states(json.dumps([one, two])) == {"c1": RUNNING_OK, "c2": RUNNING_OK}
    assert parsed_states(f"{json.dumps([one])}\n{json.dumps([two])}\n") == {"c1": RUNNING_OK, "c2": RUNNING_OK}
