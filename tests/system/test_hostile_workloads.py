"""Workloads that flood their control interface, and hostile manifests: others are answered, agent and server stay.

Server and agent are real, workloads are plain processes.
Needs: nothing but the repository.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.hostile_peers import MIB, ServerLoad

ROOT = Path(__file__).resolve().parents[2]
ANSWERS, ATTACKS = 50, 30
MEMORY_LIMIT, LINES_LIMIT = 100, 300  # MiB that each program may grow; lines in the log of the agent

# Arguments: what to do, and a file for the number of times it was done.
SCRIPT = """
import asyncio, os, sys
from pathlib import Path
from tests.unit.agent.pipes import Pipes

kind, counter = sys.argv[1], Path(sys.argv[2])
folder = Path(os.environ["ANKAIOS_CONTROL_INTERFACE"])

def note(count):
    counter.with_suffix(".new").write_text(str(count))
    counter.with_suffix(".new").replace(counter)

async def flood(pipes, attack):
    for count in range(1, 1_000_000):
        await attack(count)
        note(count)

async def request(pipes, count, reads):
    for number in range(20):
        try:
            pipes.ask(f"{count}-{number}", "desiredState")
        except BlockingIOError:
            await asyncio.sleep(0.01)
        if reads:
            pipes._poll()
            pipes._received.clear()

async def main():
    pipes = Pipes(folder)
    pipes.hello()
    assert (await pipes.receive(60)).HasField("controlInterfaceAccepted")
    if kind == "regular":
        for count in range(1, 1_000_000):
            pipes.ask(str(count), "desiredState")
            while (await pipes.receive(60)).response.requestId != str(count):
                pass
            note(count)
    elif kind == "requests":
        await flood(pipes, lambda count: request(pipes, count, True))
    elif kind == "unread":
        await flood(pipes, lambda count: request(pipes, count, False))
    elif kind == "garbage":
        await flood(pipes, lambda count: pipes.write_all(os.urandom(4096)))
    elif kind == "lengths":  # each opening begins a new message, which claims to have 34 GB
        os.close(pipes._out)
        for count in range(1, 1_000_000):
            out = os.open(folder / "output", os.O_WRONLY)
            os.write(out, b"\\xff\\xff\\xff\\xff\\x7f" + bytes(50_000))
            os.close(out)
            note(count)

asyncio.run(main())
"""
FLOODS = ("requests", "unread", "garbage", "lengths")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        made.start_server()
        made.start_agent("agent_A", runtimes=["native"])
        yield made


def a_manifest(cluster: Cluster, *kinds: str) -> str:
    rule = {"type": "StateRule", "operation": "Read", "filterMasks": ["desiredState"]}
    script = str(cluster.write("workload.py", SCRIPT))
    workloads = {
        kind: {
            "agent": "agent_A", "runtime": "native", "restartPolicy": "NEVER",
            "controlInterfaceAccess": {"allowRules": [rule]},
            "runtimeConfig": json.dumps({
                "command": [sys.executable, script, kind, str(cluster.folder / kind)],
                "env": {"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
            }),
        }
        for kind in kinds
    }  # fmt: skip
    return json.dumps({"apiVersion": "v1", "workloads": workloads})


def count(cluster: Cluster, kind: str) -> int:
    path = cluster.folder / kind
    return int(path.read_text()) if path.exists() else 0


def test_workloads_are_answered_while_others_flood_the_agent(cluster: Cluster) -> None:
    assert cluster.server is not None
    agent = cluster.agents["agent_A"]
    loads = {"server": ServerLoad(cluster.server.pid), "agent": ServerLoad(agent.pid)}
    cluster.apply(a_manifest(cluster, "regular", *FLOODS))
    cluster.wait_until("the regular workload is answered", lambda: count(cluster, "regular") > 0, 60)

    def enough() -> bool:
        return all(count(cluster, kind) >= ATTACKS for kind in FLOODS if kind != "unread")

    cluster.wait_until("all floods are under way", lambda: enough() and count(cluster, "unread") > 0, 60)
    before = count(cluster, "regular")
    cluster.wait_until(
        "the regular workload is answered during the floods", lambda: count(cluster, "regular") >= before + ANSWERS, 60,
        lambda: f"{count(cluster, 'regular') - before} answers",
    )  # fmt: skip
    floods = ", ".join(f"{count(cluster, kind)} {kind}" for kind in FLOODS)
    growth = {name: load.memory_growth() / MIB for name, load in loads.items()}
    lines = len((cluster.folder / "agent_A.log").read_text().splitlines())
    grown = ", ".join(f"{name} {number:.0f} of at most {MEMORY_LIMIT} MiB" for name, number in growth.items())
    print(f"floods: {floods}; {ANSWERS} answers for another workload; {grown}; {lines} of {LINES_LIMIT} lines")
    assert (agent.poll(), cluster.server.poll()) == (None, None)
    assert {kind: cluster.states()[kind][0] for kind in ("regular", *FLOODS)} == dict.fromkeys(
        ("regular", *FLOODS), "Running(Ok)"
    )
    assert max(growth.values()) < MEMORY_LIMIT
    assert lines < LINES_LIMIT
    assert "Traceback" not in cluster.logs()
    cluster.ank("delete", "workload", *FLOODS)
    assert count(cluster, "regular") > before


# --- manifests


def workload(name: str = "w", **fields: str) -> str:
    lines = {"runtime": "native", "agent": "agent_A", "runtimeConfig": "x", **fields}
    return f"  {name}:\n" + "".join(f"    {key}: {value}\n" for key, value in lines.items())


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]\n" for number in range(1, 12)
)
MANIFESTS = {
    "aliases": (f"apiVersion: v1\n{BOMB}", "repetition limit exceeded"),
    "deep": ("apiVersion: v1\nconfigs:\n  c: " + "{a: " * 100_000, "recursion limit exceeded"),
    "huge": ("apiVersion: v1\n# " + "x" * 34_000_000, "more than the limit of 33554432"),
    "path as name": ("apiVersion: v1\nworkloads:\n" + workload('"../../etc"'), "does not match"),
    "NUL in name": ("apiVersion: v1\nworkloads:\n" + workload('"a\\0b"'), "does not match"),
    "long name": ("apiVersion: v1\nworkloads:\n" + workload("x" * 1_000), "is longer than"),
    "template": (
        "apiVersion: v1\nconfigs: {b: x}\nworkloads:\n" + workload(runtimeConfig=f'"{"{{" * 1_000}"', configs="{a: b}"),
        "Failed to render field",
    ),
}
# Accepted by the server, and rejected by the agent.
CONFIGS = {"deep_config": "{a: " * 100_000, "alias_config": BOMB}


def test_hostile_manifests_are_rejected(cluster: Cluster) -> None:
    assert cluster.server is not None
    loads = {"server": ServerLoad(cluster.server.pid), "agent": ServerLoad(cluster.agents["agent_A"].pid)}
    cluster.apply("apiVersion: v1\nworkloads:\n" + workload("stays", runtimeConfig="\"command: [sleep, '1000']\""))
    cluster.wait_for("stays", "Running(Ok)")
    for name, (text, why) in MANIFESTS.items():
        done = cluster.ank("--no-wait", "apply", str(cluster.write("hostile.yaml", text)), check=False)
        assert done.returncode == 1, name
        assert why in done.stderr, (name, done.stderr[:500])
    configs = {
        name: {"agent": "agent_A", "runtime": "native", "runtimeConfig": config} for name, config in CONFIGS.items()
    }
    manifest = cluster.write("hostile.yaml", json.dumps({"apiVersion": "v1", "workloads": configs}))
    cluster.ank("--no-wait", "apply", str(manifest))
    for name in CONFIGS:
        assert "limit exceeded" in cluster.wait_for(name, "Pending(StartingFailed)", seconds=60)
    growth = {name: load.memory_growth() / MIB for name, load in loads.items()}
    grown = ", ".join(f"{name} {number:.0f} of at most {MEMORY_LIMIT} MiB" for name, number in growth.items())
    print(f"{len(MANIFESTS)} of {len(MANIFESTS)} manifests, {len(CONFIGS)} of {len(CONFIGS)} configs rejected; {grown}")
    assert cluster.states()["stays"][0] == "Running(Ok)"
    assert max(growth.values()) < MEMORY_LIMIT
    assert "Traceback" not in cluster.logs()
