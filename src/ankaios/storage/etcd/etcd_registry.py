"""The registry of servers in etcd: one key for each server, with a lease.

Input: the publications of this server. Output: the publications of all servers. Owns the lease of its key.
"""

import secrets
from contextlib import suppress

from ankaios.storage.core.etcd_layout import KeySpace, range_end
from ankaios.storage.core.etcd_transactions import put_key
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.pb.etcd_api_pb2 import RangeRequest, TxnRequest
from ankaios.storage.server_registry import PublishedServer, StorageMemberStatus
from ankaios.storage.state_store import StorageFailed

LEASE_SECONDS = 10
_LIMIT, _REVOKE_LIMIT, _MEMBER_LIMIT = 5.0, 1.0, 2.0


class EtcdRegistry:
    def __init__(self, client: EtcdClient, keys: KeySpace, name: str) -> None:
        self._client = client
        self._all = keys.servers
        self._key = keys.servers + name.encode()
        self._lease = 0

    async def publish(self, value: bytes) -> None:
        if self._lease == 0 or await self._client.renew_lease(self._lease, _LIMIT, _LIMIT) <= 0:
            self._lease = secrets.randbits(62) | 1
            await self._client.grant_lease(self._lease, LEASE_SECONDS, _LIMIT)
        await self._client.txn(TxnRequest(success=[put_key(self._key, value, self._lease)]), _LIMIT)

    async def read(self) -> list[PublishedServer]:
        request = RangeRequest(key=self._all, range_end=range_end(self._all))
        response = await self._client.range(request, _LIMIT)
        return [PublishedServer(pair.value, pair.mod_revision) for pair in response.kvs]

    async def members(self) -> list[StorageMemberStatus]:
        problems = await self._client.member_problems(_MEMBER_LIMIT)
        return [StorageMemberStatus(str(endpoint), problem) for endpoint, problem in problems.items()]

    async def close(self) -> None:
        if self._lease:
            with suppress(StorageFailed):  # else it ends by itself
                await self._client.revoke_lease(self._lease, _REVOKE_LIMIT)
            self._lease = 0
