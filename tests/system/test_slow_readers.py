"""A reader of the output of `ank`, such as a pager, may be arbitrarily slow.

Needs: nothing but the repository.
"""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster

# The server closes a connection after this time without an answer.
SILENCE_LIMIT = 2.8
LINES = 20_000  # more than the capacity of a pipe and all buffers
TALKER = f"""\
apiVersion: v1
workloads:
  printer:
    runtime: native
    agent: node
    restartPolicy: NEVER
    runtimeConfig: |
      command:
        - {sys.executable}
        - -c
        - |
          for number in range({LINES}): print(number, "x" * 200)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.start_server(TALKER)
        cluster.start_agent("node", runtimes=["native"])
        cluster.wait_for("printer", "Succeeded(Ok)")
        yield cluster


def test_a_slow_reader_receives_all_lines(cluster: Cluster) -> None:
    reading = subprocess.Popen(
        cluster.ank_command("logs", "printer"), env=cluster.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(2 * SILENCE_LIMIT)
    output, fault = reading.communicate(timeout=60)
    assert (reading.returncode, fault) == (0, b"")
    assert [int(line.split()[0]) for line in output.splitlines()] == list(range(LINES))
