"""The servers that share the state, for `ank get servers`.

Input: facts about this server and its storage, and the announcements of other servers. Output: one `ServerInfo` for
each server. Owns when each server was last seen. A server that does not lead has no state in memory: its lag is the
time since it was seen.
"""

import time
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from ankaios import __version__
from ankaios.common.pb.ank_base_pb2 import ServerInfo, StorageMember
from ankaios.storage.leader_election import Candidate
from ankaios.storage.server_registry import PublishedServer, StorageMemberStatus
from ankaios.storage.state_store import StoreStatus

PUBLISH_SECONDS = 2.0


class ServerAnnouncement(Struct, frozen=True):
    name: str
    url: str
    version: str


class KnownServers:
    """`clock` gives seconds; its start does not matter."""

    def __init__(self, own: Candidate, clock: Callable[[], float] = time.monotonic) -> None:
        self._own = own
        self._clock = clock
        self._seen: dict[str, tuple[int, float, ServerAnnouncement]] = {}
        self.members: list[StorageMemberStatus] = []  # of the storage

    def announcement(self) -> bytes:
        return msgspec.json.encode(ServerAnnouncement(self._own.name, self._own.url, __version__))

    def update(self, published: Iterable[PublishedServer]) -> None:
        """Take over what the registry contains now. An entry that cannot be read is of a later version: ignored."""
        seen: dict[str, tuple[int, float, ServerAnnouncement]] = {}
        for each in published:
            try:
                server = msgspec.json.decode(each.value, type=ServerAnnouncement)
            except msgspec.DecodeError:
                continue
            before = self._seen.get(server.name)
            seen_at = before[1] if before is not None and before[0] == each.version else self._clock()
            seen[server.name] = (each.version, seen_at, server)
        self._seen = seen

    def infos(self, term: int, status: StoreStatus, problem: str | None) -> list[ServerInfo]:
        """This server leads, so it comes first."""
        own = ServerInfo(
            name=self._own.name,
            url=self._own.url,
            leader=True,
            term=term,
            version=__version__,
            storage=status.location,
            revision=status.revision,
            problem=problem or status.problem or "",
            members=[StorageMember(name=member.name, problem=member.problem) for member in self.members],
        )
        now = self._clock()
        others = [
            ServerInfo(name=name, url=server.url, version=server.version, lagMs=round((now - seen_at) * 1000))
            for name, (_, seen_at, server) in sorted(self._seen.items())
            if name != self._own.name
        ]
        return [own, *others]
