"""Random partitions between two servers and etcd: benchmarks/partitions.py [PARTITIONS] [SEED]

In each round one server or both cannot send to etcd, cannot receive from it, or both, for up to 6 s. Prints the number
of leaders and answered requests, and fails if a command of a former leader arrived after one of its successor, or if
the answered requests are not linearizable. Needs root rights.
"""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.partitions import (
    DIRECTIONS,
    RecordingClients,
    recorded_cluster,
    wait_for_answers,
)

LONGEST_SECONDS = 6.0


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    answered = unknown = 0
    faults: list[str] = []
    with recorded_cluster() as (cluster, recorder):
        for number in range(1, count + 1):
            cuts = [(name, direction) for name in cluster.ports for direction in DIRECTIONS if chance.random() < 0.5]
            with RecordingClients(cluster.url, chance.randrange(2**32), number) as clients:
                wait_for_answers(cluster, clients)
                for name, direction in cuts:
                    cluster.cut(name, direction)
                time.sleep(chance.uniform(1.0, LONGEST_SECONDS))
                for name in cluster.ports:
                    cluster.heal(name)
                wait_for_answers(cluster, clients)
            answered, unknown = answered + clients.answered, unknown + clients.unknown
            if wrong := clients.violations():
                faults.append(f"partition {number}: { ({name: clients.histories[name] for name in wrong}) }")
            print(f"partition {number}: {cuts}, {clients.answered} answered", flush=True)
    terms, late = len(recorder.terms), recorder.late_commands()
    faults += [f"a late command of {name} with term {term}" for name, term in late]
    commands = len(recorder.commands)
    print(
        f"{count} partitions, {terms} leaders, {commands} commands, {answered} answered and {unknown} unknown requests"
    )
    print("\n".join(faults) or "ok: commands of one leader at a time, answers are linearizable")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
