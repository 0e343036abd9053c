"""Faults of disks, servers and rights have the same effects in a simulation as in a real cluster."""

import errno
import os
import sqlite3
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from ankaios.agent.core.followed_state import FollowedState
from ankaios.common.file_replacement import replace_file
from ankaios.simulation import invariants as inv
from ankaios.simulation import scenario as sc
from ankaios.simulation.determinism import seeded
from ankaios.simulation.disk import SimulatedDisks
from ankaios.simulation.play import play
from ankaios.simulation.scenario import Action, Fault, Scenario, UserAction
from ankaios.simulation.virtual_time import SimulatedProcess, VirtualTimeLoop

NODES = ("node1", "node2")


def lines(scenario: Scenario) -> list[str]:
    result = play(scenario)
    assert result.violations == []
    return [f"{it.where} {it.what}" for it in result.record]


def test_a_power_cut_keeps_what_was_synchronized_and_tears_the_rest(tmp_path: Path) -> None:
    disks = SimulatedDisks(Random(1))
    loop = VirtualTimeLoop()
    with seeded(loop, Random(1), others=disks.replaced()):
        for name in ("safe", "lost"):
            (tmp_path / name).write_bytes(b"content")
        descriptor = os.open(tmp_path / "safe", os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        disks.power_cut(tmp_path)
    loop.close()
    assert (tmp_path / "safe").read_bytes() == b"content"
    assert len((tmp_path / "lost").read_bytes()) < len(b"content")


def test_a_committed_transaction_is_kept_after_a_power_cut(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE value (number INTEGER)")
    database.execute("INSERT INTO value VALUES (7)")
    database.commit()
    disks = SimulatedDisks(Random(1))
    disks.process_ended(tmp_path)
    disks.power_cut(tmp_path)
    again = sqlite3.connect(path)
    assert again.execute("SELECT number FROM value").fetchall() == [(7,)]
    again.close()
    database.close()


def test_a_full_disk_affects_only_processes_of_its_host(tmp_path: Path) -> None:
    disks = SimulatedDisks(Random(1))
    loop = VirtualTimeLoop()
    failures: list[int | None] = []

    async def program() -> None:
        try:
            replace_file(tmp_path / "file", b"x", 0o600)
            failures.append(None)
        except OSError as error:
            failures.append(error.errno)

    async def work() -> None:
        disks.fill("node1")
        for host in ("node1", "node2"):
            await SimulatedProcess("program", host).start(program())

    with seeded(loop, Random(1), others=disks.replaced()):
        loop.run_until_complete(work())
    loop.close()
    assert failures == [errno.ENOSPC, None]


def test_another_server_leads_after_the_leader_was_killed() -> None:
    actions = (
        Action(10, UserAction.APPLY, "w0", "v0"),
        *(Action(20, Fault.KILL_SERVER, f"server{number}", seconds=30) for number in (0, 1)),
        Action(60, UserAction.APPLY, "w0", "v1"),
    )
    record = lines(Scenario(7, 0.03, NODES, 3, "etcd", actions))
    at_rest = len(record) - record[::-1].index("operator w0 = v1: accepted")
    leaders = [line.split()[0] for line in record[:at_rest] if "leads with term" in line]
    assert len(leaders) >= 2 and leaders[-1] == "server2"
    assert "operator w0 = v1: accepted" in record


def test_a_server_without_etcd_stops_leading() -> None:
    partition = [Action(20, Fault.PARTITION, "server0", f"etcd{number}", 40) for number in range(3)]
    record = lines(Scenario(3, 0.03, NODES, 1, "etcd", (Action(10, UserAction.APPLY, "w0", "v0"), *partition)))
    before_restart = record[: record.index("server0 the server is killed")]
    assert sum("leads with term" in line for line in before_restart) == 2


@pytest.mark.parametrize(
    ("version", "config", "outcome"),
    [
        ("v0", sc.ALLOWED_CONFIG, "UpdateStateSuccess"),
        ("v0", sc.OTHER_CONFIG, "error"),
        ("v1", sc.ALLOWED_CONFIG, "error"),
    ],
)
def test_a_workload_can_write_only_what_its_rights_permit(version: str, config: str, outcome: str) -> None:
    actions = (Action(1, UserAction.APPLY, "w0", version), Action(20, UserAction.REQUEST, "w0", config))
    assert f"w0 writes '{config}': {outcome}" in lines(Scenario(7, 0.01, NODES, actions=actions))


def test_a_rollback_restores_the_version_before() -> None:
    actions = (Action(1, UserAction.APPLY, "w0", "v0"), Action(20, UserAction.UNDO, "w0", "v1"))
    record = lines(Scenario(7, 0.01, NODES, storage="sqlite", actions=actions))
    assert "operator roll back w0 = v0: accepted" in record


def test_a_full_disk_of_the_server_rejects_changes() -> None:
    actions = (
        Action(1, UserAction.APPLY, "w0", "v0"),
        Action(20, Fault.FULL_DISK, "server0", seconds=10),
        Action(22, UserAction.APPLY, "w0", "v1"),
    )
    result = play(Scenario(7, 0.01, NODES, storage="sqlite", actions=actions))
    assert result.violations == []
    assert result.operations["rejected"] == 1


def test_a_workload_that_waited_for_a_device_does_not_start_without_its_dependency() -> None:
    """Found by seed 119: the dependency was deleted while the workload waited for the device of another one."""
    actions = (
        Action(1, UserAction.APPLY, "w3", "v0"),
        Action(5, UserAction.APPLY, "w4", "v0"),
        Action(8, UserAction.APPLY, "w5", "v0"),
        Action(50, UserAction.DELETE, "w4"),
        Action(60, UserAction.DELETE, "w3"),
    )
    record = lines(Scenario(119, 0.03, ("node1", "node2", "node3"), actions=actions))
    assert any("w4 deleted" in line for line in record)
    assert not any("w5 started" in line for line in record)


def test_a_dependency_that_is_added_again_waits_for_its_dependent() -> None:
    """Found by seed 7 with five nodes: the old instance was stopped while the dependent ran."""
    actions = (
        Action(1, UserAction.APPLY, "w1", "v0"),
        Action(5, UserAction.APPLY, "w2", "v0"),
        Action(50, UserAction.DELETE, "w1"),
        Action(60, UserAction.APPLY, "w1", "v1"),
    )
    record = lines(Scenario(7, 0.03, ("node1", "node2", "node3"), actions=actions))
    assert not any("w1 deleted" in line for line in record)


def test_a_subscribed_workload_receives_what_changed_while_its_agent_had_no_connection() -> None:
    """Found by seed 1 with three nodes: the response to the repeated subscription was dropped."""
    actions = (
        Action(1, UserAction.APPLY, "w1", "v0"),
        Action(3, UserAction.APPLY, "w2", "v0"),
        Action(20, Fault.PARTITION, "server0", "node1", 20),
        Action(25, UserAction.APPLY, "w3", "v0"),
    )
    scenario = Scenario(7, 0.02, NODES, actions=actions)
    assert play(scenario).violations == []
    with patch.object(FollowedState, "catch_up", lambda *_: None):
        assert {violation.invariant for violation in play(scenario).violations} == {inv.EVENTS}


def test_a_workload_that_waits_after_a_power_cut_has_claimed_no_device() -> None:
    """Seed 1071: the ended container of 'w5' was deleted, and its slot stayed claimed while 'w5' waited for 'w4'."""
    actions = (
        Action(2.019, UserAction.APPLY, "w4", "v0"),
        Action(3.117, UserAction.APPLY, "w5", "v0"),
        Action(13.463, UserAction.APPLY, "w3", "v0"),
        Action(38.508, UserAction.DELETE, "w4"),
        Action(40.241, Fault.POWER_NODE, "node3", seconds=1.595),
    )
    result = play(Scenario(1071, 0.02, ("node1", "node2", "node3"), actions=actions))
    assert result.violations == []
    assert [it.what.split()[0] for it in result.record if " started " in it.what] == ["w4", "w5", "w3"]


def test_a_workload_that_waits_after_a_rollback_is_removed_when_it_is_deleted() -> None:
    """Seed 49: its container was deleted before, so the removal was considered reported, and its state stayed."""
    actions = (
        Action(1.851, UserAction.APPLY, "w5", "v0"),
        Action(1.944, UserAction.APPLY, "w4", "v0"),
        Action(83.77, UserAction.DELETE, "w4"),
        Action(118.256, UserAction.UNDO, "w5", "v9"),
        Action(125.801, UserAction.DELETE, "w5"),
    )
    assert play(Scenario(49, 0.05, ("node1", "node2", "node3"), actions=actions)).violations == []


@pytest.mark.parametrize(("seed", "time"), [(1, 15.2), (3, 15.15), (4, 15.1), (8, 15.1)])
def test_a_container_that_is_removed_while_its_agent_starts_is_made_again(seed: int, time: float) -> None:
    """Found by seed 20746: it was removed between the listing and the resumption, and stayed lost."""
    actions = (
        Action(1, UserAction.APPLY, "w0", "v0"),
        Action(10, Fault.KILL_AGENT, "node1", seconds=5),
        Action(time, Fault.CONTAINER_REMOVED, "w0"),
    )
    assert play(Scenario(seed, 0.01, NODES, actions=actions)).violations == []


def test_a_server_without_any_etcd_member_pauses_between_its_attempts() -> None:
    """Found by seed 23462: 50 attempts to connect per second."""
    members = [Action(20, Fault.KILL_ETCD, f"etcd{number}", seconds=30) for number in range(3)]
    actions = (Action(10, UserAction.APPLY, "w0", "v0"), *members, Action(22, UserAction.DELETE, "w0"))
    assert play(Scenario(3, 0.02, NODES, 1, "etcd", actions=actions)).violations == []
