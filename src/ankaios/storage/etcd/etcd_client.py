"""The calls of etcd's v3 API that the store and the election need.

Input: requests. Output: responses, or the errors of `etcd_members.py`. Every call has a limit in seconds.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from google.protobuf.message import Message

from ankaios.grpc.addresses import TcpAddress
from ankaios.grpc.tls import TlsSession
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, Status
from ankaios.storage.etcd.etcd_members import EtcdCredentials, EtcdMember, EtcdMembers, EtcdRejected
from ankaios.storage.pb.etcd_api_pb2 import (
    CompactionRequest,
    CompactionResponse,
    LeaseGrantRequest,
    LeaseGrantResponse,
    LeaseKeepAliveRequest,
    LeaseKeepAliveResponse,
    LeaseRevokeRequest,
    LeaseRevokeResponse,
    RangeRequest,
    RangeResponse,
    StatusRequest,
    StatusResponse,
    TxnRequest,
    TxnResponse,
    WatchCreateRequest,
    WatchRequest,
    WatchResponse,
)
from ankaios.storage.server_registry import StorageMemberStatus
from ankaios.storage.state_store import StorageFailed

_NEEDS_LEADER = {"hasleader": "true"}  # a member that has lost the other members ends the stream
_WATCH_PAUSE = 0.5  # seconds after a watch that has failed
_REVOKE_LIMIT = 1.0
READ_LIMIT = 5.0  # seconds
RETRY_SECONDS = 0.5  # after a read that has failed

M = TypeVar("M", bound=Message)


class EtcdClient:
    def __init__(
        self,
        endpoints: Sequence[TcpAddress],
        *,
        tls: Callable[[str], TlsSession] | None = None,
        credentials: EtcdCredentials | None = None,
    ) -> None:
        """`tls` makes the session for a host."""
        self._members = EtcdMembers(endpoints, tls, credentials)

    def close(self) -> None:
        self._members.close()

    async def range(self, request: RangeRequest, limit: float) -> RangeResponse:
        return await self._unary("KV/Range", request, RangeResponse, limit)

    async def read(self, key: bytes, limit: float = READ_LIMIT) -> RangeResponse:
        """Read one key, which may not exist."""
        return await self.range(RangeRequest(key=key), limit)

    async def txn(self, request: TxnRequest, limit: float) -> TxnResponse:
        return await self._unary("KV/Txn", request, TxnResponse, limit)

    async def compact(self, revision: int, limit: float) -> None:
        """Forget the history of all keys before this revision of etcd."""
        try:
            await self._unary("KV/Compact", CompactionRequest(revision=revision), CompactionResponse, limit)
        except EtcdRejected as rejected:
            if rejected.status is not Status.OUT_OF_RANGE:  # it has been compacted already
                raise

    async def status(self, limit: float) -> StatusResponse:
        """The status of one member."""
        return await self._unary("Maintenance/Status", StatusRequest(), StatusResponse, limit)

    async def member_statuses(self, limit: float) -> list[StorageMemberStatus]:
        """Read a key from each member. A member that has lost the others does not respond."""
        request = RangeRequest(key=b"\0")
        return await self._members.call_each(
            lambda member, seconds: member.unary("KV/Range", request, RangeResponse, seconds), limit
        )

    async def _unary(self, method: str, request: Message, kind: type[M], limit: float) -> M:
        return await self._members.attempt(lambda member, seconds: member.unary(method, request, kind, seconds), limit)

    async def grant_lease(self, seconds: int, limit: float) -> tuple[int, int]:
        """Create a lease; return its number and its time to live."""
        lease = secrets.randbits(62) | 1  # chosen here, so that the request can be repeated
        request = LeaseGrantRequest(TTL=seconds, ID=lease)
        try:
            return lease, (await self._unary("Lease/LeaseGrant", request, LeaseGrantResponse, limit)).TTL
        except EtcdRejected as rejected:
            if "lease already exists" in str(rejected):  # an earlier attempt was successful
                return lease, seconds
            raise

    async def revoke_lease(self, lease: int) -> None:
        """All keys of the lease are deleted. If etcd cannot be reached, the lease expires."""
        with suppress(StorageFailed):
            await self._unary("Lease/LeaseRevoke", LeaseRevokeRequest(ID=lease), LeaseRevokeResponse, _REVOKE_LIMIT)

    async def renew_lease(self, lease: int, limit: float, attempt: float) -> int:
        """Return the new time to live; 0 if the lease does not exist any more."""

        async def renew(member: EtcdMember, seconds: float) -> int:
            async with member.call("Lease/LeaseKeepAlive", seconds) as call:
                await call.send(LeaseKeepAliveRequest(ID=lease))
                response = await call.receive(LeaseKeepAliveResponse)
                if response is None:
                    raise ConnectionBroken("etcd ended the stream without a response")
                return response.TTL

        return await self._members.attempt(renew, limit, attempt)

    async def wait_for_change(self, key: bytes, revision: int, limit: float) -> None:
        """Return when the key has changed since this revision of etcd; also if the limit is reached or the watch fails,
        so the caller reads the key afterwards.
        """
        create = WatchCreateRequest(key=key, start_revision=revision + 1)

        async def watch(member: EtcdMember, seconds: float) -> bool:
            """Whether the key has changed or the limit is reached; else the watch has failed."""
            try:
                async with member.call("Watch/Watch", seconds, _NEEDS_LEADER) as call:
                    await call.send(WatchRequest(create_request=create))
                    while (response := await call.receive(WatchResponse)) is not None and not response.canceled:
                        if response.events:
                            return True
                return False
            except CallFailed as failure:
                if failure.status is not Status.DEADLINE_EXCEEDED:
                    raise
                return True

        with suppress(StorageFailed):
            if await self._members.attempt(watch, limit, limit):
                return
        await asyncio.sleep(_WATCH_PAUSE)
