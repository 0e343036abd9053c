"""Many rounds of random kills: benchmarks/kill_rounds.py [ROUNDS] [SEED]

Prints what was killed in each round, and at the end, also after an interruption, how many rounds ran, what was killed,
and how many changes were acknowledged. After a failed round the files of the cluster are kept for examination, and
the remaining rounds run with a new cluster.
"""

import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.kill_rounds import KillRounds
from tests.support.shared_state_cluster import SharedStateCluster

SERVERS = ("s1", "s2")
LEASE = 4  # seconds: many rounds run beside other work, with the lowest priority


class Totals:
    def __init__(self) -> None:
        self.began = time.monotonic()
        self.passed = 0
        self.failures: list[str] = []
        self.counts: Counter[str] = Counter()

    def add(self, rounds: KillRounds) -> None:
        self.counts += Counter(acknowledged=rounds.acknowledged, unknown=rounds.unknown, rejected=rounds.rejected)
        self.counts += Counter({f"killed: {kind}": count for kind, count in rounds.killed.items()})

    def show(self) -> None:
        seconds = time.monotonic() - self.began
        print(f"{self.passed} rounds passed, {len(self.failures)} failed, in {seconds:.0f} s")
        for what, count in sorted(self.counts.items()):
            print(f"  {what} {count}")
        for failure in self.failures:
            print(f"  failed: {failure}", flush=True)


def run_cluster(totals: Totals, count: int, seed: int) -> None:
    """Until all rounds have passed or one has failed."""
    with SharedStateCluster(SERVERS, lease=LEASE) as cluster:
        assert isinstance(cluster, SharedStateCluster)
        rounds = KillRounds(cluster, seed)
        number = totals.passed + len(totals.failures) + 1
        try:
            rounds.begin()
            while number <= count:
                began = time.monotonic()
                killed = rounds.round()
                totals.passed += 1
                print(f"round {number}: {time.monotonic() - began:.1f} s, killed {killed}", flush=True)
                number += 1
        except Exception as error:
            kept = Path(tempfile.mkdtemp(prefix="kill-rounds-failed-"))
            shutil.copytree(cluster.folder, kept / "cluster", ignore=shutil.ignore_patterns("run", "*.sock"))
            (kept / "error").write_text(f"{type(error).__name__}: {error}\n")
            totals.failures.append(f"round {number}, files in {kept}: {str(error).splitlines()[0][:300]}")
            print(totals.failures[-1], flush=True)
        finally:
            totals.add(rounds)


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    print(f"seed {seed}", flush=True)
    signal.signal(signal.SIGTERM, stop)
    totals = Totals()
    try:
        while totals.passed + len(totals.failures) < count:
            run_cluster(totals, count, seed + len(totals.failures))
    except KeyboardInterrupt:
        print("interrupted")
    totals.show()
    return 1 if totals.failures or totals.passed < 1 else 0


if __name__ == "__main__":
    sys.exit(main())
