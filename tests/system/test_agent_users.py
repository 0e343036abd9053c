"""A hostile native workload of another user, started by the agent of root.

Needs: root rights and the right to make mount namespaces.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.mount_rights import needs_mounts

pytestmark = needs_mounts

MANIFEST = """
apiVersion: v1
workloads:
  hostile:
    agent: agent_A
    runtime: native
    restartPolicy: ALWAYS
    controlInterfaceAccess: {{allowRules: [{{type: StateRule, operation: Read, filterMask: ["*"]}}]}}
    files: [{{mountPoint: /etc/hostile.conf, data: text}}]
    runtimeConfig: |
      user: nobody
      command:
        - sh
        - -c
        - |
          test -p /run/ankaios/control_interface/input && test "$(cat /etc/hostile.conf)" = text || exec sleep 1000
          cd /run/ankaios/control_interface && rm input && ln -s {secret} input
          sleep 0.1
          exit {code}
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


@pytest.mark.parametrize("code", [0, 1])
def test_no_restart_changes_the_owner_of_a_file_of_root(cluster: Cluster, tmp_path: Path, code: int) -> None:
    """It repeatedly replaces a FIFO by a link and ends: the FIFO is created again, and the link is not followed."""
    secret = tmp_path / "shadow"
    secret.write_text("secret")
    secret.chmod(0o600)
    cluster.start_server(MANIFEST.format(secret=secret, code=code))
    cluster.start_agent("agent_A", runtimes=["native"])

    def has_tried_again() -> bool:
        assert (secret.stat().st_uid, secret.stat().st_mode & 0o777) == (0, 0o600)
        log = (cluster.folder / "agent_A.log").read_text()
        return log.count("'hostile' replaced FIFOs of its control interface, creating them again") >= 3

    cluster.wait_until("it was restarted three times", has_tried_again)
    assert (secret.stat().st_uid, secret.read_text()) == (0, "secret")
    (instance,) = (cluster.folder / "run/agent_A_io").glob("hostile.*")
    assert instance.stat().st_mode & 0o777 == 0o700
