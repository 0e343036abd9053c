"""The calls of etcd's v3 API that the store and the election need.

Input: requests. Output: responses, or the errors of `etcd_members.py`. Every call has a limit in seconds.
"""

import asyncio
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
from ankaios.storage.state_store import StorageFailed

MAX_RESPONSE = 32 * 1024 * 1024
_NEEDS_LEADER = {"hasleader": "true"}  # a member that has lost the other members ends the stream
_WATCH_PAUSE = 0.5  # seconds after a watch that has failed

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

    async def member_problems(self, limit: float) -> dict[TcpAddress, str]:
        """Why each member does not respond; empty if it does. A member that has lost the others does not respond."""

        async def read(member: EtcdMember, seconds: float) -> None:
            request, path = RangeRequest(key=b"\0"), "/etcdserverpb.KV/Range"
            await member.channel.unary(path, request, RangeResponse, time_limit=seconds, metadata=member.metadata)

        return await self._members.ask_each(read, limit)

    async def _unary(self, method: str, request: Message, kind: type[M], limit: float) -> M:
        async def call(member: EtcdMember, seconds: float) -> M:
            path = f"/etcdserverpb.{method}"
            return await member.channel.unary(
                path, request, kind, time_limit=seconds, metadata=member.metadata, limit=MAX_RESPONSE
            )

        return await self._members.attempt(call, limit)

    async def grant_lease(self, lease: int, seconds: int, limit: float) -> int:
        """Create a lease with this number, and return its time to live."""
        request = LeaseGrantRequest(TTL=seconds, ID=lease)
        try:
            return (await self._unary("Lease/LeaseGrant", request, LeaseGrantResponse, limit)).TTL
        except EtcdRejected as rejected:
            if "lease already exists" in str(rejected):  # an earlier attempt was successful
                return seconds
            raise

    async def revoke_lease(self, lease: int, limit: float) -> None:
        """All keys of the lease are deleted."""
        try:
            await self._unary("Lease/LeaseRevoke", LeaseRevokeRequest(ID=lease), LeaseRevokeResponse, limit)
        except EtcdRejected as rejected:
            if rejected.status is not Status.NOT_FOUND:
                raise

    async def renew_lease(self, lease: int, limit: float, attempt: float) -> int:
        """Return the new time to live; 0 if the lease does not exist any more."""

        async def renew(member: EtcdMember, seconds: float) -> int:
            path = "/etcdserverpb.Lease/LeaseKeepAlive"
            async with member.channel.call(path, metadata=member.metadata, time_limit=seconds) as call:
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
            metadata = {**member.metadata, **_NEEDS_LEADER}
            try:
                async with member.channel.call(
                    "/etcdserverpb.Watch/Watch", metadata=metadata, time_limit=seconds
                ) as call:
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
