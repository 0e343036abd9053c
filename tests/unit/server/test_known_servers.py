from ankaios.server.known_servers import KnownServers
from ankaios.storage.leader_election import Candidate
from ankaios.storage.server_registry import PublishedServer, StorageMemberStatus
from ankaios.storage.state_store import StoreStatus

STATUS = StoreStatus("etcd", "etcd://h:1/p", 7, 0, None)


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


def published(name: str, version: int) -> PublishedServer:
    return PublishedServer(KnownServers(Candidate(name, f"http://{name}")).announcement(), version)


def test_the_leader_comes_first_with_the_storage() -> None:
    known = KnownServers(Candidate("b", "http://b"))
    known.update([published("a", 1), published("b", 2)])
    leader, standby = known.infos(5, STATUS, None)
    assert (leader.name, leader.leader, leader.term, leader.revision) == ("b", True, 5, 7)
    assert leader.storage == "etcd://h:1/p"
    assert (standby.name, standby.leader, standby.url) == ("a", False, "http://a")


def test_the_lag_is_the_time_since_the_last_publication() -> None:
    clock = Clock()
    known = KnownServers(Candidate("b", ""), clock)
    known.update([published("a", 1)])
    clock.now = 12.0
    known.update([published("a", 1)])
    assert known.infos(0, STATUS, None)[1].lagMs == 2000
    known.update([published("a", 2)])
    assert known.infos(0, STATUS, None)[1].lagMs == 0
    known.update([])
    assert len(known.infos(0, STATUS, None)) == 1


def test_a_problem_is_part_of_the_leader_and_unreadable_entries_are_ignored() -> None:
    known = KnownServers(Candidate("b", ""))
    known.update([PublishedServer(b"{", 1)])
    (leader,) = known.infos(0, STATUS, "a part of the state is lost")
    assert leader.problem == "a part of the state is lost"


def test_the_members_of_the_storage_are_part_of_the_leader() -> None:
    known = KnownServers(Candidate("b", ""))
    known.members = [StorageMemberStatus("h1:2379", ""), StorageMemberStatus("h2:2379", "Connection refused")]
    (leader,) = known.infos(5, STATUS, None)
    assert [(member.name, member.problem) for member in leader.members] == [
        ("h1:2379", ""),
        ("h2:2379", "Connection refused"),
    ]
