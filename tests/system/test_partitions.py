"""The network between servers and etcd is cut in each direction; `benchmarks/partitions.py` does that for longer.

Needs: etcd, root rights, ip and iptables.
"""

import os
import random
import shutil

import pytest

from tests.support.partitions import (
    DIRECTIONS,
    RecordingClients,
    recorded_cluster,
    wait_for_answers,
    wait_for_next_leader,
)

needs = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("iptables")),
    reason="network namespaces need root rights, ip and iptables",
)


@needs
def test_only_one_leader_commands_and_answers_are_linearizable() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    with recorded_cluster() as (cluster, recorder):
        with RecordingClients(cluster.url, seed) as clients:
            wait_for_answers(cluster, clients)
            for direction in DIRECTIONS:
                name, _ = recorder.commands[-1]
                cluster.cut(name, direction)
                wait_for_next_leader(cluster, recorder, clients)
                cluster.heal(name)
        assert len(recorder.terms) >= 1 + len(DIRECTIONS)
        assert recorder.late_commands() == []
        assert clients.violations() == [], clients.histories
