"""Servers that share an etcd cluster, as the tests of election and faults need them."""

import asyncio
from collections.abc import Callable

from ankaios.grpc.wire_format import Status
from ankaios.storage.core.etcd_layout import KeySpace
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.etcd.etcd_election import EtcdElection, seconds_since_boot
from ankaios.storage.etcd.etcd_members import EtcdRejected, EtcdUnavailable
from ankaios.storage.etcd.etcd_registry import EtcdRegistry
from ankaios.storage.etcd.etcd_store import EtcdStore
from ankaios.storage.leader_election import Candidate, Leadership
from ankaios.storage.pb.etcd_api_pb2 import TxnRequest, TxnResponse
from ankaios.storage.state_store import Stored
from ankaios.storage.storage_url import EtcdLocation

LIMIT = 60.0


class FaultyClient(EtcdClient):
    """A real client that fails on command.

    `before` and `after` are the numbers of transactions, counted from 1, that fail before they are sent, or after etcd
    has executed them; `rejected` are those that etcd executes and then rejects. `is_lost` selects requests that fail
    before they are sent. After the transaction `crash_at` nothing is sent any more. `is_frozen`: renewals are not sent.
    """

    before: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    crash_at: int | None = None
    is_frozen = False
    count = 0
    requests: list[TxnRequest]
    is_lost: Callable[[TxnRequest], bool] = staticmethod(lambda request: False)

    async def txn(self, request: TxnRequest, limit: float) -> TxnResponse:
        self.count += 1
        self.requests.append(request)
        if self.count in self.before or self.is_lost(request):
            raise EtcdUnavailable("the request was lost", may_be_done=True)
        if self.crash_at is not None and self.count > self.crash_at:
            await asyncio.Event().wait()
        response = await super().txn(request, limit)
        if self.count in self.rejected:
            raise EtcdRejected("database space exceeded", Status.RESOURCE_EXHAUSTED)
        if self.count in self.after:
            raise EtcdUnavailable("the response was lost", may_be_done=True)
        return response

    async def renew_lease(self, lease: int, limit: float, attempt: float) -> int:
        if self.is_frozen:
            await asyncio.Event().wait()
        return await super().renew_lease(lease, limit, attempt)


class EtcdServer:
    """The storage of one server."""

    def __init__(
        self, location: EtcdLocation, name: str = "server", clock: Callable[[], float] = seconds_since_boot
    ) -> None:
        self.location = location
        self.client = FaultyClient(location.endpoints)
        self.client.requests = []
        self.keys = KeySpace(location.prefix)
        self.election = EtcdElection(self.client, self.keys, Candidate(name, f"http://{name}:25551"), clock=clock)
        self.registry = EtcdRegistry(self.client, self.keys, name)
        self.store = EtcdStore(self.client, self.keys, self.election, str(location))

    @property
    def term(self) -> int:
        assert self.election.leadership is not None
        return self.election.leadership.term

    async def lead(self) -> Leadership:
        return await asyncio.wait_for(self.election.campaign(), LIMIT)

    async def lead_and_load(self) -> Stored:
        await self.lead()
        self.client.count = 0
        stored = await self.store.load()
        self.client.count = 0
        self.client.requests.clear()
        return stored

    async def close(self) -> None:
        await self.store.close()
        await self.election.resign()
        self.client.close()
