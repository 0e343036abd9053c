"""Limits of native workloads: they leave no processes behind, exceed no limit, and never run twice.

Processes and cgroups are real. Needs: root rights, and cgroups that can be made.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ankaios.common.execution_state import RUNNING_OK
from ankaios.runtimes.exit_watch import process_start
from ankaios.runtimes.native import folders, native_runtime
from ankaios.runtimes.native.cgroup_places import CgroupHierarchy, hierarchies_of_this_machine
from ankaios.runtimes.native.native_runtime import SHIM, NativeRuntime
from ankaios.runtimes.native.processes import NativeFolder
from ankaios.runtimes.runtime_connector import Extras
from tests.support.builders import a_workload
from tests.support.waiting import until

FOUND = hierarchies_of_this_machine()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root rights")
needs_cgroups = pytest.mark.skipif(not FOUND, reason="needs cgroups that can be made")
# It has another session and parent, and no standard output.
RUNAWAY = "setsid sh -c 'echo $$ > {folder}/runaway; exec sleep 1000' > /dev/null 2>&1 &"


def hierarchies_for(kind: str) -> Callable[[], list[CgroupHierarchy]]:
    match kind:
        case "v2":
            return lambda: [each for each in FOUND if each.version == 2]
        case "v1":
            return lambda: [each for each in FOUND if each.version == 1]
        case _:
            return list


def _kinds() -> list[object]:
    kinds: list[object] = ["without"]
    for version in (1, 2):
        missing = not any(each.version == version for each in FOUND)
        reason = f"needs cgroups of version {version}"
        kinds.append(pytest.param(f"v{version}", marks=pytest.mark.skipif(missing, reason=reason)))
    return kinds


@pytest.fixture(params=_kinds())
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NativeRuntime]:
    made = NativeRuntime(tmp_path / "native", stop_time=1.0, hierarchies=hierarchies_for(request.param))
    yield made
    await clean_up(made)


async def clean_up(runtime: NativeRuntime) -> None:
    for each in await runtime.existing_workloads("agent_A"):
        await runtime.delete_workload(str(each.instance_name))
    await runtime.close()


async def start(runtime: NativeRuntime, script: str, more: str = "", reuse: str | None = None) -> str:
    quoted = script.replace("'", "''")
    spec = a_workload(runtime="native", config=f"command: [sh, -c, '{quoted}']\n{more}")
    return await runtime.create_workload(spec, Extras(reuse=reuse))


async def number_in(path: Path) -> int:
    await until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def is_alive(pid: int) -> bool:
    return process_start(pid) is not None


async def test_a_process_that_left_its_session_ends_with_the_deleted_workload(
    runtime: NativeRuntime, tmp_path: Path
) -> None:
    workload = await start(runtime, RUNAWAY.format(folder=tmp_path) + " exec sleep 1000")
    runaway = await number_in(tmp_path / "runaway")
    await runtime.delete_workload(workload)
    await until(lambda: not is_alive(runaway))


async def test_a_process_that_left_its_session_ends_when_the_workload_ends(
    runtime: NativeRuntime, tmp_path: Path
) -> None:
    script = RUNAWAY.format(folder=tmp_path) + f" while ! test -s {tmp_path}/runaway; do sleep 0.01; done; exit 3"
    workload = await start(runtime, script)
    runaway = await number_in(tmp_path / "runaway")
    await until(lambda: not is_alive(runaway))
    await until(lambda: NativeFolder(tmp_path / "native" / workload).exit_code() == 3)


@needs_cgroups
async def test_a_process_that_left_its_session_ends_although_the_keeper_was_killed(tmp_path: Path) -> None:
    runtime = NativeRuntime(tmp_path / "native", stop_time=1.0)
    workload = await start(runtime, RUNAWAY.format(folder=tmp_path) + " exec sleep 1000")
    runaway = await number_in(tmp_path / "runaway")
    folder = NativeFolder(tmp_path / "native" / workload)
    found, cgroups = folder.processes(), folder.cgroups()
    assert found is not None and cgroups
    os.kill(found[1].pid, signal.SIGKILL)
    await runtime.delete_workload(workload)
    assert not is_alive(runaway)
    assert not any(Path(cgroup).exists() for cgroup in cgroups)


def has(controller: str) -> bool:
    return any(controller in each.controllers for each in FOUND)


@needs_root
@pytest.mark.skipif(not has("memory"), reason="needs the cgroup controller 'memory'")
async def test_a_workload_cannot_use_more_memory_than_its_limit(tmp_path: Path) -> None:
    runtime = NativeRuntime(tmp_path / "native")
    script = "x=$(head -c 100000000 /dev/zero | tr '\\0' x); echo ${#x}"
    workload = await start(runtime, script, "limits: {memory: 20M}")
    folder = NativeFolder(tmp_path / "native" / workload)
    await until(lambda: folder.exit_code() is not None)
    assert folder.exit_code() != 0
    assert folder.note() == ""
    assert await runtime.was_out_of_memory(workload)
    await clean_up(runtime)


@needs_root
@pytest.mark.skipif(not has("pids"), reason="needs the cgroup controller 'pids'")
async def test_a_workload_cannot_have_more_processes_than_its_limit(tmp_path: Path) -> None:
    runtime = NativeRuntime(tmp_path / "native")
    script = f"(for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done) 2> {tmp_path}/refused; exec sleep 1000"
    workload = await start(runtime, script, "limits: {pids: 5}")
    await until(lambda: (tmp_path / "refused").exists() and (tmp_path / "refused").stat().st_size > 0)
    await runtime.delete_workload(workload)


async def test_a_limit_that_cannot_be_set_is_shown_with_the_state(tmp_path: Path) -> None:
    runtime = NativeRuntime(tmp_path / "native", hierarchies=list)
    workload = await start(runtime, "exec sleep 1000", "limits: {memory: 20M}")
    state = NativeFolder(tmp_path / "native" / workload).state()
    assert state == RUNNING_OK.because("Limits without a usable cgroup: memory.")
    await clean_up(runtime)


STATUS = "cd {folder}; grep -E 'CapBnd|CapEff|NoNewPrivs' /proc/self/status > new; mv new status"


@needs_root
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("noNewPrivileges: true", {"NoNewPrivs": "1"}),
        ("user: nobody\nnoNewPrivileges: false", {"NoNewPrivs": "0"}),
        ("capabilities: [CHOWN, KILL]", {"CapBnd": f"{0x21:016x}", "CapEff": f"{0x21:016x}"}),
        ("user: nobody", {"CapBnd": "0" * 16, "CapEff": "0" * 16, "NoNewPrivs": "1"}),
        ("user: nobody\ncapabilities: [NET_BIND_SERVICE]", {"CapBnd": f"{0x400:016x}", "CapEff": f"{0x400:016x}"}),
    ],
)
async def test_a_workload_has_no_other_privileges(tmp_path: Path, more: str, expected: dict[str, str]) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        with suppress(OSError):
            folder.chmod(folder.stat().st_mode | 0o001)
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o777)
    runtime = NativeRuntime(tmp_path / "native")
    await start(runtime, STATUS.format(folder=out), more)
    await until((out / "status").exists)
    found = dict(line.split(":\t", 1) for line in (out / "status").read_text().splitlines())
    assert {key: found[key] for key in expected} == expected
    await clean_up(runtime)


# Stops the keeper after it has started the process and before it has recorded it.
FROZEN_SHIM = SHIM.replace(
    "sys.exit(",
    "import os; real = s.write_file; s.write_file = lambda name, data: "
    "(os.kill(os.getpid(), 19) if name == 'process' else None, real(name, data)); sys.exit(",
)


@pytest.mark.parametrize("reuses", [True, False])
async def test_a_keeper_that_is_frozen_during_a_start_never_causes_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reuses: bool
) -> None:
    """The agent ends in the middle of a start, its successor starts it again, and then the first start continues."""
    monkeypatch.setattr(folders, "LOCK_LIMIT", 0.2)
    monkeypatch.setattr(native_runtime, "SHIM", FROZEN_SHIM)
    script = f"echo $$ >> {tmp_path}/started; exec sleep 1000"
    first = asyncio.create_task(start(NativeRuntime(tmp_path / "native"), script), name="the first agent")
    keeper = await frozen_keeper(tmp_path)
    first.cancel()
    monkeypatch.setattr(native_runtime, "SHIM", SHIM)
    successor = NativeRuntime(tmp_path / "native", stop_time=1.0)
    workload = next(path.name for path in (tmp_path / "native").iterdir())
    await start(successor, script, reuse=workload if reuses else None)
    with suppress(ProcessLookupError):
        os.kill(keeper, signal.SIGCONT)
    await until(lambda: not is_alive(keeper))
    started = tmp_path / "started"
    await until(lambda: started.exists() and bool(started.read_text()))
    assert len(started.read_text().splitlines()) == 1
    await clean_up(successor)
    with suppress(asyncio.CancelledError):
        await first


async def frozen_keeper(tmp_path: Path) -> int:
    """The one stopped process whose current folder is that of the workload."""
    found: list[int] = []

    def is_found() -> bool:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                folder, status = (entry / "cwd").resolve(), (entry / "stat").read_text()
                if folder.parent == tmp_path / "native" and status.rpartition(")")[2].split()[0] == "T":
                    found.append(int(entry.name))
        return bool(found)

    await until(is_found)
    return found[0]
