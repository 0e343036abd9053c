"""A workload with the unmodified `ankaios-sdk` in a real container communicates with a real server.

Needs: podman, root rights and the SDK in .venv/sdk, which scripts/install makes.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.podman_env import IMAGE, PodmanEnv, needs_podman, podman_env  # noqa: F401

SDK = Path(__file__).resolve().parents[2] / ".venv/sdk"
pytestmark = [needs_podman, pytest.mark.skipif(not SDK.exists(), reason="needs the SDK in .venv/sdk")]

SCRIPT = """
import json, time
from ankaios_sdk import Ankaios, AnkaiosException, Workload, WorkloadInstanceName, WorkloadStateEnum

def report(**what):
    with open("/out/reports", "a") as out:
        out.write(json.dumps(what) + "\\n")

ankaios = Ankaios()
report(agents=sorted(ankaios.get_agents()))
try:
    ankaios.get_configs()
except AnkaiosException as error:
    report(denied=str(error))

events = ankaios.register_event(["workloadStates"])
child = (
    Workload.builder().workload_name("child").agent_name("agent_A").runtime("podman")
    .runtime_config("image: IMAGE\\ncommandArgs: [sh, -c, 'echo one; echo two; sleep 1000']").build()
)
added = ankaios.apply_workload(child).added_workloads[0]
ankaios.wait_for_workload_to_reach_state(added, WorkloadStateEnum.RUNNING, timeout=20)
report(child="running")
events.get(timeout=5)  # the state when it was registered
event = events.get(timeout=5)
report(event=bool(event.added_fields or event.updated_fields))
ankaios.unregister_event(events)

logs = ankaios.request_logs([added], follow=True)
report(logs=[logs.queue.get(timeout=5).message for _ in range(2)])
ankaios.stop_receiving_logs(logs)
ankaios.delete_workload("child")

number = 0
while True:
    try:
        ankaios.get_workload_states()
        number += 1
        report(requests=number)
    except Exception as error:
        report(error=type(error).__name__)
    time.sleep(0.2)
""".replace("IMAGE", IMAGE)


def a_manifest(out: Path) -> str:
    base = subprocess.run(
        [SDK / "bin/python", "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    folders = [base, str(SDK), *(folder for folder in ("/usr", "/lib", "/lib64") if Path(folder).exists())]
    mounts = [f"--volume={folder}:{folder}:ro" for folder in folders] + [f"--volume={out}:/out"]
    options = "\n".join(f"        - {mount}" for mount in mounts)
    return f"""
apiVersion: v1
workloads:
  commander:
    agent: agent_A
    runtime: podman
    controlInterfaceAccess:
      allowRules:
      - {{type: StateRule, operation: ReadWrite, filterMask: [desiredState.workloads.child]}}
      - {{type: StateRule, operation: Read, filterMask: [agents, workloadStates]}}
      - {{type: LogRule, workloadNames: [child]}}
    runtimeConfig: |
      image: {IMAGE}
      commandOptions:
{options}
      commandArgs: [{SDK}/bin/python, /out/script.py]
"""


@pytest.fixture
def cluster(podman_env: PodmanEnv) -> Iterator[Cluster]:  # noqa: F811
    with Cluster(podman_env.environ) as made:
        yield made
    podman_env.clear()


def test_a_workload_controls_the_cluster_and_continues_after_its_agent_ends(cluster: Cluster) -> None:
    """[stest->swdd~agent-forward-responses-to-control-interface-pipe~1]"""
    out = cluster.folder / "out"
    out.mkdir()
    (out / "script.py").write_text(SCRIPT)

    def reported(key: str) -> list[object]:
        path = out / "reports"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line[key] for line in map(json.loads, lines) if key in line]

    def wait_for_more_reports(what: str) -> None:
        before = len(reported("requests"))
        cluster.wait_until(
            what, lambda: len(reported("requests")) > before + 2, more=lambda: (out / "reports").read_text()[-500:]
        )

    cluster.start_server(a_manifest(out))
    cluster.start_agent("agent_A", runtimes=["podman"])
    cluster.wait_until(
        "all is reported", lambda: reported("requests"), more=lambda: (out / "reports").read_text()[-500:]
    )
    assert reported("agents") == [["agent_A"]]
    assert "Access denied" in str(reported("denied"))
    assert reported("child") == ["running"]
    assert reported("event") == [True]
    assert reported("logs") == [["one", "two"]]
    wait_for_more_reports("it continues")

    cluster.kill_agent("agent_A")
    cluster.start_agent("agent_A", runtimes=["podman"])
    wait_for_more_reports("it continues with the next agent")
    assert reported("child") == ["running"]  # it is still the same process

    cluster.kill_server()
    cluster.start_server(a_manifest(out))
    wait_for_more_reports("it continues with the next server")
    assert reported("child") == ["running"]
