"""After any sequence of faults, exactly the assigned workloads run, and the server has their states."""

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ankaios.common.execution_state import RUNNING_OK, SUCCEEDED_OK, ExecutionState, exited
from ankaios.common.proto_conversion import workload_state_from_pb
from ankaios.common.workload import AddCondition, InstanceName, RestartPolicy, WorkloadSpec
from ankaios.runtimes.runtime_connector import Extras, RuntimeFailed, StateChecker, StateSink
from tests.support.bugs import BUG
from tests.support.builders import a_workload
from tests.support.examples import examples
from tests.support.fake_runtime import FakeRuntime
from tests.unit.agent.harness import NOT_PENDING_NOR_RUNNING, AgentScenario, an_agent, server_hello, update_workload

NAMES = ("a", "b", "c")
RUNNING = AddCondition.ADD_COND_RUNNING


class CleaningRuntime(FakeRuntime):
    """Like real runtimes, it removes a container that could not be restarted, unless an internal error is injected."""

    late_errors = 0
    failing_watches = 0

    async def create_workload(self, spec: WorkloadSpec, extras: Extras) -> str:
        try:
            made = await super().create_workload(spec, extras)
        except RuntimeFailed:
            self.workloads.pop(extras.reuse or "", None)
            raise
        if self.late_errors:
            self.late_errors -= 1
            raise BUG
        return made

    def start_checker(self, spec: WorkloadSpec, workload: str, sink: StateSink) -> StateChecker:
        if self.failing_watches:
            self.failing_watches -= 1
            raise BUG
        return super().start_checker(spec, workload, sink)


@dataclass
class Server:
    """Assigns workloads and stores reported states, as the real server does."""

    wanted: dict[str, WorkloadSpec] = field(default_factory=dict)
    reported: dict[InstanceName, ExecutionState] = field(default_factory=dict)
    number: int = 0

    def new_spec(self, name: str, *, same_id: bool) -> WorkloadSpec:
        """`c` needs a running `b`; `a` and `b` are free."""
        self.number += 1
        old = self.wanted.get(name)
        if same_id and old:
            return replace(old, tags={"n": str(self.number)})
        dependencies = {"b": RUNNING} if name == "c" else {}
        policy = RestartPolicy.ON_FAILURE
        return a_workload(name, "A", config=f"image: {self.number}", dependencies=dependencies, restart_policy=policy)

    def read_states(self, scenario: AgentScenario) -> None:
        while (message := scenario.outbox._queue.take()) is not None:
            for state in message.updateWorkloadState.workloadStates:
                name, execution = workload_state_from_pb(state)
                if execution.state == "Removed":
                    self.reported.pop(name, None)
                else:
                    self.reported[name] = execution


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "change", "tag", "delete", "hello", "reconnect", "exit", "end", "fail", "stuck", "rest", "bug"]
        ),
        st.sampled_from(NAMES),
    ),
    max_size=25,
)


def step(kind: str, name: str, server: Server, scenario: AgentScenario) -> None:
    podman, old = scenario.podman, server.wanted.get(name)
    conditions = {"c": NOT_PENDING_NOR_RUNNING} if name == "b" and "c" in server.wanted else {}
    match kind:
        case "add" | "change" | "tag":
            spec = server.wanted[name] = server.new_spec(name, same_id=kind == "tag")
            scenario.manager.handle(update_workload((spec,), {old.instance_name: conditions} if old else {}))
        case "delete" if old:
            del server.wanted[name]
            scenario.manager.handle(update_workload(deleted={old.instance_name: conditions}))
        case "hello":
            scenario.manager.handle(server_hello(*server.wanted.values()))
        case "reconnect":
            scenario.disconnect()
            scenario.connect()
            scenario.manager.handle(server_hello(*server.wanted.values()))
        case "exit" | "end":
            for each in list(podman.workloads.values()):
                if each.instance_name.workload == name:
                    podman.set_state(each.id, exited(1) if kind == "exit" else SUCCEEDED_OK)
        case "fail":
            podman.fail_next("create", RuntimeFailed("no"))
        case "stuck":
            podman.fail_next("delete", RuntimeFailed("busy"))
        case "bug" if isinstance(podman, CleaningRuntime):
            # Each name is a function in which an internal error can be injected.
            match name:
                case "a":
                    podman.fail_next("create", BUG)
                    podman.fail_next("id", BUG)
                case "b":
                    podman.late_errors += 1
                case _:
                    podman.fail_next("delete", BUG)
                    podman.failing_watches += 1
        case _:
            pass


async def settle(server: Server, scenario: AgentScenario) -> None:
    for _ in range(60):
        await asyncio.sleep(0)
        server.read_states(scenario)


async def run_agent(steps: list[tuple[str, str]], runtime: FakeRuntime, server: Server, folder: Path) -> None:
    async with an_agent(base=folder, made_by=CleaningRuntime, expects_bugs=True) as scenario:
        scenario.runtimes["podman"].__dict__.update(runtime.__dict__)
        scenario.manager.handle(server_hello(*server.wanted.values()))
        for kind, name in steps:
            step(kind, name, server, scenario)
            if kind == "rest":
                await settle(server, scenario)
            else:
                await asyncio.sleep(0)
        await settle(server, scenario)
        await check_convergence(server, scenario)
        runtime.__dict__.update(scenario.podman.__dict__)
        runtime.checkers.clear()


async def check_convergence(server: Server, scenario: AgentScenario) -> None:
    """Without faults, a running agent converges; ended workloads stay as they are.

    An update of `b` waits until `c` stops, which a new session does not request.
    """
    remove_faults(scenario.podman)
    await settle(server, scenario)
    check_wanted(["a"], server, scenario)
    step("reconnect", "", server, scenario)
    await settle(server, scenario)
    check_wanted(["a", "b"], server, scenario)


def remove_faults(runtime: FakeRuntime) -> None:
    runtime._fail_next.clear()
    runtime.__dict__.update(late_errors=0, failing_watches=0)


def check_wanted(names: list[str], server: Server, scenario: AgentScenario) -> None:
    for name in names:
        wanted = [server.wanted[name].instance_name] if name in server.wanted else []
        found = [each.instance_name for each in scenario.podman.workloads.values()]
        assert [instance for instance in found if instance.workload == name] == wanted
        assert [instance for instance in server.reported if instance.workload == name] == wanted


async def run_last_agent(runtime: FakeRuntime, server: Server, folder: Path) -> None:
    """Start an agent without faults after the others."""
    remove_faults(runtime)
    server.reported.clear()
    async with an_agent(base=folder, made_by=CleaningRuntime) as scenario:
        scenario.podman.__dict__.update(runtime.__dict__)
        scenario.manager.handle(server_hello(*server.wanted.values()))
        await settle(server, scenario)
        runtime.__dict__.update(scenario.podman.__dict__)


def check(runtime: FakeRuntime, server: Server, folder: Path) -> None:
    wanted = {spec.instance_name for spec in server.wanted.values()}
    found = [each.instance_name for each in runtime.workloads.values()]
    finished = {each.instance_name for each in runtime.workloads.values() if each.state == SUCCEEDED_OK}
    b_runs = "b" in server.wanted and server.wanted["b"].instance_name not in finished
    free_to_wait = {name for name in wanted if name.workload == "c" and not b_runs}
    assert wanted - free_to_wait <= set(found) <= wanted
    assert len(set(found)) == len(found)
    assert set(server.reported) == wanted
    for name in wanted - free_to_wait:
        assert server.reported[name] == (SUCCEEDED_OK if name in finished else RUNNING_OK)
    assert {path.name for path in (folder / "A_io").iterdir()} <= {"records"}


@examples(40)
@given(st.lists(STEPS, min_size=1, max_size=3))
def test_after_any_faults_exactly_the_desired_workloads_run(processes: list[list[tuple[str, str]]]) -> None:
    """Each list of steps is one agent process; containers outlive it."""

    async def scenario(folder: Path) -> None:
        runtime, server = FakeRuntime("podman"), Server()
        for steps in processes:
            await run_agent(steps, runtime, server, folder)
        await run_last_agent(runtime, server, folder)
        check(runtime, server, folder)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(scenario(Path(directory)))
