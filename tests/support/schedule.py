"""Which parallel worker of a test run gets which tests, and in which order.

The tests of a file stay together, because they share fixtures. Files that use the same fixed place are one group and so
never run at the same time. Long groups start first, so that no worker is still busy with one when the others are done.
"""

from collections.abc import Iterable
from pathlib import PurePath

# Groups of files that share a fixed place.
SHARED_PLACES = {
    "tests/system/test_demo.py": "repository",  # the folder .demo of the repository
    "tests/system/test_docs_commands.py": "repository",
    "tests/system/test_examples.py": "repository",  # the folder build of the repository
}

# Measured on two cores; files that take less than 20 s are not listed.
SECONDS = {
    "tests/system/test_packaging.py": 280,
    "tests/system/test_docs_commands.py": 270,
    "tests/integration/runtimes/test_contract.py": 220,
    "tests/system/test_devices_scenarios.py": 150,
    "tests/system/test_agent_faults.py": 150,
    "tests/system/test_docs_reference.py": 120,
    "tests/integration/storage/test_sqlite_damage.py": 100,
    "tests/system/test_systemd.py": 90,
    "tests/system/test_agent_hostile_input.py": 80,
    "tests/system/test_demo.py": 75,
    "tests/system/test_placement_stays.py": 75,
    "tests/system/test_examples.py": 70,
    "tests/system/test_devices_plugins.py": 70,
    "tests/system/test_podman_kube_runtime.py": 65,
    "tests/system/test_rootless.py": 60,
    "tests/system/test_agent_scenarios.py": 60,
    "tests/system/test_podman_kube_cluster.py": 60,
    "tests/system/test_podman_runtime.py": 55,
    "tests/integration/storage/test_etcd_faults.py": 50,
    "tests/browser/test_dashboard.py": 45,
    "tests/system/test_up.py": 45,
    "tests/system/test_devices_runtimes.py": 40,
    "tests/system/test_safe_changes_podman.py": 40,
    "tests/system/test_server_start.py": 35,
    "tests/integration/devices/test_discovery_opcua.py": 35,
    "tests/system/test_agent_sdk.py": 30,
    "tests/integration/cli/test_updates.py": 30,
}


def group_of(file: PurePath | str) -> str:
    return SHARED_PLACES.get(str(file), str(file))


def seconds_of_groups() -> dict[str, int]:
    sums: dict[str, int] = {}
    for file, seconds in SECONDS.items():
        sums[group_of(file)] = sums.get(group_of(file), 0) + seconds
    return sums


def longest_first(files: Iterable[str]) -> dict[str, int]:
    """File -> position. Groups of equal length keep their order."""
    seconds = seconds_of_groups()
    ordered = sorted(dict.fromkeys(files), key=lambda file: (-seconds.get(group_of(file), 0), group_of(file)))
    return {file: position for position, file in enumerate(ordered)}
