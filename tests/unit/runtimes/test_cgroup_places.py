"""Where cgroups of native workloads are created, on each kind of machine."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ankaios.runtimes.native.cgroup_places import CgroupHierarchy, find_hierarchies, plan_cgroups
from ankaios.runtimes.native.cgroups import make_cgroups, processes_in, remove_cgroups

V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
PIDS = "31 24 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids"
MEMORY = "32 24 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
FREEZER = "33 24 0:29 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer"
UNIFIED = "34 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
OTHER = "35 24 8:1 / / rw - ext4 /dev/sda1 rw"
USER = "/user.slice/user@1000.service"
CONTROLLERS = frozenset({"memory", "pids"})


def hierarchies(
    mounts: list[str], own: str, is_writable: Callable[[str], bool] = lambda _: True
) -> list[CgroupHierarchy]:
    return find_hierarchies("\n".join([OTHER, *mounts, "odd"]), own, is_writable, lambda _: CONTROLLERS)


def test_root_creates_cgroups_at_the_top_and_not_in_the_service_of_the_agent() -> None:
    found = hierarchies([V2], "0::/system.slice/ank-agent.service")
    assert found == [CgroupHierarchy(2, CONTROLLERS, "/sys/fs/cgroup")]


def test_another_user_creates_cgroups_in_the_delegated_cgroup() -> None:
    own = f"0::{USER}/app.slice/ank-agent.service"
    delegated = f"/sys/fs/cgroup{USER}"
    found = hierarchies([V2], own, lambda folder: folder.startswith(delegated))
    assert found == [CgroupHierarchy(2, CONTROLLERS, delegated)]
    assert hierarchies([V2], own, lambda _: False) == []


def test_in_a_container_the_mounted_cgroup_may_be_the_own_cgroup() -> None:
    mount = V2.replace(" / /sys", " /box /sys")
    assert hierarchies([mount], "0::/box/a", lambda folder: folder.endswith("/a"))[0].parent == "/sys/fs/cgroup/a"
    assert hierarchies([V2], "0::/../outside", lambda folder: folder.endswith("outside")) == []


def test_version_1_has_a_hierarchy_for_each_controller() -> None:
    found = hierarchies([PIDS, MEMORY], "2:pids:/\n1:memory:/x\n0::/")
    assert [(each.version, sorted(each.controllers)) for each in found] == [(1, ["pids"]), (1, ["memory"])]
    assert hierarchies([PIDS], "1:cpu:/") == []


def plan(mounts: list[str], **limits: int) -> tuple[dict[str, object], list[str]]:
    own = "4:freezer:/\n3:memory:/\n2:pids:/\n0::/"
    without = [line for line in mounts if line not in (UNIFIED,)]
    found = find_hierarchies(
        "\n".join(mounts), own, lambda _: True, lambda _: CONTROLLERS if without == [V2] else frozenset()
    )
    made = plan_cgroups(found, "web", limits)
    return made, made.pop("unsupported")


def test_with_version_2_there_is_one_cgroup_for_all_controllers() -> None:
    made, missing = plan([V2], memory=1024)
    assert missing == []
    assert made == {
        "processes": "/sys/fs/cgroup/ankaios/web",
        "folders": ["/sys/fs/cgroup/ankaios/web"],
        "controllers": [("/sys/fs/cgroup", "memory"), ("/sys/fs/cgroup/ankaios", "memory")],
        "limits": [("memory", ["/sys/fs/cgroup/ankaios/web/memory.max"], 1024)],
    }


def test_with_both_versions_processes_use_the_newer_one_and_limits_follow_the_controllers() -> None:
    made, missing = plan([PIDS, MEMORY, UNIFIED], pids=5)
    assert (made["processes"], missing) == ("/sys/fs/cgroup/unified/ankaios/web", [])
    assert made["limits"] == [("pids", ["/sys/fs/cgroup/pids/ankaios/web/pids.max"], 5)]
    assert made["folders"] == ["/sys/fs/cgroup/unified/ankaios/web", "/sys/fs/cgroup/pids/ankaios/web"]


def test_with_version_1_the_freezer_is_preferred_and_any_other_is_enough() -> None:
    assert plan([MEMORY, FREEZER])[0]["processes"] == "/sys/fs/cgroup/freezer/ankaios/web"
    assert plan([MEMORY, PIDS])[0]["processes"] == "/sys/fs/cgroup/pids/ankaios/web"


def test_without_cgroups_every_limit_is_missing() -> None:
    made, missing = plan([], memory=1, pids=2)
    assert (made["processes"], made["folders"], missing) == (None, [], ["memory", "pids"])


def test_a_limit_that_cannot_be_set_is_reported_and_the_others_are_set(tmp_path: Path) -> None:
    """Files of an ordinary folder: there is no `memory.max` to write to."""
    hierarchy = CgroupHierarchy(2, CONTROLLERS, str(tmp_path))
    made, unset = make_cgroups(plan_cgroups([hierarchy], "web", {"memory": 1}))
    assert (made, unset) == ([f"{tmp_path}/ankaios/web"], ["memory (No such file or directory)"])
    assert processes_in(made[0]) == []
    assert remove_cgroups(made)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mount", [V2, PIDS])
def test_a_cgroup_that_cannot_be_created_is_omitted(tmp_path: Path, mount: str) -> None:
    (tmp_path / "ankaios").write_text("not a folder")
    hierarchy = CgroupHierarchy(2 if mount == V2 else 1, CONTROLLERS, str(tmp_path))
    assert make_cgroups(plan_cgroups([hierarchy], "web", {})) == ([], [])
