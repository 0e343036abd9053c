"""Sends a call to the members of an etcd cluster until one responds.

Input: calls. Output: their results; `EtcdUnavailable` if no member responded within the limit, `EtcdRejected` if etcd
rejected the call. Owns one channel for each member, and the authentication token for it.

A call is repeated at the next member after a failure, so every call must be one that can be repeated without harm.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from google.protobuf.message import Message
from msgspec import Struct

from ankaios.grpc.addresses import TcpAddress
from ankaios.grpc.channel import ClientCall, GrpcChannel
from ankaios.grpc.keepalive import Keepalive
from ankaios.grpc.tls import TlsSession
from ankaios.grpc.wire_format import CallFailed, ConnectionBroken, Status
from ankaios.storage.pb.etcd_api_pb2 import AuthenticateRequest, AuthenticateResponse
from ankaios.storage.server_registry import StorageMemberStatus
from ankaios.storage.state_store import StorageFailed

ATTEMPT_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5  # seconds after all members have failed; doubled each time
# etcd closes connections with more frequent pings than one in five seconds.
_KEEPALIVE = Keepalive(interval=6.0, timeout=3.0)
# UNIMPLEMENTED: another program listens at the port of a member that is down.
_TRANSIENT = frozenset(
    {Status.UNAVAILABLE, Status.DEADLINE_EXCEEDED, Status.CANCELLED, Status.ABORTED, Status.UNIMPLEMENTED}
)
_OLD_TOKEN = "revision of auth store is old"

_SERVICES = "/etcdserverpb."
MAX_RESPONSE = 32 * 1024 * 1024

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class EtcdUnavailable(StorageFailed):
    """No member responded. `may_be_done`: a member may have executed the call nevertheless."""

    def __init__(self, text: str, *, may_be_done: bool) -> None:
        super().__init__(text)
        self.may_be_done = may_be_done


class EtcdRejected(StorageFailed):
    """etcd rejects the call. `may_be_done`: an earlier attempt at another member may have been executed."""

    def __init__(self, text: str, status: Status, *, may_be_done: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.may_be_done = may_be_done


class EtcdCredentials(Struct, frozen=True):
    user: str
    password: str

    def __repr__(self) -> str:
        return f"EtcdCredentials({self.user!r})"


class EtcdMember:
    """A member of the cluster. A token is valid for the member that gave it, until that member restarts."""

    def __init__(self, endpoint: TcpAddress, tls: Callable[[str], TlsSession] | None) -> None:
        self.endpoint = endpoint
        self.token: str | None = None
        self.channel = GrpcChannel(
            endpoint,
            tls=None if tls is None else lambda: tls(endpoint.host),
            keepalive=_KEEPALIVE,
            connect_timeout=ATTEMPT_SECONDS,
        )

    async def unary(self, method: str, request: Message, kind: type[M], seconds: float) -> M:
        return await self.channel.unary(
            _SERVICES + method, request, kind, time_limit=seconds, metadata=self._metadata, limit=MAX_RESPONSE
        )

    def call(
        self, method: str, seconds: float, metadata: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[ClientCall]:
        return self.channel.call(
            _SERVICES + method, metadata={**self._metadata, **(metadata or {})}, time_limit=seconds
        )

    @property
    def _metadata(self) -> Mapping[str, str]:
        return {} if self.token is None else {"token": self.token}

    async def prepare(self, credentials: EtcdCredentials | None, seconds: float) -> None:
        """Connect and authenticate if necessary; raises `CallFailed`."""
        try:
            async with asyncio.timeout(seconds):
                await self.channel.connect()
        except TimeoutError as error:
            raise CallFailed(Status.DEADLINE_EXCEEDED, f"no connection within {seconds:.2g} s") from error
        if credentials is not None and self.token is None:
            request = AuthenticateRequest(name=credentials.user, password=credentials.password)
            self.token = (await self.unary("Auth/Authenticate", request, AuthenticateResponse, seconds)).token


class EtcdMembers:
    def __init__(
        self,
        endpoints: Sequence[TcpAddress],
        tls: Callable[[str], TlsSession] | None,
        credentials: EtcdCredentials | None,
    ) -> None:
        self._members = [EtcdMember(endpoint, tls) for endpoint in endpoints]
        self._credentials = credentials
        self._current = 0

    def close(self) -> None:
        for member in self._members:
            member.channel.close()

    async def attempt(
        self, call: Callable[[EtcdMember, float], Awaitable[T]], limit: float, seconds: float = ATTEMPT_SECONDS
    ) -> T:
        """Call members one after the other, each for up to `seconds`, until one responds or the limit is reached."""
        now = asyncio.get_running_loop().time
        deadline, failures, pause = now() + limit, _Failures(), _FIRST_PAUSE
        while (left := deadline - now()) > 0:
            member = self._members[self._current]
            try:
                return await self._attempt_one(member, call, min(left, seconds), failures)
            except CallFailed as failure:
                failures.add(member, failure)
            self._use_next_member(member)
            if failures.count % len(self._members) == 0:
                await asyncio.sleep(min(pause, max(deadline - now(), 0)))
                pause = min(2 * pause, _LONGEST_PAUSE)
        raise EtcdUnavailable(f"etcd did not respond within {limit:g} s{failures}", may_be_done=failures.may_be_done)

    async def call_each(
        self, call: Callable[[EtcdMember, float], Awaitable[object]], seconds: float
    ) -> list[StorageMemberStatus]:
        """Call all members at the same time."""

        async def status(member: EtcdMember) -> StorageMemberStatus:
            problem = ""
            try:
                await self._attempt_one(member, call, seconds, _Failures())
            except CallFailed as failure:
                if failure.status in _TRANSIENT:  # another one is a response, such as to a user without rights
                    problem = failure.text
            return StorageMemberStatus(member.endpoint.authority, problem)

        return await asyncio.gather(*map(status, self._members))

    async def _attempt_one(
        self,
        member: EtcdMember,
        call: Callable[[EtcdMember, float], Awaitable[T]],
        seconds: float,
        failures: "_Failures",
    ) -> T:
        await member.prepare(self._credentials, seconds)
        try:
            return await call(member, seconds)
        except CallFailed as failure:
            if failure.status in _TRANSIENT:
                failures.may_be_done = True
            elif member.token is not None and _is_token_rejected(failure):
                member.token = None
                raise ConnectionBroken(failure.text) from failure
            raise

    def _use_next_member(self, member: EtcdMember) -> None:
        """Unless another call has changed the member already."""
        if self._members[self._current] is member:
            self._current = (self._current + 1) % len(self._members)


class _Failures:
    """The failed attempts of one call."""

    def __init__(self) -> None:
        self.count = 0
        self.may_be_done = False
        self._texts: dict[str, str] = {}

    def add(self, member: EtcdMember, failure: CallFailed) -> None:
        """Raises `EtcdRejected` if another attempt makes no sense."""
        if failure.status not in _TRANSIENT:
            text = f"etcd rejected the request: {failure}"
            raise EtcdRejected(text, failure.status, may_be_done=self.may_be_done) from failure
        self.count += 1
        if failure.status is Status.DEADLINE_EXCEEDED:  # an earlier failure is more precise
            self._texts.setdefault(member.endpoint.authority, failure.text)
        else:
            self._texts[member.endpoint.authority] = str(failure)

    def __str__(self) -> str:
        texts = "; ".join(f"{endpoint}: {text}" for endpoint, text in self._texts.items())
        return f" ({texts})" if texts else ""


def _is_token_rejected(failure: CallFailed) -> bool:
    return failure.status is Status.UNAUTHENTICATED or _OLD_TOKEN in failure.text
