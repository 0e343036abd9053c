"""Random kills of servers, the agent and an etcd member under load; `scripts/kill-rounds cluster 500` runs many.

Needs: etcd.
"""

import random

from tests.support.device_manifests import delete
from tests.support.kill_rounds import KillRounds
from tests.support.shared_state_cluster import SharedStateCluster

ROUNDS = 2


def test_nothing_acknowledged_is_lost_and_everything_runs_exactly_once() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    cluster = SharedStateCluster(("s1", "s2"))
    with cluster:
        rounds = KillRounds(cluster, seed)
        rounds.begin()
        for _ in range(ROUNDS):
            print("killed", rounds.round())
        assert rounds.acknowledged > 0
        delete(cluster, "steady", *rounds.histories)
