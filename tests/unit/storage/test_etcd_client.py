import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

import pytest

from ankaios.grpc.addresses import TcpAddress
from ankaios.grpc.wire_format import CallFailed, Status
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.etcd.etcd_members import EtcdMember
from ankaios.storage.pb.etcd_api_pb2 import Event, WatchRequest, WatchResponse

CREATED = WatchResponse()
CHANGED = WatchResponse(events=[Event()])
CANCELED = WatchResponse(canceled=True)


class WatchCall(AbstractAsyncContextManager["WatchCall"]):
    """The call of a watch: the received messages, and then None, as at the end of a stream."""

    def __init__(self, *received: WatchResponse | CallFailed) -> None:
        self._received = list(received)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        pass

    async def send(self, request: WatchRequest) -> None:
        assert request.create_request.start_revision == 8

    async def receive(self, _: type[WatchResponse]) -> WatchResponse | None:
        found = self._received.pop(0) if self._received else None
        if isinstance(found, CallFailed):
            raise found
        return found


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def prepare(*_: object) -> None:
        pass

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(EtcdMember, "prepare", prepare)
    return waited


async def watch(monkeypatch: pytest.MonkeyPatch, *received: WatchResponse | CallFailed) -> None:
    client = EtcdClient([TcpAddress("host", 1)])
    (member,) = client._members._members
    monkeypatch.setattr(member.channel, "call", lambda *_, **__: WatchCall(*received))
    await client.wait_for_change(b"/leader", 7, 5.0)


@pytest.mark.parametrize("last", [CHANGED, CallFailed(Status.DEADLINE_EXCEEDED, "no change")])
async def test_the_caller_reads_the_key_immediately_after_a_change_or_at_the_limit(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float], last: WatchResponse | CallFailed
) -> None:
    await watch(monkeypatch, CREATED, last)
    assert pauses == []


@pytest.mark.parametrize(
    "received",
    [
        [CallFailed(Status.INTERNAL, "a proxy supports no watches")],
        [CallFailed(Status.PERMISSION_DENIED, "no rights")],
        [CREATED, CANCELED],
        [CREATED],
    ],
)
async def test_the_caller_does_not_read_the_key_immediately_after_a_rejected_watch(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float], received: list[WatchResponse | CallFailed]
) -> None:
    """Otherwise a standby server would call etcd continuously."""
    await watch(monkeypatch, *received)
    assert pauses == [0.5]
