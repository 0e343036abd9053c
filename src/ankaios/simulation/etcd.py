"""A simulated etcd cluster: the calls that the product uses, on our gRPC server, over the simulated network.

Input: requests of real `EtcdClient`s, members that fail. Output: responses as etcd gives them. Owns keys, leases and
the revision. The members share one store, which stands for Raft: a member answers only while most members are alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

from msgspec import Struct

from ankaios.grpc.server import GrpcServer, server_streaming, unary
from ankaios.grpc.server_call import ServerCall
from ankaios.grpc.wire_format import CallFailed, Status
from ankaios.simulation.network import SimulatedNetwork
from ankaios.simulation.scenario import MEMBER_HOSTS
from ankaios.simulation.virtual_time import SimulatedProcess, current_process
from ankaios.storage.pb.etcd_api_pb2 import (
    CompactionRequest,
    CompactionResponse,
    Compare,
    Event,
    KeyValue,
    LeaseGrantRequest,
    LeaseGrantResponse,
    LeaseKeepAliveRequest,
    LeaseKeepAliveResponse,
    LeaseRevokeRequest,
    LeaseRevokeResponse,
    RangeRequest,
    RangeResponse,
    RequestOp,
    ResponseHeader,
    ResponseOp,
    StatusRequest,
    StatusResponse,
    TxnRequest,
    TxnResponse,
    WatchRequest,
    WatchResponse,
)

ETCD_PORT = 2379
_ELECTION = 0.5  # seconds without service after a member was lost


class _Entry(Struct):
    value: bytes
    create_revision: int
    lease: int


class EtcdData:
    """The replicated state. Every write is durable, as etcd's are."""

    def __init__(self) -> None:
        self.revision = 1
        self._entries: dict[bytes, _Entry] = {}
        self._leases: dict[int, tuple[float, float]] = {}  # time to live, end
        self._last_changes: dict[bytes, int] = {}
        self._changed = asyncio.Event()

    def expire(self, now: float) -> None:
        for lease in [lease for lease, (_, end) in self._leases.items() if end <= now]:
            self.revoke(lease)

    def prolong_leases(self, now: float) -> None:
        """A new Raft leader extends all leases by their time to live."""
        self._leases = {lease: (ttl, now + ttl) for lease, (ttl, _) in self._leases.items()}

    def range(self, request: RangeRequest) -> RangeResponse:
        names = self._names(request.key, request.range_end)
        limit = request.limit or len(names)
        kvs = [self._key_value(name) for name in names[:limit]]
        return RangeResponse(header=self._header(), kvs=kvs, more=len(names) > limit)

    def txn(self, request: TxnRequest) -> TxnResponse:
        succeeded = all(map(self._holds, request.compare))
        operations = request.success if succeeded else request.failure
        if any(each.WhichOneof("request") != "request_range" for each in operations):
            self.revision += 1
        responses = [self._apply(each) for each in operations]
        self._notify()
        return TxnResponse(header=self._header(), succeeded=succeeded, responses=responses)

    def grant(self, lease: int, seconds: float, now: float) -> bool:
        if lease in self._leases:
            return False
        self._leases[lease] = (seconds, now + seconds)
        return True

    def renew(self, lease: int, now: float) -> float:
        if lease not in self._leases:
            return 0
        seconds, _ = self._leases[lease]
        self._leases[lease] = (seconds, now + seconds)
        return seconds

    def revoke(self, lease: int) -> bool:
        if self._leases.pop(lease, None) is None:
            return False
        names = [name for name, entry in self._entries.items() if entry.lease == lease]
        if names:
            self.revision += 1
            for name in names:
                self._delete(name)
            self._notify()
        return True

    async def wait_for_change(self, key: bytes, revision: int) -> None:
        """Wait for a change of the key at or after this revision."""
        while self._last_changes.get(key, 0) < revision:
            changed = self._changed
            await changed.wait()

    def _delete(self, name: bytes) -> None:
        del self._entries[name]
        self._last_changes[name] = self.revision

    def _names(self, key: bytes, end: bytes) -> list[bytes]:
        if not end:
            return [key] if key in self._entries else []
        return sorted(name for name in self._entries if name >= key and (end == b"\0" or name < end))

    def _key_value(self, name: bytes) -> KeyValue:
        entry = self._entries[name]
        return KeyValue(key=name, value=entry.value, create_revision=entry.create_revision, lease=entry.lease)

    def _holds(self, compare: Compare) -> bool:
        entry = self._entries.get(compare.key)
        if compare.target == Compare.CREATE:
            return (entry.create_revision if entry else 0) == compare.create_revision
        return entry is not None and entry.value == compare.value

    def _apply(self, operation: RequestOp) -> ResponseOp:
        response = ResponseOp()
        match operation.WhichOneof("request"):
            case "request_range":
                response.response_range.CopyFrom(self.range(operation.request_range))
            case "request_put":
                put = operation.request_put
                if put.lease and put.lease not in self._leases:
                    raise CallFailed(Status.NOT_FOUND, "etcdserver: requested lease not found")
                before = self._entries.get(put.key)
                created = before.create_revision if before else self.revision
                self._entries[put.key] = _Entry(put.value, created, put.lease)
                self._last_changes[put.key] = self.revision
                response.response_put.SetInParent()
            case _:
                delete = operation.request_delete_range
                for name in self._names(delete.key, delete.range_end):
                    self._delete(name)
                response.response_delete_range.SetInParent()
        return response

    def _header(self) -> ResponseHeader:
        return ResponseHeader(revision=self.revision)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class SimulatedEtcd:
    """The cluster. Its members run on `MEMBER_HOSTS`."""

    def __init__(self, network: SimulatedNetwork) -> None:
        self._network = network
        self.data = EtcdData()
        self._alive: dict[str, SimulatedProcess] = {}
        self._elected_at = 0.0

    @property
    def url(self) -> str:
        return f"etcd://{','.join(f'{host}:{ETCD_PORT}' for host in MEMBER_HOSTS)}/ankaios"

    def start_member(self, host: str) -> None:
        if host in self._alive:
            return
        process = SimulatedProcess(f"etcd member {host}", host)
        self._alive[host] = process
        process.start(self._serve())

    def kill_member(self, host: str) -> None:
        process = self._alive.pop(host, None)
        if process is not None:
            process.kill()
            now = asyncio.get_running_loop().time()
            self._elected_at = now + _ELECTION
            self.data.prolong_leases(now + _ELECTION)

    async def _serve(self) -> None:
        server = GrpcServer(
            {
                "/etcdserverpb.KV/Range": unary(RangeRequest, self._range),
                "/etcdserverpb.KV/Txn": unary(TxnRequest, self._txn),
                "/etcdserverpb.KV/Compact": unary(CompactionRequest, self._compact),
                "/etcdserverpb.Maintenance/Status": unary(StatusRequest, self._status),
                "/etcdserverpb.Lease/LeaseGrant": unary(LeaseGrantRequest, self._grant),
                "/etcdserverpb.Lease/LeaseRevoke": unary(LeaseRevokeRequest, self._revoke),
                "/etcdserverpb.Lease/LeaseKeepAlive": self._keep_alive,
                "/etcdserverpb.Watch/Watch": server_streaming(WatchRequest, self._watch),
            }
        )
        server.listen_on(self._network.listening_socket(ETCD_PORT))  # type: ignore[arg-type]
        await asyncio.Event().wait()

    async def _ready(self) -> float:
        """Wait until this member is one of most members that have a leader; return the present time."""
        clock = asyncio.get_running_loop().time
        while not self._has_majority() or clock() < self._elected_at:  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # the members notice by themselves
        self.data.expire(clock())
        return clock()

    def _has_majority(self) -> bool:
        process = current_process()
        assert process is not None, "members are processes"
        own = process.host
        reached = [host for host in self._alive if host == own or self._network.is_reachable(own, host)]
        return len(reached) * 2 > len(MEMBER_HOSTS)

    async def _range(self, request: RangeRequest, _: Mapping[str, str]) -> RangeResponse:
        await self._ready()
        return self.data.range(request)

    async def _txn(self, request: TxnRequest, _: Mapping[str, str]) -> TxnResponse:
        await self._ready()
        return self.data.txn(request)

    async def _compact(self, _request: CompactionRequest, _: Mapping[str, str]) -> CompactionResponse:
        await self._ready()
        return CompactionResponse()

    async def _status(self, _request: StatusRequest, _: Mapping[str, str]) -> StatusResponse:
        return StatusResponse(dbSize=1)

    async def _grant(self, request: LeaseGrantRequest, _: Mapping[str, str]) -> LeaseGrantResponse:
        if not self.data.grant(request.ID, request.TTL, await self._ready()):
            raise CallFailed(Status.FAILED_PRECONDITION, "etcdserver: lease already exists")
        self._expire_later(request.TTL)
        return LeaseGrantResponse(TTL=request.TTL)

    async def _revoke(self, request: LeaseRevokeRequest, _: Mapping[str, str]) -> LeaseRevokeResponse:
        await self._ready()
        if not self.data.revoke(request.ID):
            raise CallFailed(Status.NOT_FOUND, "etcdserver: requested lease not found")
        return LeaseRevokeResponse()

    async def _keep_alive(self, call: ServerCall) -> None:
        call.accept()
        while (request := await call.receive(LeaseKeepAliveRequest)) is not None:
            left = self.data.renew(request.ID, await self._ready())
            self._expire_later(left)
            await call.send(LeaseKeepAliveResponse(TTL=int(left)))

    def _expire_later(self, seconds: float) -> None:
        """etcd ends a lease by itself, so that watches notice it."""
        loop = asyncio.get_running_loop()
        loop.call_later(seconds + 0.01, lambda: self.data.expire(loop.time()))

    async def _watch(self, request: WatchRequest, _: Mapping[str, str]) -> AsyncGenerator[WatchResponse, None]:
        await self._ready()
        create = request.create_request
        await self.data.wait_for_change(create.key, create.start_revision)
        yield WatchResponse(events=[Event()])
        await asyncio.Event().wait()
