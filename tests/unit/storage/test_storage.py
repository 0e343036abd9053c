import pytest

from ankaios.storage.leader_election import SoleElection
from ankaios.storage.state_store import StorageFailed
from ankaios.storage.storage import Storage
from tests.support.memory_store import MemoryStore


class UnresponsiveStore(MemoryStore):
    async def close(self) -> None:
        raise StorageFailed("the disk did not respond")


async def test_a_store_that_cannot_be_closed_does_not_keep_the_leadership_and_the_connections() -> None:
    election, closed = SoleElection(), []
    leadership = await election.campaign()
    storage = Storage(UnresponsiveStore(), election, close_client=lambda: closed.append("client"))
    with pytest.raises(StorageFailed, match="the disk did not respond"):
        await storage.close()
    assert not leadership.is_valid
    assert closed == ["client"]
