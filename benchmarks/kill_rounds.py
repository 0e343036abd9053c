"""Many rounds of random kills: benchmarks/kill_rounds.py [ROUNDS] [SEED]

Prints what was killed in each round, and at the end the numbers of rounds, acknowledged and unknown changes.
"""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.device_manifests import delete
from tests.support.kill_rounds import KillRounds
from tests.support.shared_state_cluster import SharedStateCluster


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    print(f"seed {seed}")
    began = time.monotonic()
    cluster = SharedStateCluster(("s1", "s2"))
    with cluster:
        rounds = KillRounds(cluster, seed)
        rounds.begin()
        for number in range(1, count + 1):
            print(f"round {number}: killed {rounds.round()}", flush=True)
        delete(cluster, "steady", *rounds.histories)
    seconds = time.monotonic() - began
    print(f"{count} rounds in {seconds:.0f} s, {rounds.acknowledged} acknowledged, {rounds.unknown} unknown changes")


if __name__ == "__main__":
    main()
