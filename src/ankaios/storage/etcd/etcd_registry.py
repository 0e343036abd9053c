"""The registry of servers in etcd: one key for each server, with a lease.

Input: the publications of this server. Output: the publications of all servers, and who leads. Owns the lease of its
key.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from ankaios.storage.core.etcd_layout import KeySpace, range_end
from ankaios.storage.core.etcd_transactions import put_key
from ankaios.storage.etcd.etcd_client import READ_LIMIT, RETRY_SECONDS, EtcdClient
from ankaios.storage.etcd.etcd_members import EtcdUnavailable
from ankaios.storage.leader_election import Candidate
from ankaios.storage.pb.etcd_api_pb2 import KeyValue, RangeRequest, TxnRequest
from ankaios.storage.server_registry import LeaderInfo, PublishedServer, StorageMemberStatus

LEASE_SECONDS = 10
_MEMBER_LIMIT = 2.0


class EtcdRegistry:
    def __init__(self, client: EtcdClient, keys: KeySpace, name: str) -> None:
        self._client = client
        self._leader = keys.leader
        self._all = keys.servers
        self._key = keys.servers + name.encode()
        self._lease = 0

    async def leaders(self) -> AsyncIterator[LeaderInfo | None]:
        current: LeaderInfo | None = None
        is_first = True
        while True:
            try:
                response = await self._client.read(self._leader)
            except EtcdUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            found = _leader_info(response.kvs[0]) if response.kvs else None
            if is_first or found != current:
                current, is_first = found, False
                yield found
            await self._client.wait_for_change(self._leader, response.header.revision, READ_LIMIT)

    async def publish(self, value: bytes) -> None:
        if self._lease == 0 or await self._client.renew_lease(self._lease, READ_LIMIT, READ_LIMIT) <= 0:
            self._lease, _ = await self._client.grant_lease(LEASE_SECONDS, READ_LIMIT)
        await self._client.txn(TxnRequest(success=[put_key(self._key, value, self._lease)]), READ_LIMIT)

    async def read(self) -> list[PublishedServer]:
        request = RangeRequest(key=self._all, range_end=range_end(self._all))
        response = await self._client.range(request, READ_LIMIT)
        return [PublishedServer(pair.value, pair.mod_revision) for pair in response.kvs]

    async def members(self) -> list[StorageMemberStatus]:
        return await self._client.member_statuses(_MEMBER_LIMIT)

    async def close(self) -> None:
        if self._lease:
            await self._client.revoke_lease(self._lease)
            self._lease = 0


def _leader_info(found: KeyValue) -> LeaderInfo:
    try:
        candidate = msgspec.json.decode(found.value, type=Candidate)
    except msgspec.DecodeError:
        candidate = Candidate("unknown", "")
    return LeaderInfo(candidate.name, candidate.url, found.create_revision)
